use std::sync::Arc;

use lockwright_core::Result;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::server::{Dialect, Pool, ServerSession, SessionPermit, Use, errors};

/// A session's permit. Dropping it ends the session on the server, and then frees the permit.
pub(crate) struct Permit<D: Dialect> {
    pool: Arc<Pool<D>>,
    runtime: Handle,
    session: Option<ServerSession>,
    permit: Option<SessionPermit>,
}

impl<D: Dialect> Permit<D> {
    pub(crate) async fn get(pool: &Arc<Pool<D>>, of: Use, deadline: Instant) -> Result<Self> {
        let begun = Instant::now();
        match pool.sessions().permit(of, deadline).await {
            Some(permit) => Ok(Self::of(pool, permit)),
            None => {
                let waited = deadline.saturating_duration_since(begun);
                Err(errors::no_session_in(waited, pool.refusal(), pool.dialect().backend()))
            }
        }
    }

    pub(crate) fn try_get(pool: &Arc<Pool<D>>, of: Use) -> Option<Self> {
        pool.sessions().try_permit(of).map(|permit| Self::of(pool, permit))
    }

    fn of(pool: &Arc<Pool<D>>, permit: SessionPermit) -> Self {
        Self {
            pool: Arc::clone(pool),
            runtime: Handle::current(),
            session: None,
            permit: Some(permit),
        }
    }

    pub(crate) fn is_of(&mut self, session: ServerSession) {
        self.session = Some(session);
    }

    pub(crate) async fn open<C>(
        mut self,
        opening: impl Future<Output = sqlx::Result<(C, ServerSession)>>,
    ) -> Result<(C, ServerSession, Self)> {
        let pool = Arc::clone(&self.pool);
        let limit = pool.limits().connect;
        match timeout(limit, opening).await {
            Ok(Ok((connection, session))) => {
                self.is_of(session);
                Ok((connection, session, self))
            }
            Ok(Err(cause)) => {
                self.give_back();
                Err(errors::not_connected(&cause, pool.dialect()))
            }
            Err(_) => Err(errors::not_connected_in(limit, pool.dialect().backend())),
        }
    }

    pub(crate) async fn connect(mut self) -> sqlx::Result<(D::Connection, Self)> {
        match self.pool.dialect().open(self.pool.limits()).await {
            Ok((connection, session)) => {
                self.session = session;
                Ok((connection, self))
            }
            Err(cause) => {
                self.give_back();
                Err(cause)
            }
        }
    }

    /// Frees the permit at once, for a connection without a session on the server.
    pub(crate) fn give_back(mut self) {
        self.permit = None;
    }
}

impl<D: Dialect> Drop for Permit<D> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            drop(self.pool.abandon(&self.runtime, self.session, permit));
        }
    }
}
