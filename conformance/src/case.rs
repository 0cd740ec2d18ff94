//! Conformance cases, their requirements and outcomes.

use std::fmt;
use std::pin::Pin;

use lockwright_core::{Fencing, Order, Profile, Scope, WakeUp};
use serde::Serialize;

use crate::context::Context;
use crate::factory::{Factory, Harm, Runtime};
use crate::failure::Verdict;

/// The topic of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Group {
    /// One holder at a time.
    Exclusion,
    /// Holds expire neither early nor late.
    Expiry,
    /// An owner may acquire its lock again.
    Reentrancy,
    /// A release ends only its own hold.
    Misdelete,
    /// Later holds have larger fences.
    Fencing,
    /// Waiters are woken, and time out.
    Waiting,
    /// Waiters are granted in order.
    Order,
    /// A client's requests get a lock in turn, or again, without the server.
    HandOver,
    /// Concurrent readers, exclusive writers.
    Shared,
    /// Semaphores never exceed their permits.
    Permits,
    /// One request acquires several locks.
    Multi,
    /// Leader election.
    Election,
    /// Transfers of holds to another process.
    Tickets,
    /// A protected resource rejects late writes.
    Enforcement,
    /// Operators break holds.
    Breaking,
    /// Renewal of holds.
    Renewal,
    /// Losses are reported in time.
    Loss,
    /// Dropped futures leave no hold.
    Cancellation,
    /// Repeated, late and unanswered requests.
    Repeats,
    /// Valid and invalid names and TTLs.
    Names,
    /// The operators' `inspect`, `list` and `doctor`.
    Operator,
    /// Servers freeze, restart or lose data.
    Servers,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Fences,
    Breakable,
    Tombstones,
    Ghosts,
    Push,
    Recalls,
    Fifo,
    Processes,
    MovedClock,
    Shared,
    Permits,
    Tickets,
    NoTickets,
    KeepsAfterRelease,
    MissingMode,
    Freeze,
    Restart,
    Forget,
    Cut,
    Enforcement,
}

impl Need {
    pub(crate) fn missing(self, profile: &Profile, factory: &Factory) -> Option<&'static str> {
        let can = |harm| factory.harms.contains(&harm);
        let (there, otherwise) = match self {
            Self::Fences => (profile.fencing != Fencing::None, "it has no fences"),
            Self::Breakable => (profile.breakable, "its holds can't be broken"),
            Self::Tombstones => (profile.tombstones, "the backend has no tombstones"),
            Self::Ghosts => (!profile.tombstones, "the backend has tombstones"),
            Self::Push => (profile.wake_up == WakeUp::Push, "waiters poll"),
            Self::Recalls => (profile.recalls, "the backend sends no recalls"),
            Self::Fifo => (profile.order == Order::Fifo, "the backend doesn't promise an order"),
            Self::Processes if profile.scope == Scope::Process => {
                (false, "other processes don't reach the backend's store")
            }
            Self::Processes => {
                (factory.address.is_some(), "the factory has no URL (`Factory::at`)")
            }
            Self::MovedClock => (factory.runtime == Runtime::Paused, "the runtime isn't `Paused`"),
            Self::Freeze => (can(Harm::Freeze), "the factory can't freeze the server"),
            Self::Restart => (can(Harm::Restart), "the factory can't restart the server"),
            Self::Forget => (
                can(Harm::Forget) && profile.fencing == Fencing::Clocked,
                "fences don't outlive the server's data, or the factory can't clear the server",
            ),
            Self::Cut => (can(Harm::Cut), "the factory can't cut a client off from the server"),
            Self::Enforcement => (
                factory.protected.is_some(),
                "the factory has no protected resource that rejects late writes",
            ),
            Self::Shared => (profile.modes.shared, "the backend has no shared locks"),
            Self::Permits => (profile.modes.permits, "the backend has no semaphores"),
            Self::Tickets => (profile.tickets, "the backend has no tickets"),
            Self::NoTickets => (!profile.tickets, "the backend has tickets"),
            Self::KeepsAfterRelease => {
                (profile.keeps_after_release, "a renewal can't set another TTL")
            }
            Self::MissingMode => {
                (!profile.modes.shared || !profile.modes.permits, "it has every mode")
            }
        };
        (!there).then_some(otherwise)
    }
}

pub(crate) type Body = fn(Context) -> Pin<Box<dyn Future<Output = Verdict>>>;

/// A conformance case.
#[derive(Clone, Copy)]
pub struct Case {
    /// The case's group.
    pub group: Group,
    /// The case's unique name.
    pub name: &'static str,
    /// The checked property.
    pub about: &'static str,
    pub(crate) needs: &'static [Need],
    pub(crate) body: Body,
}

impl Case {
    /// Returns `group::name`.
    pub fn path(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "why")]
pub enum Outcome {
    /// Passed.
    Passed,
    /// Failed, with a message.
    Failed(String),
    /// Not run, because of this unmet requirement.
    NotPromised(String),
}

macro_rules! cases {
    ($group:ident: $($name:ident [$($need:ident),*] $about:literal;)*) => {
        &[$($crate::case::Case {
            group: $crate::case::Group::$group,
            name: stringify!($name),
            about: $about,
            needs: &[$($crate::case::Need::$need),*],
            body: |context| Box::pin($name(context)),
        }),*]
    };
}
pub(crate) use cases;
