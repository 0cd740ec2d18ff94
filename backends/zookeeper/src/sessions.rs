//! The sessions of a client: one per TTL.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Error};
use tokio::runtime::Handle;

use crate::limits::Limits;
use crate::session::Session;

/// The number of ticks by which a fixed hold's session outlasts the TTL.
pub(crate) const SPARE_TICKS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) timeout: Duration,
    pub(crate) pause: Duration,
    pub(crate) is_for_reads: bool,
}

impl Kind {
    /// Returns the kind of session for a TTL. A hold's validity counts from the last proof. A fixed
    /// hold isn't renewed, so its session has a longer timeout and more frequent proofs.
    pub(crate) fn of(ttl: Duration, fixed: bool, limits: &Limits) -> Self {
        // The protocol has whole milliseconds.
        let ttl = Duration::from_millis(
            ttl.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX),
        );
        let (timeout, pause) = match fixed {
            false => (ttl, ttl / 4),
            true => (ttl + limits.tick * SPARE_TICKS, limits.tick),
        };
        Self {
            timeout: timeout.min(limits.longest),
            pause: pause.max(limits.tick),
            is_for_reads: false,
        }
    }

    pub(crate) fn for_reads(limits: &Limits) -> Self {
        Self { timeout: limits.longest, pause: limits.longest / 4, is_for_reads: true }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Current {
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) failed: Option<(BootInstant, Arc<Error>)>,
}

type Slot = Arc<tokio::sync::Mutex<Current>>;

#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Mutex<HashMap<Kind, Slot>>,
    pub(crate) runtime: Handle,
}

impl Sessions {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { slots: Mutex::default(), runtime }
    }

    pub(crate) fn forget(&self, session: &Arc<Session>) {
        self.each(|slot| {
            slot.session.take_if(|known| Arc::ptr_eq(known, session));
        });
    }

    pub(crate) fn close_idle(&self, after: Duration, is_used: impl Fn(&Arc<Session>) -> bool) {
        self.each(|slot| {
            slot.session.take_if(|session| session.idle() > after && !is_used(session));
        });
        // A second reference shows that a caller is about to use the slot.
        let is_empty = |slot: &Slot| slot.try_lock().is_ok_and(|slot| slot.session.is_none());
        lock(&self.slots).retain(|_, slot| Arc::strong_count(slot) > 1 || !is_empty(slot));
    }

    pub(crate) fn close(&self) {
        self.each(|slot| slot.session = None);
    }

    fn each(&self, change: impl Fn(&mut Current)) {
        for slot in lock(&self.slots).values() {
            if let Ok(mut slot) = slot.try_lock() {
                change(&mut slot);
            }
        }
    }

    pub(crate) fn slot(&self, kind: Kind) -> Slot {
        Arc::clone(lock(&self.slots).entry(kind).or_default())
    }
}
