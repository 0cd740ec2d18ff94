//! Locks and fences in a transaction of the application's own.
//!
//! # A lock of the transaction
//!
//! [`lock_in_transaction`] locks the name's row of the table `lockwright_turn`. What the transaction
//! does is done under the lock, and the lock ends with it: by commit, by rollback, or when the
//! connection goes. So there is nothing to renew, nothing to lose, and no fence.
//!
//! ```no_run
//! # async fn example(pool: sqlx::MySqlPool) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use lockwright_sql::mysql::lock_in_transaction;
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
//! - **Take it before the transaction reads anything.** At `REPEATABLE READ`, MySQL's default, a
//!   plain `SELECT` sees what was there at the first plain `SELECT` of the transaction. If that was
//!   before the wait, it sees what was there before the wait.
//! - It excludes other transactions, and whoever else locks the name's row with `SELECT … FOR UPDATE`
//!   or changes it. It does not exclude holds of a client, in whatever mode.
//! - The same transaction may take it again, and any number of others. Take several always in the
//!   same order: of two that wait for each other the server rolls one back at once, as a whole.
//! - A name's row stays: [`InTransaction::sweep`] clears old ones away. The server may also find a
//!   deadlock when the very first transaction with a name is rolled back while two or more wait for
//!   it.
//! - On a cluster with several primaries (Galera), two transactions on different nodes can both have
//!   it, and only one of them can be committed: the other one's commit is an error.
//!
//! # A fence
//!
//! Whoever holds a [`Guard`](lockwright_core::Guard) may be stopped for longer than its TTL, and go on
//! to write what somebody else has changed since. [`check_fence`] in the transaction that writes
//! refuses that. Fences of every backend will do.
//!
//! ```no_run
//! # async fn example(locks: lockwright_core::Locks, pool: sqlx::MySqlPool) -> Result<(), Box<dyn std::error::Error>> {
//! use lockwright_sql::mysql::check_fence;
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
//! what the first one has done, if it has read nothing before.

use std::sync::LazyLock;
use std::time::Duration;

use lockwright_core::{Error, Fence, LockName, Result};
use sqlx::{Connection, MySqlConnection};

use super::dialect::{DEADLOCK, LOCK_WAIT_TIMEOUT, MySql, fetch_on, number};
use crate::server::dialect::{BadRow, Dialect, Row};
use crate::server::errors::bad_row;
use crate::server::sql::{Arguments, Sql, Value};
use crate::server::table::Tables;
use crate::server::transaction::{self, Limit, Outcome, Wait};

const BACKEND: &str = "mysql-transaction";

const SCHEMA: &str = include_str!("../../schema/mysql_transaction.sql");

/// How often it is asked in the last second of a wait: the server counts whole ones.
const PAUSE: Duration = Duration::from_millis(20);

/// Takes a lock in the application's own transaction, which has it until it ends.
///
/// After [`Outcome::Busy`] the transaction is as it was before. MariaDB keeps to [`Wait::No`] and to
/// parts of a second; MySQL waits for whole seconds, and at least one.
///
/// The tables must be there: a [`Mysql`](super::Mysql) that is connected has made them, and
/// [`InTransaction::make_tables`] makes them alone. The [module's page](self) says whom it excludes,
/// and why it comes before the transaction's first `SELECT`.
///
/// # Errors
/// - [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput): not a [name](LockName), or no transaction was begun.
/// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): there are no such tables.
/// - [`Denied`](lockwright_core::ErrorKind::Denied): the user may not change them.
/// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): the transaction was rolled back **by the server**,
///   because of a deadlock or because it is told to with `innodb_rollback_on_timeout`; or it only
///   reads; or the connection broke.
///
/// # Cancel safety
/// Nothing is locked that outlives the transaction. But when it is dropped in the middle of a wait,
/// the server goes on waiting, for at most five seconds, and until then the connection does nothing
/// else. Drop the transaction with it: it is rolled back after that. On MySQL the session's
/// `innodb_lock_wait_timeout` may then stay as short; MariaDB's never changes.
pub async fn lock_in_transaction(
    tx: &mut MySqlConnection,
    name: &str,
    wait: Wait,
) -> Result<Outcome> {
    DEFAULT.lock(tx, name, wait).await
}

