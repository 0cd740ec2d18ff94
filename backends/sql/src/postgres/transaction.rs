//! Locks and fences in a transaction of the application's own.
//!
//! # A lock of the transaction
//!
//! [`lock_in_transaction`] takes `pg_advisory_xact_lock` on the name's key. What the transaction does
//! is done under the lock, and the lock ends with it: by commit, by rollback, or when the connection
//! goes. So there is nothing to renew, nothing to lose, and no fence.
//!
//! ```no_run
//! # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use lockwright_sql::postgres::lock_in_transaction;
//! use lockwright_sql::transaction::Wait;
//!
//! let mut tx = pool.begin().await?;
//! if lock_in_transaction(&mut tx, "orders/42", Wait::For(Duration::from_secs(2))).await?.is_locked() {
//!     // ... what only one may do ...
//!     tx.commit().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - It excludes other transactions, holds in the mode [`session`](super::Mode::Session), and whoever
//!   else locks the [key](#the-key-of-a-name). It does not exclude holds in the modes `lease` and
//!   `row`.
//! - The same transaction may take it again, and any number of others. Take several always in the
//!   same order: two that wait for each other are found by the server after its `deadlock_timeout`,
//!   and one of them gets an error.
//! - The transaction must be `READ COMMITTED`, PostgreSQL's default. At a higher level all its
//!   statements see what was there when the first one began, before the wait, so it is refused.
//! - It works behind a transaction pooler.
//! - One transaction waits for one lock with one connection: keep a pool large enough.
//!
//! # The key of a name
//!
//! An advisory lock has a number of 64 bits instead of a name: the first ones of the name's SHA-256.
//! Others can take the same lock, for their transaction or for their session:
//!
//! ```sql
//! SELECT pg_advisory_xact_lock(
//!     ('x' || substr(encode(sha256(convert_to('orders/42', 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint);
//! ```
//!
//! Two names with one key keep each other out, which costs time and never safety.
//!
//! # A fence
//!
//! Whoever holds a [`Guard`](lockwright_core::Guard) may be stopped for longer than its TTL, and go on
//! to write what somebody else has changed since. [`check_fence`] in the transaction that writes
//! refuses that. Fences of every backend will do.
//!
//! ```no_run
//! # async fn example(locks: lockwright_core::Locks, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! use lockwright_sql::postgres::check_fence;
//!
//! let guard = locks.mutex("orders/42").acquire().await?;
//! let mut tx = pool.begin().await?;
//! check_fence(&mut tx, "orders/42", guard.fence()).await?;
//! // ... read, decide, write ...
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The highest fence of each name stands in the table `lockwright_fence`, and its row is locked until
//! the transaction ends. So of two transactions with the same name the second one waits, and sees
//! what the first one has done. Call it before anything is read that decides what is written.

use std::sync::LazyLock;
use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Fence, LockName, Result};
use sqlx::PgConnection;

use super::dialect::{Postgresql, fetch_on};
use crate::server::dialect::{BadRow, Dialect, Row};
use crate::server::errors::bad_row;
use crate::server::sql::{Arguments, Sql, Value};
use crate::server::table::Tables;
use crate::server::transaction::{self, Limit, Outcome, Wait};

const BACKEND: &str = "postgres-transaction";

/// The name's key in SQL: what the mode `session` locks.
const KEY: &str =
    "('x' || substr(encode(sha256(convert_to(:name, 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint";

const SCHEMA: &str = include_str!("../../schema/postgres_transaction.sql");

/// After a statement that failed, as it was before.
const ROLL_BACK: &str = "ROLLBACK TO SAVEPOINT lockwright; RELEASE SAVEPOINT lockwright";

/// Takes a lock in the application's own transaction, which has it until it ends.
///
/// Whatever comes of it, an error too, the transaction stays usable with all that it did before,
/// unless the connection broke. Its `lock_timeout` is as it was. The [module's page](self) says whom
/// it excludes.
///
/// # Errors
/// - [`InvalidInput`](ErrorKind::InvalidInput): not a [name](LockName); no transaction was begun, or
///   it has failed before; it isn't `READ COMMITTED`.
/// - [`Unsupported`](ErrorKind::Unsupported): the server is a replica.
/// - [`Unavailable`](ErrorKind::Unavailable): the server found a deadlock, the user's
///   `statement_timeout` was over, or the connection broke, and the transaction is gone.
///
/// # Cancel safety
/// Nothing is locked that outlives the transaction. But when it is dropped in the middle of a wait,
/// the server goes on waiting, for at most five seconds, and until then the connection does nothing
/// else. Drop the transaction with it: it is rolled back after that. (`rollback()` answers with the
/// error of the wait, and the rollback itself comes with the connection's next use.) To be free at
/// once, close the connection, and have `client_connection_check_interval` set on the server.
pub async fn lock_in_transaction(tx: &mut PgConnection, name: &str, wait: Wait) -> Result<Outcome> {
    DEFAULT.lock(tx, name, wait).await
}

