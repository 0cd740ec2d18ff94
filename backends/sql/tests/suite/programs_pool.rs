//! A backend on the connections of a program's own pool.

use lockwright_conformance::problem;
use lockwright_core::{DistributedLock, Result};

use super::{Config, OfServer, PoolOptions, SETTINGS};

#[derive(Debug)]
pub(crate) struct Backend(OfServer);

impl Backend {
    /// Connects with a pool whose sessions have unusual settings.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let pool = PoolOptions::new().max_connections(4).after_connect(|connection, _| {
            Box::pin(async move { sqlx::raw_sql(SETTINGS).execute(connection).await.map(drop) })
        });
        let pool = pool.connect(url).await.map_err(problem)?;
        Ok(Self(Config::from_pool(&pool).connect().await?))
    }
}

impl DistributedLock for Backend {
    lockwright_core::delegate!(|this| this.0);
}
