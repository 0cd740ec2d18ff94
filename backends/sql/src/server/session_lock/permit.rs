use std::sync::Arc;

use lockwright_core::Result;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::server::abandoned::{self, Session};
use crate::server::{Dialect, Opened, Pool, ServerSession, SessionPermit, Use, errors};

/// A session's permit. Dropping it ends the session, and then frees the permit.
pub(crate) struct Permit<D: Dialect> {
    pool: Arc<Pool<D>>,
    runtime: Handle,
    /// `None` until the opening starts, and behind a pooler again after the opening.
    session: Option<Session>,
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

    pub(crate) async fn open<C: Send + 'static>(
        self,
        opening: impl Future<Output = sqlx::Result<Opened<C>>> + Send + 'static,
    ) -> Result<(C, Option<ServerSession>, Self)> {
        let pool = Arc::clone(&self.pool);
        let limit = pool.limits().connect;
        match timeout(limit, self.open_unlimited(opening)).await {
            Ok(opened) => opened.map_err(|cause| errors::not_connected(&cause, pool.dialect())),
            Err(_) => Err(errors::not_connected_in(limit, pool.dialect().backend())),
        }
    }

    /// Opens a connection without a limit. `opening` must own no `Arc` of the pool, whose drop
    /// aborts abandoned openings.
    pub(crate) async fn open_unlimited<C: Send + 'static>(
        mut self,
        opening: impl Future<Output = sqlx::Result<Opened<C>>> + Send + 'static,
    ) -> sqlx::Result<(C, Option<ServerSession>, Self)> {
        let (session, opened) = abandoned::open(&self.runtime, opening);
        self.session = Some(session);
        match opened.await.unwrap_or(Err(sqlx::Error::WorkerCrashed)) {
            Ok((connection, session)) => {
                self.session = session.map(Session::Open);
                Ok((connection, session, self))
            }
            // The server may have a session, so the background task frees the permit.
            Err(cause @ sqlx::Error::PoolTimedOut) => Err(cause),
            Err(cause) => {
                self.give_back();
                Err(cause)
            }
        }
    }

    pub(crate) async fn connect(self) -> sqlx::Result<(D::Connection, Self)> {
        let (dialect, limits) = (self.pool.shared_dialect(), self.pool.limits());
        let opening = async move { dialect.open(limits).await };
        let (connection, _, permit) = self.open_unlimited(opening).await?;
        Ok((connection, permit))
    }

    pub(crate) fn give_back(mut self) {
        self.permit = None;
    }
}

impl<D: Dialect> Drop for Permit<D> {
    fn drop(&mut self) {
        if let (Some(session), Some(permit)) = (self.session.take(), self.permit.take()) {
            drop(self.pool.abandon(&self.runtime, session, permit));
        }
    }
}
