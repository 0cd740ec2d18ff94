use lockwright::sql::sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use lockwright::sql::sqlx::postgres::{PgPool, PgPoolOptions};
use lockwright::sql::sqlx::{self, AssertSqlSafe, Executor, Row};
use lockwright::sql::transaction::Wait;
use lockwright::sql::{mysql, postgres};
use lockwright::{Error, Fence};

use crate::Result;

#[derive(Debug, Clone)]
pub(crate) enum Shop {
    Postgres(PgPool),
    MySql(MySqlPool),
}

pub(crate) enum Transaction {
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
    MySql(sqlx::Transaction<'static, sqlx::MySql>),
}

impl Shop {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        Ok(if url.starts_with("mysql:") {
            Self::MySql(MySqlPoolOptions::new().max_connections(4).connect(url).await?)
        } else {
            Self::Postgres(PgPoolOptions::new().max_connections(4).connect(url).await?)
        })
    }

    pub(crate) async fn stock_up(&self, items: i64) -> Result<()> {
        for statement in [
            "CREATE TABLE IF NOT EXISTS stock (number BIGINT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS sales (number BIGINT NOT NULL)",
            "DELETE FROM stock",
            "DELETE FROM sales",
            &format!("INSERT INTO stock (number) VALUES ({items})"),
        ] {
            let statement = AssertSqlSafe(statement);
            match self {
                Self::Postgres(pool) => pool.execute(statement).await.map(drop)?,
                Self::MySql(pool) => pool.execute(statement).await.map(drop)?,
            }
        }
        match self {
            Self::Postgres(pool) => {
                postgres::InTransaction::new().make_tables(&mut *pool.acquire().await?).await?
            }
            Self::MySql(pool) => {
                mysql::InTransaction::new().make_tables(&mut *pool.acquire().await?).await?
            }
        }
        Ok(())
    }

    pub(crate) async fn sold(&self) -> Result<i64> {
        const SOLD: &str = "SELECT COUNT(*) FROM sales";
        Ok(match self {
            Self::Postgres(pool) => pool.fetch_one(SOLD).await?.try_get(0)?,
            Self::MySql(pool) => pool.fetch_one(SOLD).await?.try_get(0)?,
        })
    }

    pub(crate) async fn begin(&self) -> Result<Transaction> {
        Ok(match self {
            Self::Postgres(pool) => Transaction::Postgres(pool.begin().await?),
            Self::MySql(pool) => Transaction::MySql(pool.begin().await?),
        })
    }
}

impl Transaction {
    pub(crate) async fn lock(&mut self, name: &str) -> Result<(), Error> {
        let outcome = match self {
            Self::Postgres(tx) => postgres::lock_in_transaction(tx, name, Wait::NoLimit).await?,
            Self::MySql(tx) => mysql::lock_in_transaction(tx, name, Wait::NoLimit).await?,
        };
        debug_assert!(outcome.is_locked(), "it waits without limit");
        Ok(())
    }

    pub(crate) async fn check_fence(&mut self, name: &str, fence: Fence) -> Result<(), Error> {
        match self {
            Self::Postgres(tx) => postgres::check_fence(tx, name, fence).await,
            Self::MySql(tx) => mysql::check_fence(tx, name, fence).await,
        }
    }

    pub(crate) async fn left(&mut self) -> Result<i64> {
        const LEFT: &str = "SELECT number FROM stock";
        Ok(match self {
            Self::Postgres(tx) => tx.fetch_one(LEFT).await?.try_get(0)?,
            Self::MySql(tx) => tx.fetch_one(LEFT).await?.try_get(0)?,
        })
    }

    pub(crate) async fn sell_one_of(&mut self, left: i64) -> Result<()> {
        for statement in [
            format!("UPDATE stock SET number = {}", left - 1),
            format!("INSERT INTO sales (number) VALUES ({left})"),
        ] {
            let statement = AssertSqlSafe(statement);
            match self {
                Self::Postgres(tx) => tx.execute(statement).await.map(drop)?,
                Self::MySql(tx) => tx.execute(statement).await.map(drop)?,
            }
        }
        Ok(())
    }

    pub(crate) async fn commit(self) -> Result<()> {
        match self {
            Self::Postgres(tx) => Ok(tx.commit().await?),
            Self::MySql(tx) => Ok(tx.commit().await?),
        }
    }
}
