use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::backend_util::Jitter;
use crate::validity::{Lengths, Rules};
use crate::{
    BootInstant, Claim, Clock, Error, Fence, Identity, LockName, NameMap, Reason, ReleaseMode,
    Token, TokenSource,
};

use super::in_runtime::InRuntime;
use super::metrics::{Metrics, Totals};
use super::options::{Defaults, HoldSchedule, Options};
use super::owner::Owner;
use super::pending::Pending;
use super::waiters::Waiters;

use hand_over::HandOver;

pub(super) mod background_release;
mod events;
pub(super) mod hand_over;
pub(super) mod hold;
pub(super) mod local_queue;
mod registry;
pub(super) mod releasing;
mod shared;
mod shared_holders;
mod table;
mod warm;

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) defaults: Defaults,
    pub(crate) namespace: String,
    pub(crate) rules: Rules,
    pub(crate) tokens: TokenSource,
    pub(crate) jitter: Jitter,
    pub(crate) sweep: Option<Duration>,
    pub(crate) local_turns: u32,
    pub(crate) prefixes: BTreeMap<String, Defaults>,
}

pub(crate) struct Shared {
    pub(crate) backend: InRuntime,
    pub(crate) settings: Settings,
    usual_lengths: Lengths,
    pub(crate) identity: Arc<Identity>,
    pub(crate) clock: Clock,
    table: Mutex<Table>,
    pub(crate) waiters: Waiters,
    pub(crate) metrics: Metrics,
    pub(crate) renewer: Arc<Notify>,
    pub(crate) jobs: Mutex<VecDeque<Job>>,
    hold_events: Mutex<HashMap<Token, HoldEvents>>,
    has_hold_events: AtomicBool,
    /// Begun releases of live holds. `Totals::released` counts the finished ones.
    ended: AtomicU64,
    /// Releases in progress of lost holds, except those in the background.
    ended_lost: AtomicU64,
    pub(crate) background_jobs: AtomicU64,
    pub(crate) waiting: AtomicU64,
    /// Notified when a closed client ends a release or a request, and when the renewal task ends.
    pub(crate) changed: Notify,
    /// Notified of new [`Trouble`] of a name with queued requests, and when the renewal task ends.
    pub(crate) trouble: Notify,
    pub(crate) closing: Notify,
    pub(crate) closed: AtomicBool,
    pub(crate) renewer_ended: AtomicBool,
    pub(crate) runtime: Mutex<Handle>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HoldEvents {
    at_risk: bool,
    recalled: bool,
    lost: Option<Reason>,
}

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) turns: Turns,
    pub(crate) holds: Registry,
    /// Losses reported before the client recorded the hold, oldest first.
    early_losses: VecDeque<(Token, Reason)>,
    /// The same for recalls.
    early_recalls: VecDeque<Token>,
}

#[derive(Default)]
pub(crate) struct Registry {
    slots: Vec<Slot>,
    free: Vec<u32>,
    due: BinaryHeap<Reverse<DueEntry>>,
    stale: usize,
    totals: Totals,
    /// When the renewal task wakes up; `None` while it waits for a notification.
    renewer_wakes_at: Option<BootInstant>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    hold: Option<Arc<Hold>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct DueEntry {
    at: BootInstant,
    slot: u32,
    generation: u32,
}

#[derive(Default)]
pub(crate) struct Turns {
    taken: NameMap<Taken>,
    /// Holds without a guard. Their names are in `taken`, but no request has the turn.
    warm: NameMap<Arc<Hold>>,
    shared_holders: SharedHolders,
    troubled: NameMap<Trouble>,
}

/// Failed requests for one name, until the server answers.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub(crate) since: BootInstant,
    message: Arc<str>,
}

#[derive(Default)]
struct Taken {
    reentry: Option<Box<Reentry>>,
    #[expect(clippy::box_collection, reason = "mostly absent, and there may be 100,000 of them")]
    queue: Option<Box<VecDeque<Queued>>>,
}

struct Reentry {
    owner: Owner,
    hold: Option<Arc<Hold>>,
}

pub(crate) struct Queued {
    wanted: Options,
    fences: u32,
    sender: oneshot::Sender<Passed>,
}

pub(crate) enum Passed {
    Turn(Turn),
    HandedOver(Entered),
    Entered(Entered),
    Refused(Error),
}

/// A request's share of its owner's hold, or of a hold handed over to it, until a guard takes it.
/// Dropping the last share or guard gives the hold back.
pub(crate) struct Entered(Option<Arc<Hold>>);

/// The turn of a local request, or a placeholder if the request needs none. When a turn is dropped,
/// the next local request inherits its claim, or the claim is released.
pub(crate) struct Turn {
    shared: Option<Arc<Shared>>,
    taken: bool,
    fences: u32,
    name: Option<LockName>,
    pub(crate) pending: Option<Pending>,
}

#[derive(Default)]
pub(crate) struct SharedHolders(NameMap<Vec<Arc<Hold>>>);

/// A granted claim. An ended hold never becomes live again.
pub(crate) struct Hold {
    pub(crate) shared: Arc<Shared>,
    pub(crate) claim: Claim,
    first_fence: Fence,
    pub(crate) owner: Option<Owner>,
    pub(crate) release_mode: ReleaseMode,
    granted_at: BootInstant,
    /// `None` for a hold without limits, which may be handed over.
    schedule: Option<Box<HoldSchedule>>,
    /// `None` for a hold with one fence.
    hand_over: Option<Box<HandOver>>,

    /// Locked during a change of the term or a loss, so that a reported loss is never revoked.
    term_changes: Mutex<()>,
    renew_at: AtomicU64,
    at_risk_at: AtomicU64,
    lost_at: AtomicU64,
    deadline: AtomicU64,

    phase: AtomicU32,
    version: AtomicU32,
    changed: OnceLock<Box<Notify>>,
    watched: AtomicBool,

    pub(crate) guards: AtomicU32,
    turn: AtomicBool,
    pub(crate) slot: AtomicU64,
    pub(crate) renewing: AtomicBool,
    renewal_failed: AtomicBool,
    #[cfg(feature = "metrics")]
    pub(crate) uses: super::export::Uses,
}

pub(crate) struct Job {
    shared: Arc<Shared>,
    claim: Claim,
    release_mode: ReleaseMode,
    has_turn: bool,
    last_sent: Option<BootInstant>,
    /// Until then, the job renews the hold for the remaining time, and doesn't release it.
    retain_until: Option<BootInstant>,
}
