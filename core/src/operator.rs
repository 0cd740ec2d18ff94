//! What an operator sees and does.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::mode::Mode;
use crate::name::LockName;
use crate::token::{Fence, Token};

/// One hold, as the server shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Holder {
    /// The hold's token; `None` for a holder that isn't one of ours (its value isn't a token).
    pub token: Option<Token>,
    /// Who, if the server has it.
    pub identity: Option<Identity>,
    /// How it holds.
    pub mode: Mode,
    /// Its fence, where it has one and the server shows it.
    pub fence: Option<Fence>,
    /// When it runs out if nobody renews it; `None` when the server doesn't tell, or never ends it.
    pub remaining: Option<Duration>,
    /// Whether the server never ends it by itself: another library's, which has no end.
    #[serde(default)]
    pub endless: bool,
    /// Who broke it and why, when it was broken and is running out.
    pub broken: Option<String>,
}

impl Holder {
    /// An exclusive holder of whom only the token is known.
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
    /// Who holds it now; empty when it is free.
    pub holders: Vec<Holder>,
    /// How many claims queue on the server, where the server knows.
    pub waiters: Option<u64>,
    /// The highest fence ever granted for it, where the server keeps it.
    pub fence: Option<Fence>,
}

impl Inspection {
    /// A free name.
    pub const fn free(name: LockName) -> Self {
        Self { name, holders: Vec::new(), waiters: None, fence: None }
    }
}

/// Where the next page of a listing begins. Opaque: made by the backend, given back to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The names that are held.
    pub names: Vec<Inspection>,
    /// Where the next page begins; `None` after the last. A page may be empty and not the last.
    pub next: Option<Cursor>,
}

/// Which hold an operator wants to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The one that was looked at. If another holds by now, nothing is broken.
    Token(Token),
    /// Whoever holds now.
    Any,
}

/// How a hold is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakHow {
    /// It can't be renewed any more, and is free when it runs out. Mutual exclusion is kept.
    RunOut,
    /// It is free at once: the holder goes on believing until it is told, and may overlap with the
    /// next one.
    Now,
}

/// What became of a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// The name is free, or another than the one seen holds it. Nothing was changed.
    NotHeld,
    /// The hold can't be renewed any more and is free in this time.
    RunsOut(Duration),
    /// The name is free. The holder may go on believing for up to this time.
    Freed(Duration),
}

impl Broken {
    /// What became of this hold and of another one of the same name, where several are broken in one go: the
    /// longer time, if both have one.
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

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// A promise holds less far than one may think.
    Warning,
    /// The lock is not safe like this.
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

/// What `doctor` found on a live server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A short stable name for it, in kebab case: `eviction-policy`.
    pub code: &'static str,
    /// What was found.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// How to mend it.
    pub fix: String,
}

/// What one step of a sweep cleared away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Swept {
    /// Traces of holds that ran out or were released, and of tokens that are settled.
    pub rows: u64,
    /// Whether there was more than one step takes.
    pub more: bool,
}
