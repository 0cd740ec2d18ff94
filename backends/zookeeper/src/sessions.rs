//! The sessions of a client: one per TTL, shared by its claims.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::{BootInstant, Error, ErrorKind, Result};
use tokio::runtime::Handle;
use zookeeper_client as zk;

use crate::errors::error;
use crate::limits::Limits;
use crate::session::Session;
use crate::shared::Shared;

/// By how many ticks the session of a fixed hold outlasts its TTL.
pub(crate) const SPARE_TICKS: u32 = 3;

/// The properties by which claims share a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    timeout: Duration,
    /// The interval of proofs.
    pause: Duration,
    /// The session is for reads only.
    is_for_reads: bool,
}

impl Kind {
    /// Returns the kind for claims of this TTL.
    ///
    /// A proof is always some time ago: a tick, and the time since the last proof. A renewed hold makes up for that. A
    /// fixed hold can't, so its session has a longer timeout and more frequent proofs: the hold is valid for its whole
    /// TTL. After a client's death its nodes remain as much longer.
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

    fn for_reads(limits: &Limits) -> Self {
        Self { timeout: limits.longest, pause: limits.longest / 4, is_for_reads: true }
    }
}

/// The session of a kind. The mutex is held while one is opened.
#[derive(Debug, Default)]
struct Current {
    session: Option<Arc<Session>>,
    /// The last failure to open one.
    failed: Option<(BootInstant, Arc<Error>)>,
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

    pub(crate) async fn for_reads(&self, shared: &Arc<Shared>) -> Result<Arc<Session>> {
        self.get(shared, Kind::for_reads(&shared.limits)).await
    }

    pub(crate) async fn insert(&self, shared: &Arc<Shared>, session: Session) {
        let slot = self.slot(Kind::for_reads(&shared.limits));
        let session = self.watched(shared, session, Kind::for_reads(&shared.limits));
        slot.lock().await.session = Some(session);
    }

    /// Returns the session of this kind, or opens one. If that fails, all concurrent callers get the error, instead of
    /// trying one after the other.
    ///
    /// # Cancel safety
    /// The session is opened nevertheless, for the next caller.
    pub(crate) async fn get(&self, shared: &Arc<Shared>, kind: Kind) -> Result<Arc<Session>> {
        let came = shared.clock.now();
        let mut slot = self.slot(kind).lock_owned().await;
        if let Some(session) = slot.session.as_ref().filter(|session| session.is_fit()) {
            session.touch();
            return Ok(Arc::clone(session));
        }
        if let Some((failed, cause)) = &slot.failed
            && *failed >= came
        {
            return Err(not_opened(cause));
        }
        let shared = Arc::clone(shared);
        let opening = self.runtime.spawn(async move {
            *slot = Current::default();
            let probe_path = shared.paths.probe_path();
            let (config, clock) = (&shared.config, &shared.clock);
            let tick = shared.limits.tick;
            match Session::open(config, clock, probe_path, kind.timeout, tick).await {
                Ok(session) => {
                    let session = shared.sessions.watched(&shared, session, kind);
                    slot.session = Some(Arc::clone(&session));
                    Ok(session)
                }
                Err(cause) => {
                    let cause = Arc::new(cause);
                    slot.failed = Some((clock.now(), Arc::clone(&cause)));
                    Err(not_opened(&cause))
                }
            }
        });
        opening.await.map_err(|_| {
            error(
                ErrorKind::Unavailable,
                "the tokio runtime of the connect call has ended; \
                                           connect again",
            )
        })?
    }

    fn watched(&self, shared: &Arc<Shared>, session: Session, kind: Kind) -> Arc<Session> {
        let session = Arc::new(session);
        self.runtime.spawn(Session::keep_proving(Arc::downgrade(&session), kind.pause));
        let (owner, this) = (Arc::downgrade(shared), Arc::downgrade(&session));
        let mut states = session.client().state_watcher();
        self.runtime.spawn(async move {
            loop {
                let state = states.changed().await;
                let (Some(owner), Some(session)) = (owner.upgrade(), this.upgrade()) else {
                    return;
                };
                owner.session_is(&session, state);
                if state.is_terminated() {
                    return;
                }
                if !kind.is_for_reads {
                    owner.moved(&session, state == zk::SessionState::SyncConnected);
                }
            }
        });
        session
    }

    pub(crate) fn forget(&self, session: &Arc<Session>) {
        self.each(|slot| {
            slot.session.take_if(|known| Arc::ptr_eq(known, session));
        });
    }

    /// Closes the sessions that are unused for this long and have no claims.
    pub(crate) fn close_idle(&self, after: Duration, is_used: impl Fn(&Arc<Session>) -> bool) {
        self.each(|slot| {
            slot.session.take_if(|session| session.idle() > after && !is_used(session));
        });
        // A caller that is about to use a slot has a reference to it.
        let is_empty = |slot: &Slot| slot.try_lock().is_ok_and(|slot| slot.session.is_none());
        self.slots().retain(|_, slot| Arc::strong_count(slot) > 1 || !is_empty(slot));
    }

    pub(crate) fn close(&self) {
        self.each(|slot| slot.session = None);
    }

    fn each(&self, change: impl Fn(&mut Current)) {
        for slot in self.slots().values() {
            // A locked slot is opening a session.
            if let Ok(mut slot) = slot.try_lock() {
                change(&mut slot);
            }
        }
    }

    fn slot(&self, kind: Kind) -> Slot {
        Arc::clone(self.slots().entry(kind).or_default())
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Kind, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_opened(cause: &Arc<Error>) -> Error {
    let message = format!("no session could be opened: {}", cause.message());
    error(cause.kind(), message).with_source(Arc::clone(cause))
}
