//! A run's results, in a stable JSON format.
//!
//! Fields are only added; a change of meaning needs another [`FORMAT`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The format's number.
pub const FORMAT: u32 = 2;

/// A complete run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// The start, such as `2026-11-22T08:00:00Z`.
    pub made: String,
    /// The duration.
    pub seconds: f64,
    /// The run's settings.
    pub settings: Settings,
    /// The machine.
    pub machine: Machine,
    /// The servers' and the compiler's versions, by name.
    pub versions: BTreeMap<String, String>,
    /// The subjects.
    pub subjects: Vec<Subject>,
    /// Peers that couldn't be built.
    pub missing: Vec<Missing>,
    /// The checks of mutual exclusion.
    pub exclusion: Vec<Exclusion>,
    /// The measurements.
    pub cells: Vec<Cell>,
    /// Profiles of Lockwright.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
}

/// A run's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The rounds of each cell.
    pub rounds: usize,
    /// True for a smoke run, whose figures mean nothing.
    pub smoke: bool,
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Its cores.
    pub cores: usize,
    /// The memory.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: String,
}

/// A subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The name in the tables.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// The library and its version.
    pub library: String,
    /// The language's version.
    pub runtime: String,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// The kind of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Lockwright.
    Ours,
    /// An earlier build of Lockwright.
    Before,
    /// The baseline.
    Baseline,
    /// Another library.
    Peer,
}

/// A peer that couldn't take part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// The name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// A check of mutual exclusion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exclusion {
    /// The backend.
    pub backend: String,
    /// The subject.
    pub subject: String,
    /// The checked turns.
    pub turns: usize,
    /// The overlapping turns.
    pub overlaps: usize,
    /// The error, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A subject's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The backend.
    pub backend: String,
    /// A [`crate::Workload`]'s id.
    pub workload: String,
    /// The number of waiters, holds or processes, or 0 without one.
    pub at: u64,
    /// The cores.
    pub regime: Regime,
    /// The subject.
    pub subject: String,
    /// The rounds' figures for each measure, whose name has the unit.
    pub measures: BTreeMap<String, Vec<f64>>,
    /// Quantiles (0 to 1) of all waits or pairs, in microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distribution: Vec<(f64, f64)>,
    /// The reason for missing figures, or a caveat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The used cores. A loopback has two speeds, and an unpinned program flips between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    /// One shared core: processor time dominates.
    OneCore,
    /// A core each: round trips dominate.
    TwoCores,
}

impl Regime {
    /// Both regimes.
    pub const ALL: [Self; 2] = [Self::OneCore, Self::TwoCores];

    /// Returns the name in the JSON.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::OneCore => "one-core",
            Self::TwoCores => "two-cores",
        }
    }
}

/// A profile of processor time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The backend.
    pub backend: String,
    /// The workload.
    pub workload: String,
    /// The cores.
    pub regime: Regime,
    /// The subject.
    pub subject: String,
    /// The profiler.
    pub by: String,
    /// Symbols with their shares (0 to 1).
    pub shares: Vec<(String, f64)>,
}
