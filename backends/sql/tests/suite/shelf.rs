//! Protected data in a server's database: a value in the application's own row.

use lockwright_conformance::Protected;
use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, LockName, Result, async_trait};
use lockwright_testbed as testbed;

use super::{GET, PUT, Pool, PoolOptions, Server, check_fence};

pub(super) struct Shelf {
    pool: Pool,
    name: String,
}

const TABLE: &str = "CREATE TABLE shelf (name VARCHAR(512) PRIMARY KEY, value BIGINT NOT NULL)";

fn said(error: sqlx::Error) -> Error {
    Error::unavailable(error.to_string())
}

/// Creates the application's table.
pub(super) fn on(server: Server) -> testbed::Result<Server> {
    server.sql_as_user(TABLE)?;
    Ok(server)
}

impl Shelf {
    pub(super) async fn open(url: String, name: LockName) -> Result<Self> {
        let pool = PoolOptions::new().max_connections(1).connect(&url).await.map_err(said)?;
        Ok(Self { pool, name: name.to_string() })
    }
}

#[async_trait]
impl Protected for Shelf {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        let mut tx = self.pool.begin().await.map_err(said)?;
        check_fence(&mut tx, fenced.name.as_str(), fenced.fence).await?;
        let put = sqlx::query(PUT).bind(&self.name).bind(value as i64);
        put.execute(&mut *tx).await.map_err(said)?;
        tx.commit().await.map_err(said)
    }

    async fn read(&self) -> Result<Option<u64>> {
        let get = sqlx::query_scalar(GET).bind(&self.name).fetch_optional(&self.pool);
        let found: Option<i64> = get.await.map_err(said)?;
        Ok(found.map(i64::unsigned_abs))
    }
}
