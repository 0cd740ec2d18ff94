//! The results of a run, in a stable JSON format: fields may be added. A change of a field's
//! meaning needs another [`FORMAT`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub const FORMAT: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub format: u32,
    pub made: String,
    pub seconds: f64,
    pub settings: Settings,
    pub machine: Machine,
    pub versions: BTreeMap<String, String>,
    pub subjects: Vec<Subject>,
    pub missing: Vec<Missing>,
    pub exclusion: Vec<Exclusion>,
    pub cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub rounds: usize,
    /// A smoke run's figures mean nothing.
    pub smoke: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    pub name: String,
    pub kind: Kind,
    pub library: String,
    pub runtime: String,
    pub notes: Vec<String>,
}

/// In the order of the report's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Baseline,
    Ours,
    Before,
    Peer,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    pub name: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exclusion {
    pub backend: String,
    pub subject: String,
    pub turns: usize,
    pub overlaps: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub backend: String,
    pub workload: String,
    /// The workload's number of waiters, holds or processes, or 0.
    pub at: u64,
    pub regime: Regime,
    pub subject: String,
    /// The rounds' figures by measure, whose name includes the unit.
    pub measures: BTreeMap<String, Vec<f64>>,
    /// Quantiles (0 to 1) of waits, or of pairs of acquire and release, in µs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distribution: Vec<(f64, f64)>,
    /// The reason for missing figures, or a caveat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A way to pin processes to cores. The loopback's speed depends on the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    /// Servers and subjects share a core: processor time dominates.
    OneCore,
    /// Servers have one core and subjects another: round trips dominate.
    TwoCores,
}

impl Regime {
    pub const ALL: [Self; 2] = [Self::OneCore, Self::TwoCores];

    pub fn id(self) -> &'static str {
        match self {
            Self::OneCore => "one-core",
            Self::TwoCores => "two-cores",
        }
    }
}
