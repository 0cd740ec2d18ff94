//! What a run found: the stable format of its JSON.
//!
//! Everything a report says comes from this, so that a report can be made anew, and two runs compared.
//! Fields are only ever added; a change of meaning is another [`FORMAT`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The number of this format.
pub const FORMAT: u32 = 1;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// When it began, as in `2026-11-22T08:00:00Z`.
    pub made: String,
    /// How long it took.
    pub seconds: f64,
    /// What it was told to do.
    pub settings: Settings,
    /// What it ran on.
    pub machine: Machine,
    /// The versions of the servers and of the compiler, by what they are of.
    pub versions: BTreeMap<String, String>,
    /// All who took part.
    pub contestants: Vec<Contestant>,
    /// Peers that couldn't be built, and why.
    pub missing: Vec<Missing>,
    /// Whether each excludes, seen before it was timed.
    pub exclusion: Vec<Exclusion>,
    /// What was measured.
    pub cells: Vec<Cell>,
    /// Where the time of ours goes, of the cells that the report says more of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
}

/// What a run was told to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How often each cell was measured.
    pub rounds: usize,
    /// Whether it was only to see that everything works: its figures mean nothing.
    pub smoke: bool,
}

/// What a run was made on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many of its cores there are.
    pub cores: usize,
    /// How much memory.
    pub memory_bytes: u64,
    /// The operating system's.
    pub kernel: String,
}

/// Somebody who took part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contestant {
    /// What the tables call it.
    pub name: String,
    /// What it is here.
    pub kind: Kind,
    /// The library and its version.
    pub library: String,
    /// The language's version.
    pub runtime: String,
    /// What a reader must know of it.
    pub notes: Vec<String>,
}

/// What a contestant is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Lockwright.
    Ours,
    /// An earlier build of Lockwright.
    Before,
    /// The bare commands, through the same client library as ours.
    Floor,
    /// Another library.
    Peer,
}

/// A peer that couldn't take part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Who.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A check of mutual exclusion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exclusion {
    /// On which backend.
    pub backend: String,
    /// Who.
    pub contestant: String,
    /// How many turns were looked at.
    pub turns: usize,
    /// How many of them began before another one's had ended: more than none, and it isn't timed.
    pub overlaps: usize,
    /// What went wrong, if something did: it isn't timed either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One contestant's figures of one thing that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// On which backend.
    pub backend: String,
    /// Doing what: a [`crate::Workload`]'s id.
    pub workload: String,
    /// With how many: waiters, holds, processes; 0 where there is no such number.
    pub at: u64,
    /// On which cores.
    pub regime: Regime,
    /// Who.
    pub contestant: String,
    /// By its name, what came out in each round, in their order. Ratios are between those of the same
    /// round. The name says the unit.
    pub measures: BTreeMap<String, Vec<f64>>,
    /// Of all rounds' waits or pairs together: share of them, from 0 to 1, and the microseconds that
    /// none of this share exceeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distribution: Vec<(f64, f64)>,
    /// Why there are no figures, or fewer, or what they don't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Which cores were used. The loopback of a machine behaves in two ways, and a program that is free to
/// move flips between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    /// Servers and contestants share one core: what counts is processor time.
    OneCore,
    /// The servers have one, the contestants another: what counts is round trips.
    TwoCores,
}

impl Regime {
    /// Both.
    pub const ALL: [Self; 2] = [Self::OneCore, Self::TwoCores];

    /// As it is called in the JSON.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::OneCore => "one-core",
            Self::TwoCores => "two-cores",
        }
    }
}

/// Where the time of one contestant goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// On which backend.
    pub backend: String,
    /// Doing what.
    pub workload: String,
    /// On which cores.
    pub regime: Regime,
    /// Who.
    pub contestant: String,
    /// How it was made.
    pub by: String,
    /// Shares of its processor time, from 0 to 1, the largest first: of what, and how much.
    pub shares: Vec<(String, f64)>,
}
