//! The data that the conformance suite protects by fences: a value in a row of the application.

use lockwright_conformance::{Protected, problem};
use lockwright_core::fencing::Fenced;
use lockwright_core::{Result, async_trait};

use super::{BEGIN, GET, PUT, Pool, check_fence};

pub(super) struct Shelf {
    pub(super) pool: Pool,
    pub(super) name: String,
}

#[async_trait]
impl Protected for Shelf {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        let mut tx = self.pool.begin_with(BEGIN).await.map_err(problem)?;
        check_fence(&mut tx, fenced).await?;
        let put = sqlx::query(PUT).bind(&self.name).bind(value as i64);
        put.execute(&mut *tx).await.map_err(problem)?;
        tx.commit().await.map_err(problem)
    }

    async fn read(&self) -> Result<Option<u64>> {
        let get = sqlx::query_scalar(GET).bind(&self.name).fetch_optional(&self.pool);
        let found: Option<i64> = get.await.map_err(problem)?;
        Ok(found.map(i64::unsigned_abs))
    }
}