/// Refuses a holder's transaction if a later holder has written before.
///
/// Records the fence for the name, and locks the record until the transaction ends. The name needn't
/// be that of the lock; but whoever writes to the same things must use the same.
///
/// The table must be there: a [`Postgres`](super::Postgres) that is connected has made it, and
/// [`InTransaction::make_tables`] makes it alone.
///
/// # Errors
/// - [`Lost`](ErrorKind::Lost) with [`Superseded`](lockwright_core::Reason::Superseded): a later
///   holder has written. Roll the transaction back.
/// - [`InvalidInput`](ErrorKind::InvalidInput): not a [name](LockName), a fence above [`Fence::MAX`], no
///   transaction was begun, or it has failed before.
/// - [`InvalidConfig`](ErrorKind::InvalidConfig): there is no such table.
/// - [`Denied`](ErrorKind::Denied): the user may not change the table.
/// - [`Unavailable`](ErrorKind::Unavailable): another transaction with this name was in the way:
///   above `READ COMMITTED`, or by the user's own `lock_timeout`. Or the connection broke.
///
/// # Cancel safety
/// May be dropped; the transaction then must be rolled back, or dropped.
pub async fn check_fence(tx: &mut PgConnection, name: &str, fence: Fence) -> Result<()> {
    DEFAULT.check_fence(tx, name, fence).await
}

static DEFAULT: LazyLock<InTransaction> = LazyLock::new(InTransaction::default);

/// [`lock_in_transaction`] and [`check_fence`], with tables of other names than `lockwright_*`.
///
/// Make one and keep it.
#[derive(Debug, Clone)]
pub struct InTransaction {
    tables: Tables,
    try_lock: Sql,
    wait: Sql,
    fence: Sql,
    sweep: Sql,
}

impl Default for InTransaction {
    fn default() -> Self {
        Self::of(Tables::default())
    }
}

impl InTransaction {
    /// With the tables `lockwright_*`.
    pub fn new() -> Self {
        Self::default()
    }

    fn of(tables: Tables) -> Self {
        let sql = |text: &str| Sql::new(&expand(&tables, text));
        Self {
            try_lock: sql(include_str!("queries/transaction_try.sql")),
            wait: sql(include_str!("queries/transaction_wait.sql")),
            fence: sql(include_str!("queries/transaction_fence.sql")),
            sweep: sql(include_str!("queries/transaction_sweep.sql")),
            tables,
        }
    }

    /// What the tables' names begin with; `lockwright` by default.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) unless it is made of small letters, digits and
    /// underscores.
    pub fn table(self, prefix: &str) -> Result<Self> {
        Ok(Self::of(self.tables.named(prefix)?))
    }

    /// The schema that the tables are in. It must exist.
    ///
    /// # Errors
    /// As [`InTransaction::table`].
    pub fn schema_name(self, schema: &str) -> Result<Self> {
        Ok(Self::of(self.tables.within(schema)?))
    }

    /// The statement that makes the table of fences, for whoever may not make it at run time. It is
    /// also in [`Options::schema`](super::Options::schema).
    pub fn schema(&self) -> String {
        expand(&self.tables, SCHEMA)
    }