/// Refuses a holder's transaction if a later holder has written before.
///
/// Records the fence for the name, and locks the record until the transaction ends. The name needn't
/// be that of the lock; but whoever writes to the same things must use the same.
///
/// The tables must be there, as for [`lock_in_transaction`].
///
/// # Errors
/// - [`Lost`](lockwright_core::ErrorKind::Lost) with [`Superseded`](lockwright_core::Reason::Superseded): a later
///   holder has written. Roll the transaction back.
/// - [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput): not a [name](LockName), a fence above
///   [`Fence::MAX`], or no transaction was begun.
/// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): there are no such tables.
/// - [`Denied`](lockwright_core::ErrorKind::Denied): the user may not change them.
/// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): another transaction with this name was in the way for
///   longer than the user's own `innodb_lock_wait_timeout`; the server has rolled the transaction
///   back because of a deadlock; or the connection broke.
///
/// # Cancel safety
/// May be dropped; the transaction then must be rolled back, or dropped.
pub async fn check_fence(tx: &mut MySqlConnection, name: &str, fence: Fence) -> Result<()> {
    DEFAULT.check_fence(tx, name, fence).await
}

static DEFAULT: LazyLock<InTransaction> = LazyLock::new(InTransaction::default);

/// [`lock_in_transaction`] and [`check_fence`](check_fence()), with tables of other names than
/// `lockwright_*`.
///
/// Make one and keep it.
#[derive(Debug, Clone)]
pub struct InTransaction {
    tables: Tables,
    probe: Sql,
    lock: Sql,
    restore: Sql,
    passed: Sql,
    fence: Sql,
    sweep: [Sql; 2],
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
        let sql = |text: &str| Sql::new(&tables.expand(text, MySql::QUOTE));
        Self {
            probe: sql(include_str!("queries/transaction_probe.sql")),
            lock: sql(include_str!("queries/transaction_lock.sql")),
            restore: sql(include_str!("queries/transaction_restore.sql")),
            passed: sql(include_str!("queries/transaction_passed.sql")),
            fence: sql(include_str!("queries/transaction_fence.sql")),
            sweep: [("{turn}", "used"), ("{fence}", "updated")].map(|(swept, age)| {
                let text = include_str!("queries/transaction_sweep.sql");
                sql(&text.replace("{swept}", swept).replace("{age}", age))
            }),
            tables,
        }
    }

    /// What the tables' names begin with; `lockwright` by default.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) unless it is made of small letters, digits and
    /// underscores.
    pub fn table(self, prefix: &str) -> Result<Self> {
        Ok(Self::of(self.tables.named(prefix)?))
    }

    /// The database that the tables are in, if it isn't the connection's own. It must exist.
    ///
    /// # Errors
    /// As [`InTransaction::table`].
    pub fn schema_name(self, schema: &str) -> Result<Self> {
        Ok(Self::of(self.tables.within(schema)?))
    }

    /// The statements that make the tables, for whoever may not make them at run time. They are also
    /// in [`Options::schema`](super::Options::schema).
    pub fn schema(&self) -> String {
        self.tables.expand(SCHEMA, MySql::QUOTE)
    }

    /// Makes the tables unless they are there. Several may do it at once.
    ///
    /// # Errors
    /// [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput) in a transaction, which that would commit;
    /// [`Denied`](lockwright_core::ErrorKind::Denied) when the user may not make tables;
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) when there is no such database;
    /// [`Unavailable`](lockwright_core::ErrorKind::Unavailable) when the server can't be reached.
    ///
    /// # Cancel safety
    /// May be dropped at any time; tables may then stay behind.
    pub async fn make_tables(&self, connection: &mut MySqlConnection) -> Result<()> {
        if connection.is_in_transaction() {
            return Err(Error::invalid_input(
                "making tables would commit this transaction; make them before it begins",
            )
            .with_backend(BACKEND));
        }
        fetch_on(connection, self.schema()).await.map(drop).map_err(|cause| failed(&cause))
    }

    /// Deletes rows of names that weren't used for `idle`, in one small step, and answers how many:
    /// go on until it answers 0. No transaction waits for it.
    ///
    /// Let `idle` be longer than any holder can be stopped: a fence that is deleted refuses nobody.
    ///
    /// # Errors
    /// [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput) in a transaction, which that would commit;
    /// otherwise as [`check_fence`](check_fence()).
    ///
    /// # Cancel safety
    /// May be dropped at any time; the step is then done or not.
    pub async fn sweep(&self, connection: &mut MySqlConnection, idle: Duration) -> Result<u64> {
        if connection.is_in_transaction() {
            return Err(Error::invalid_input("sweeping would commit this transaction")
                .with_backend(BACKEND));
        }
        let arguments = transaction::sweeping(idle);
        let mut swept = 0;
        for sql in &self.sweep {
            let rows = match run(connection, sql, &arguments).await {
                Ok(rows) => rows,
                Err(cause) => {
                    // It failed within a transaction of its own.
                    let _ = fetch_on(connection, "ROLLBACK".to_owned()).await;
                    return Err(failed(&cause));
                }
            };
            swept += transaction::swept(&rows).map_err(|bad| bad_row(bad, BACKEND))?;
        }
        Ok(swept)
    }

    /// As [`lock_in_transaction`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn lock(&self, tx: &mut MySqlConnection, name: &str, wait: Wait) -> Result<Outcome> {
        let limit = Limit::of(wait);
        let name = LockName::new(name)?;
        self.lock_name(tx, &name, &limit).await.map_err(|error| error.with_name(&name))
    }

    async fn lock_name(
        &self,
        tx: &mut MySqlConnection,
        name: &LockName,
        limit: &Limit,
    ) -> Result<Outcome> {
        run(tx, &self.probe, &[]).await.map_err(|cause| failed(&cause))?;
        let mut slice = Duration::ZERO;
        loop {
            // Whole ones, and what remains is asked for again and again.
            let seconds = i64::try_from(slice.as_secs()).unwrap_or(i64::MAX);
            let arguments =
                [("name", Value::Text(name.as_str())), ("seconds", Value::Int(seconds))];
            match run(tx, &self.lock, &arguments).await {
                Ok(_) => return Ok(Outcome::Locked),
                Err(cause) if number(&cause) == Some(LOCK_WAIT_TIMEOUT) => self.passed(tx).await?,
                Err(cause) => {
                    // Whatever is wrong with it is said by the first error.
                    let _ = run(tx, &self.restore, &[]).await;
                    return Err(failed(&cause));
                }
            }
            let Some(left) = limit.slice() else { return Ok(Outcome::Busy) };
            slice = left;
            if slice < Duration::from_secs(1) {
                tokio::time::sleep(slice.min(PAUSE)).await;
            }
        }
    }

    /// After a wait in vain: the transaction must still be there.
    async fn passed(&self, tx: &mut MySqlConnection) -> Result<()> {
        run(tx, &self.restore, &[]).await.map_err(|cause| failed(&cause))?;
        run(tx, &self.passed, &[]).await.map(drop).map_err(|cause| match number(&cause) {
            Some(NO_SAVEPOINT) => Error::unavailable(
                "the server has rolled this whole transaction back, as it is told to by \
                 innodb_rollback_on_timeout; begin it again",
            )
            .with_backend(BACKEND),
            _ => failed(&cause),
        })
    }

    /// As [`check_fence`](check_fence()).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn check_fence(
        &self,
        tx: &mut MySqlConnection,
        name: &str,
        fence: Fence,
    ) -> Result<()> {
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

async fn run(
    tx: &mut MySqlConnection,
    sql: &Sql,
    arguments: Arguments<'_>,
) -> sqlx::Result<Vec<Row>> {
    fetch_on(tx, sql.render(arguments, MySql::literal)).await
}

/// Of the probe: there is no transaction.
const NO_SAVEPOINT: u16 = 1305;
const READ_ONLY: u16 = 1792;

fn failed(cause: &sqlx::Error) -> Error {
    let error = match number(cause) {
        Some(NO_SAVEPOINT) => transaction::no_transaction("the lock, or the check"),
        Some(DEADLOCK) => Error::unavailable(
            "a deadlock: the server has rolled this whole transaction back; begin it again, and \
             take several locks always in the same order",
        ),
        Some(LOCK_WAIT_TIMEOUT) => Error::unavailable(
            "another transaction with this name is under way, and the innodb_lock_wait_timeout of \
             this one is over",
        ),
        Some(READ_ONLY) => Error::unavailable(
            "this transaction only reads, and the lock is a row that is written; begin it without \
             READ ONLY",
        ),
        Some(other) => {
            let code = other.to_string();
            let judge = |_: &str, message: &str| MySql::judge(&code, message);
            return transaction::failed(cause, judge, BACKEND);
        }
        None => return transaction::failed(cause, MySql::judge, BACKEND),
    };
    error.with_backend(BACKEND).with_source(cause.to_string())
}
