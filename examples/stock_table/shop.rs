use lockwright::fencing::Fenced;
use lockwright::sql::postgres::{InTransaction, check_fence, lock_in_transaction};
use lockwright::sql::sqlx::postgres::{PgPool, PgPoolOptions};
use lockwright::sql::sqlx::{AssertSqlSafe, Executor, Postgres, Row};
use lockwright::sql::transaction::Wait;

use crate::Result;

#[derive(Debug, Clone)]
pub(crate) struct Shop(PgPool);

pub(crate) struct Transaction(lockwright::sql::sqlx::Transaction<'static, Postgres>);

impl Shop {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        Ok(Self(PgPoolOptions::new().max_connections(4).connect(url).await?))
    }

    pub(crate) async fn stock_up(&self, items: i64) -> Result<()> {
        for statement in [
            "CREATE TABLE IF NOT EXISTS stock (number BIGINT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS sales (number BIGINT NOT NULL)",
            "DELETE FROM stock",
            "DELETE FROM sales",
            &format!("INSERT INTO stock (number) VALUES ({items})"),
        ] {
            self.0.execute(AssertSqlSafe(statement)).await?;
        }
        Ok(InTransaction::new().make_tables(&mut *self.0.acquire().await?).await?)
    }

    pub(crate) async fn sold(&self) -> Result<i64> {
        Ok(self.0.fetch_one("SELECT COUNT(*) FROM sales").await?.try_get(0)?)
    }

    pub(crate) async fn begin(&self) -> Result<Transaction> {
        Ok(Transaction(self.0.begin().await?))
    }
}

impl Transaction {
    pub(crate) async fn lock(&mut self, name: &str) -> Result<()> {
        let outcome = lock_in_transaction(&mut self.0, name, Wait::NoLimit).await?;
        debug_assert!(outcome.is_locked(), "it waits without limit");
        Ok(())
    }

    pub(crate) async fn check_fence(&mut self, fenced: &Fenced) -> lockwright::Result<()> {
        check_fence(&mut self.0, fenced).await
    }

    pub(crate) async fn left(&mut self) -> Result<i64> {
        Ok(self.0.fetch_one("SELECT number FROM stock").await?.try_get(0)?)
    }

    pub(crate) async fn sell_one_of(&mut self, left: i64) -> Result<()> {
        for statement in [
            format!("UPDATE stock SET number = {}", left - 1),
            format!("INSERT INTO sales (number) VALUES ({left})"),
        ] {
            self.0.execute(AssertSqlSafe(statement)).await?;
        }
        Ok(())
    }

    pub(crate) async fn commit(self) -> Result<()> {
        Ok(self.0.commit().await?)
    }
}
