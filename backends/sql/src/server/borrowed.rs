use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool};

/// A connection of the program's own pool, for one request.
pub(crate) struct Borrowed<D: Database> {
    pub(crate) connection: PoolConnection<D>,
    pub(crate) settings: String,
    /// False to close the connection instead of returning it.
    pub(crate) is_clean: bool,
}

impl<D: Database> Borrowed<D> {
    pub(crate) async fn take(pool: &Pool<D>, settings: String) -> sqlx::Result<Self> {
        Ok(Self { connection: pool.acquire().await?, settings, is_clean: true })
    }
}

impl<D: Database> Drop for Borrowed<D> {
    fn drop(&mut self) {
        if !self.is_clean {
            tracing::warn!(
                "closing a connection of the program's pool, because a request failed, timed out or was \
                 dropped, or the session has an open transaction or another encoding than UTF8"
            );
            self.connection.close_on_drop();
        }
    }
}

pub(crate) fn foreign_answer() -> sqlx::Error {
    sqlx::Error::Protocol(
        "the connection returned no answer, or one to another request; try again".to_owned(),
    )
}
