use std::sync::Arc;

use lockwright_core::{Claim, Error, ErrorKind, RenewalMode, Result};
use zookeeper_client as zk;

use crate::errors::error;
use crate::session::Session;
use crate::sessions::{Current, Kind, Sessions};
use crate::shared::Shared;

impl Shared {
    pub(crate) async fn session(self: &Arc<Self>, claim: &Claim) -> Result<Arc<Session>> {
        let fixed = claim.renewal_mode == RenewalMode::Off;
        self.sessions.get(self, Kind::of(claim.ttl, fixed, &self.limits)).await
    }
}

impl Sessions {
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
}

fn not_opened(cause: &Arc<Error>) -> Error {
    let message = format!("no session could be opened: {}", cause.message());
    error(cause.kind(), message).with_source(Arc::clone(cause))
}
