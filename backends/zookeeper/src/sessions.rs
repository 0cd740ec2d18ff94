use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Claim, Error, ErrorKind, RenewalMode, Result};
use tokio::runtime::Handle;

use crate::errors::error;
use crate::limits::Limits;
use crate::session::Session;
use crate::shared::Shared;

/// The number of ticks by which a fixed hold's session outlasts the TTL.
pub(crate) const SPARE_TICKS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    timeout: Duration,
    pause: Duration,
    is_for_reads: bool,
}

impl Kind {
    /// Returns the kind of session for a TTL. A hold's validity counts from the last proof. A fixed
    /// hold isn't renewed, so its session has a longer timeout and more frequent proofs.
    fn of(ttl: Duration, fixed: bool, limits: &Limits) -> Self {
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

#[derive(Debug, Default)]
struct Current {
    session: Option<Arc<Session>>,
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

    /// Returns an open session. Concurrent callers share one attempt and its failure. If the future
    /// is dropped, the session is still opened, for the next caller.
    async fn get(&self, shared: &Arc<Shared>, kind: Kind) -> Result<Arc<Session>> {
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
            let message = "the tokio runtime of the connect call has ended; connect again";
            error(ErrorKind::Unavailable, message)
        })?
    }

    fn watched(&self, shared: &Arc<Shared>, session: Session, kind: Kind) -> Arc<Session> {
        let session = Arc::new(session);
        self.runtime.spawn(Session::keep_proving(Arc::downgrade(&session), kind.pause));
        shared.watch(&session, !kind.is_for_reads);
        session
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
        // A caller is about to use a slot with a second reference.
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

    fn slot(&self, kind: Kind) -> Slot {
        Arc::clone(lock(&self.slots).entry(kind).or_default())
    }
}

impl Shared {
    pub(crate) async fn session(self: &Arc<Self>, claim: &Claim) -> Result<Arc<Session>> {
        let fixed = claim.renewal_mode == RenewalMode::Off;
        self.sessions.get(self, Kind::of(claim.ttl, fixed, &self.limits)).await
    }
}

fn not_opened(cause: &Arc<Error>) -> Error {
    let message = format!("no session could be opened: {}", cause.message());
    error(cause.kind(), message).with_source(Arc::clone(cause))
}
