use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::mode::Mode;
use crate::name::LockName;
use crate::token::{Fence, Token};

/// A hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Holder {
    /// The token; `None` for another library's value.
    pub token: Option<Token>,
    /// The identity, if known.
    pub identity: Option<Identity>,
    /// The mode.
    pub mode: Mode,
    /// The fence, if known.
    pub fence: Option<Fence>,
    /// The time until expiry; `None` if unknown or endless.
    pub remaining: Option<Duration>,
    /// True for another library's hold that never expires.
    #[serde(default)]
    pub endless: bool,
    /// The operator and the reason, if the hold is broken.
    pub broken: Option<String>,
}

impl Holder {
    /// Creates an exclusive holder.
    pub const fn new(token: Option<Token>) -> Self {
        Self {
            token,
            identity: None,
            mode: Mode::Exclusive,
            fence: None,
            remaining: None,
            endless: false,
            broken: None,
        }
    }
}

/// A name and its holders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The name.
    pub name: LockName,
    /// The holders.
    pub holders: Vec<Holder>,
    /// The queued claims, if known.
    pub waiters: Option<u64>,
    /// The highest granted fence, if known.
    pub fence: Option<Fence>,
}

impl Inspection {
    /// Creates the inspection of a free name.
    pub const fn free(name: LockName) -> Self {
        Self { name, holders: Vec::new(), waiters: None, fence: None }
    }
}

/// The start of a next page, for the backend that created it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The held names.
    pub names: Vec<Inspection>,
    /// The next page; `None` after the last. An empty page isn't necessarily the last.
    pub next: Option<Cursor>,
}

/// The hold to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakTarget {
    /// This hold only.
    Token(Token),
    /// The present holder.
    Any,
}

/// How a hold is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakMode {
    /// The hold can't be renewed, and frees the name when it expires. Keeps exclusion.
    RunOut,
    /// The name is free at once. The old holder and the next may overlap until the old one is notified.
    Now,
}

/// The outcome of a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// Nothing was changed.
    NotHeld,
    /// The hold expires in this time.
    RunsOut(Duration),
    /// The old holder may continue for this time.
    Freed(Duration),
}

impl Broken {
    /// Combines two outcomes; the longer time counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::RunsOut(one), Self::RunsOut(other)) => Self::RunsOut(one.max(other)),
            (Self::Freed(one), Self::Freed(other)) => Self::Freed(one.max(other)),
            (one, Self::NotHeld) => one,
            (_, other) => other,
        }
    }
}

/// A severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information only.
    Note,
    /// A guarantee is weaker than it appears.
    Warning,
    /// The lock isn't safe.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// A stable name, such as `eviction-policy`.
    pub code: &'static str,
    /// The problem.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// How to fix it.
    pub fix: String,
}

/// The result of a sweep step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SweepReport {
    /// Removed records.
    pub rows: u64,
    /// True if more remains.
    pub more: bool,
}
