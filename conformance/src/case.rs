//! A case, its requirements, and its outcome.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use lockwright_core::{Fencing, Order, Profile, Scope, WakeUp};
use serde::Serialize;

use crate::context::Context;
use crate::factory::{Factory, Harm, Runtime};
use crate::failure::Verdict;

/// The subject of a case. Each file of cases is a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Group {
    /// Exclusion across tasks, clients and processes.
    Exclusion,
    /// Holds that aren't renewed expire, neither early nor late.
    Expiry,
    /// One owner, several guards, one hold.
    Reentrancy,
    /// A release ends only its own hold.
    Misdelete,
    /// Later holds have larger fences.
    Fencing,
    /// Waiting, waking, limits.
    Waiting,
    /// First come, first served.
    Order,
    /// Concurrent readers, exclusive writers.
    Shared,
    /// Semaphores never exceed their permits.
    Permits,
    /// Several names in one request.
    Multi,
    /// Leader election.
    Election,
    /// Transfers of holds to another process.
    Tickets,
    /// Late writes, rejected by the protected store.
    Enforcement,
    /// Breaking a lock.
    Breaking,
    /// Renewal of holds.
    Renewal,
    /// Loss of a hold, reported in time.
    Loss,
    /// Futures dropped at each of their await points.
    Cancellation,
    /// Requests that arrive twice, late, or without an answer.
    Repeats,
    /// Names and limits.
    Names,
    /// Views and actions of operators.
    Operator,
    /// Servers that freeze, restart, lose their data, or are cut off.
    Servers,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusion => "exclusion",
            Self::Expiry => "expiry",
            Self::Reentrancy => "reentrancy",
            Self::Misdelete => "misdelete",
            Self::Fencing => "fencing",
            Self::Waiting => "waiting",
            Self::Order => "order",
            Self::Shared => "shared",
            Self::Permits => "permits",
            Self::Multi => "multi",
            Self::Election => "election",
            Self::Tickets => "tickets",
            Self::Enforcement => "enforcement",
            Self::Breaking => "breaking",
            Self::Renewal => "renewal",
            Self::Loss => "loss",
            Self::Cancellation => "cancellation",
            Self::Repeats => "repeats",
            Self::Names => "names",
            Self::Operator => "operator",
            Self::Servers => "servers",
        })
    }
}

/// A requirement of a case on the profile or the factory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// Fences that grow.
    Fences,
    /// Holds that can be broken.
    Breakable,
    /// Tombstones, which reject late duplicates.
    Tombstones,
    /// No tombstones: a late duplicate takes effect, for a bounded time.
    Ghosts,
    /// Wake-ups by notification.
    Push,
    /// First come, first served, among clients.
    Fifo,
    /// Other processes on the same store.
    Processes,
    /// A clock that the suite moves.
    MovedClock,
    /// Shared locks.
    Shared,
    /// Semaphores.
    Permits,
    /// Holds that can move to another process.
    Tickets,
    /// Holds that can't move to another process.
    NoTickets,
    /// A mode that the backend lacks.
    MissingMode,
    /// A server that can be frozen.
    Freeze,
    /// A server that keeps every write through a restart.
    Restart,
    /// A server that can lose its data, and fences that still grow.
    Forget,
    /// A connection to the server that can be cut.
    Cut,
    /// A protected store that rejects late writes by their fence.
    Enforcement,
}

impl Need {
    /// Returns why this backend doesn't meet the requirement, if it doesn't.
    pub(crate) fn missing(self, profile: &Profile, factory: &dyn Factory) -> Option<&'static str> {
        let can = |harm| factory.harms().contains(&harm);
        let (there, otherwise) = match self {
            Self::Fences => (profile.fencing != Fencing::None, "it has no fences"),
            Self::Breakable => (profile.breakable, "its holds can't be broken"),
            Self::Tombstones => (profile.tombstones, "the backend has no tombstones"),
            Self::Ghosts => (!profile.tombstones, "the backend has tombstones"),
            Self::Push => (profile.wake_up == WakeUp::Push, "waiters poll"),
            Self::Fifo => (profile.order == Order::Fifo, "the backend doesn't promise an order"),
            Self::Processes if profile.scope == Scope::Process => {
                (false, "other processes don't reach the backend's store")
            }
            Self::Processes => (factory.child().is_some(), "the factory starts no other processes"),
            Self::MovedClock => {
                (factory.runtime() == Runtime::Paused, "the factory's clock can't be moved")
            }
            Self::Freeze => (can(Harm::Freeze), "the factory can't freeze the server"),
            Self::Restart => (can(Harm::Restart), "the factory can't restart the server"),
            Self::Forget => (
                can(Harm::Forget) && profile.fencing == Fencing::Clocked,
                "fences don't outlive the server's data, or the factory can't clear the server",
            ),
            Self::Cut => (can(Harm::Cut), "the factory can't cut a client off from the server"),
            Self::Enforcement => (
                factory.protected().is_some(),
                "the factory has no resource that refuses late writes",
            ),
            Self::Shared => (profile.modes.shared, "the backend has no shared locks"),
            Self::Permits => (profile.modes.permits, "the backend has no semaphores"),
            Self::Tickets => (profile.tickets, "the backend has no tickets"),
            Self::NoTickets => (!profile.tickets, "the backend has tickets"),
            Self::MissingMode => {
                (!profile.modes.shared || !profile.modes.permits, "it has every mode")
            }
        };
        (!there).then_some(otherwise)
    }
}

pub(crate) type Body = fn(Arc<Context>) -> Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// The group.
    pub group: Group,
    /// Its name, unique among all groups.
    pub name: &'static str,
    /// The checked property, in a sentence.
    pub about: &'static str,
    /// Its requirements. If one isn't met, the case isn't promised.
    pub needs: &'static [Need],
    pub(crate) body: Body,
}

impl Case {
    /// Returns `group::name`, the test's name.
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
    /// The backend keeps the promise.
    Passed,
    /// The backend breaks the promise. Contains the observation.
    Failed(String),
    /// The profile doesn't promise it. Contains the missing requirement.
    NotPromised(String),
}

macro_rules! case {
    ($group:ident, $name:ident, [$($need:ident),*], $about:expr) => {
        $crate::case::Case {
            group: $crate::case::Group::$group,
            name: stringify!($name),
            about: $about,
            needs: &[$($crate::case::Need::$need),*],
            body: |context| Box::pin($name(context)),
        }
    };
}
pub(crate) use case;
