use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_bench_protocol::{Library, Result};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteQueryResult};
use sqlx::{ConnectOptions, query, raw_sql};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::sleep;

use super::memory::Memory;
use super::{held, lost, servers};

/// Lockwright's settings: a grant and a release each wait for the disk.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS bench_baseline_lease (
        name TEXT PRIMARY KEY, token INTEGER NOT NULL, expires INTEGER NOT NULL
    ) WITHOUT ROWID";

const UPSERT: &str = "INSERT INTO bench_baseline_lease VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET token = excluded.token, expires = excluded.expires
    WHERE expires <= ?4";

const HELD: &str = "SELECT 1 FROM bench_baseline_lease WHERE name = ?1 AND expires > ?2";

const DELETE: &str = "DELETE FROM bench_baseline_lease WHERE name = ?1 AND token = ?2";

const RENEW: &str = "UPDATE bench_baseline_lease SET expires = ?2 WHERE token = ?1";

/// The shortest sleep in tokio.
const POLL: Duration = Duration::from_millis(1);

pub(super) struct Sqlite {
    connection: Mutex<SqliteConnection>,
    token: i64,
    /// Only one of this process's tasks polls a name.
    names: Memory,
}

pub(super) struct Hold {
    name: Box<str>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Sqlite {
    async fn upsert(&self, name: &str, ttl: Duration) -> sqlx::Result<bool> {
        let now = now();
        let mut connection = self.connection.lock().await;
        let upsert = query(UPSERT).bind(name).bind(self.token).bind(now + nanos(ttl)).bind(now);
        Ok(upsert.execute(&mut *connection).await?.rows_affected() == 1)
    }

    /// Unlike [`Self::upsert`], this doesn't block writers.
    async fn is_held(&self, name: &str) -> sqlx::Result<bool> {
        let mut connection = self.connection.lock().await;
        let held = query(HELD).bind(name).bind(now()).fetch_optional(&mut *connection).await?;
        Ok(held.is_some())
    }

    async fn delete(&self, name: &str) -> sqlx::Result<SqliteQueryResult> {
        let mut connection = self.connection.lock().await;
        query(DELETE).bind(name).bind(self.token).execute(&mut *connection).await
    }
}

impl Library for Sqlite {
    type Hold = Hold;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(servers(urls))
            .create_if_missing(true)
            .foreign_keys(false)
            .busy_timeout(Duration::ZERO)
            .disable_statement_logging();
        let mut connection = patient(async || options.connect().await).await?;
        patient(async || raw_sql(SETTINGS).execute(&mut connection).await).await?;
        Ok(Self {
            connection: connection.into(),
            token: process::id().into(),
            names: Memory::default(),
        })
    }

    async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Hold> {
        if !patient(async || self.upsert(name, ttl).await).await? {
            return Err(held(name));
        }
        Ok(Hold { name: name.into(), _turn: None })
    }

    async fn lock(&self, name: &str, ttl: Duration) -> Result<Hold> {
        let turn = self.names.lock(name, ttl).await?;
        while patient(async || self.is_held(name).await).await?
            || !patient(async || self.upsert(name, ttl).await).await?
        {
            sleep(POLL).await;
        }
        Ok(Hold { name: name.into(), _turn: Some(turn) })
    }

    async fn unlock(&self, hold: Hold) -> Result<()> {
        let deleted = patient(async || self.delete(&hold.name).await).await?;
        if deleted.rows_affected() == 1 { Ok(()) } else { Err(lost(&hold.name)) }
    }

    async fn renew(&self, _holds: &[Hold], ttl: Duration) -> Result<()> {
        let renew = async || {
            let mut connection = self.connection.lock().await;
            let renew = query(RENEW).bind(self.token).bind(now() + nanos(ttl));
            renew.execute(&mut *connection).await
        };
        patient(renew).await.map(drop)
    }
}

async fn patient<T>(mut ask: impl AsyncFnMut() -> sqlx::Result<T>) -> Result<T> {
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let code = error.as_database_error().and_then(|cause| cause.code()?.parse::<u32>().ok());
        // SQLITE_BUSY is 5, the low byte of its extended codes.
        if code.is_none_or(|code| code & 0xff != 5) {
            return Err(error.into());
        }
        sleep(POLL).await;
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos)
}

fn nanos(time: Duration) -> i64 {
    time.as_nanos() as i64
}