    /// Makes the table of fences unless it is there. Several may do it at once.
    ///
    /// # Errors
    /// [`Denied`](ErrorKind::Denied) when the user may not make tables,
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) when there is no such schema,
    /// [`Unavailable`](ErrorKind::Unavailable) when the server can't be reached.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the table may then stay behind.
    pub async fn make_tables(&self, connection: &mut PgConnection) -> Result<()> {
        // Two who begin at once make it one after the other. Several statements in one go are a
        // transaction, if there isn't one anyway.
        let text = format!("SELECT pg_advisory_xact_lock(5499258310474722403); {}", self.schema());
        fetch_on(connection, text).await.map(drop).map_err(|cause| failed(&cause))
    }

    /// Deletes fences of names that weren't used for `idle`, in one small step, and answers how many:
    /// go on until it answers 0. No transaction waits for it.
    ///
    /// Let `idle` be longer than any holder can be stopped: a fence that is deleted refuses nobody.
    ///
    /// # Errors
    /// As [`check_fence`](check_fence()).
    ///
    /// # Cancel safety
    /// May be dropped at any time; the step is then done or not.
    pub async fn sweep(&self, connection: &mut PgConnection, idle: Duration) -> Result<u64> {
        let text = self.sweep.render(&transaction::sweeping(idle), Postgresql::literal);
        let rows = fetch_on(connection, text).await.map_err(|cause| failed(&cause))?;
        transaction::swept(&rows).map_err(|bad| bad_row(bad, BACKEND))
    }

    /// As [`lock_in_transaction`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn lock(&self, tx: &mut PgConnection, name: &str, wait: Wait) -> Result<Outcome> {
        let limit = Limit::of(wait);
        let name = LockName::new(name)?;
        self.lock_name(tx, &name, &limit).await.map_err(|error| error.with_name(&name))
    }

    async fn lock_name(
        &self,
        tx: &mut PgConnection,
        name: &LockName,
        limit: &Limit,
    ) -> Result<Outcome> {
        let name = ("name", Value::Text(name.as_str()));
        let rows = run(tx, &self.try_lock, &[name]).await.map_err(|cause| failed(&cause))?;
        if tried(&rows)? {
            return Ok(Outcome::Locked);
        }
        while let Some(slice) = limit.slice() {
            let slice_ms = ("slice_ms", Value::Int(millis(slice)));
            match run(tx, &self.wait, &[name, slice_ms]).await {
                Ok(_) => return Ok(Outcome::Locked),
                Err(cause) if is(&cause, LOCK_NOT_AVAILABLE) => {}
                Err(cause) => return Err(failed(&cause)),
            }
        }
        Ok(Outcome::Busy)
    }

    /// As [`check_fence`](check_fence()).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn check_fence(&self, tx: &mut PgConnection, name: &str, fence: Fence) -> Result<()> {
        let name = LockName::new(name)?;
        let arguments = [
            ("name", Value::Text(name.as_str())),
            ("fence", Value::Int(transaction::number(fence, BACKEND)?)),
        ];
        let rows = run(tx, &self.fence, &arguments)
            .await
            .map_err(|cause| failed(&cause).with_name(&name))?;
        let highest = rows.last().ok_or(BadRow).and_then(|row| row.int(0));
        let highest = highest.map_err(|bad| bad_row(bad, BACKEND))?;
        transaction::compare(&name, fence, highest, BACKEND)
    }
}

fn expand(tables: &Tables, text: &str) -> String {
    tables.expand(&text.replace("{key}", KEY), Postgresql::QUOTE)
}

/// Runs a text that begins with a savepoint. When it fails, the transaction is as it was before.
async fn run(tx: &mut PgConnection, sql: &Sql, arguments: Arguments<'_>) -> sqlx::Result<Vec<Row>> {
    let answer = fetch_on(tx, sql.render(arguments, Postgresql::literal)).await;
    if let Err(cause @ sqlx::Error::Database(_)) = &answer
        && !is(cause, NO_TRANSACTION)
        && !is(cause, FAILED_TRANSACTION)
    {
        fetch_on(tx, ROLL_BACK.to_owned()).await?;
    }
    answer
}

/// The answer to a try.
fn tried(rows: &[Row]) -> Result<bool> {
    let bad = |bad| bad_row(bad, BACKEND);
    let row = rows.last().ok_or(BadRow).map_err(bad)?;
    if row.bool(2).map_err(bad)? {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "this server is a replica, and what is locked here keeps nobody out on its primary; \
             begin the transaction there",
        )
        .with_backend(BACKEND));
    }
    let isolation = row.text(1).map_err(bad)?.unwrap_or_default();
    if !matches!(isolation, "read committed" | "read uncommitted") {
        return Err(Error::invalid_input(format!(
            "this transaction is {isolation:?}: after the wait it would still see what was there \
             before; begin it as READ COMMITTED, or hold a mutex from before it begins"
        ))
        .with_backend(BACKEND));
    }
    row.bool(0).map_err(bad)
}

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const NO_TRANSACTION: &str = "25P01";
const FAILED_TRANSACTION: &str = "25P02";
const LOCK_NOT_AVAILABLE: &str = "55P03";
const DEADLOCK: &str = "40P01";
const SERIALIZATION: &str = "40001";

fn is(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|found| found == code)
}

fn failed(cause: &sqlx::Error) -> Error {
    let error = if is(cause, NO_TRANSACTION) {
        transaction::no_transaction("the lock, or the check")
    } else if is(cause, FAILED_TRANSACTION) {
        Error::invalid_input("a statement of this transaction has failed before; roll it back")
    } else if is(cause, DEADLOCK) {
        Error::unavailable(
            "a deadlock: who has the lock waits for this transaction; roll it back and begin \
             again, and take several locks always in the same order",
        )
    } else if is(cause, SERIALIZATION) {
        Error::unavailable(
            "another transaction with this name was committed since this one began; roll it back \
             and begin again",
        )
    } else if is(cause, LOCK_NOT_AVAILABLE) {
        Error::unavailable(
            "another transaction with this name is under way, and the lock_timeout of this one is \
             over",
        )
    } else {
        return transaction::failed(cause, Postgresql::judge, BACKEND);
    };
    error.with_backend(BACKEND).with_source(cause.to_string())
}

/// Rounded up: the server's unit is the millisecond, and none at all would be for ever.
fn millis(slice: Duration) -> i64 {
    i64::try_from(slice.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX).max(1)
}
