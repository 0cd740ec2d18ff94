//! Locks and fences in the application's own transaction: see [`transaction`](crate::transaction).
//!
//! # A lock of the transaction
//!
//! [`lock_in_transaction`] locks the name's row of `lockwright_turn` until the transaction ends.
//!
//! - **Take the lock, or check the fence, before the transaction reads anything.** At `REPEATABLE
//!   READ`, MySQL's default, plain `SELECT`s see the state at the transaction's first `SELECT`, and
//!   so miss all changes made during a later wait.
//! - The lock excludes other transactions, and programs that lock the name's row with `SELECT … FOR
//!   UPDATE` or change it. It doesn't exclude holds of a [`Mysql`](super::Mysql).
//! - On a deadlock, the server rolls back one whole transaction.
//! - A name's row remains until [`InTransaction::sweep`]. The server may report a deadlock when a
//!   name's first transaction is rolled back while two or more others wait.
//! - On a cluster with several primaries (Galera), two transactions on different nodes can both
//!   have the lock, but only one can commit.

use std::time::Duration;

use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, LockName, Result};
use sqlx::{Connection, MySqlConnection};

use super::dialect::{DEADLOCK, LOCK_WAIT_TIMEOUT, MySql, fetch_on, number};
use crate::server::transaction::{Limit, Outcome, Wait};
use crate::server::{Arguments, BadRow, Dialect, Row, Sql, Tables, Value, bad_row, transaction};

const BACKEND: &str = "mysql-transaction";

const SCHEMA: &str = include_str!("../../schema/mysql_transaction.sql");

const FENCE_CHECK: &str = include_str!("queries/check_fence.sql");

/// Fails outside a transaction, where the savepoint ends at once.
const PROBE: &str = "SAVEPOINT lockwright_probe; RELEASE SAVEPOINT lockwright_probe";

const RESTORE: &str = "SET @lockwright = NULL \
                       /*!80000 , SESSION innodb_lock_wait_timeout = @lockwright_limit */";

/// SQL that fails if the wait's transaction has ended. It tests the savepoint, because without
/// autocommit, a new transaction may be open. Returns whether the server detects deadlocks, and the
/// session's limit on waits in seconds.
const PASSED: &str = "RELEASE SAVEPOINT lockwright_probe; \
                      SELECT @@innodb_deadlock_detect, @@SESSION.innodb_lock_wait_timeout";

const PAUSE: Duration = Duration::from_millis(20);

/// Locks a name in the application's own transaction, until the transaction ends.
///
/// MariaDB supports [`Wait::No`] and fractions of a second. MySQL waits for whole seconds, and at
/// least one. A connected [`Mysql`](super::Mysql) or [`InTransaction::make_tables`] creates the
/// tables.
///
/// # Errors
/// - [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput): an invalid [name](LockName), or no
///   open transaction.
/// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the tables don't exist.
/// - [`Denied`](lockwright_core::ErrorKind::Denied): the user may not change them.
/// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): with `innodb_deadlock_detect` off, a
///   wait without a limit has lasted for `innodb_lock_wait_timeout`, and may be a deadlock. Or the
///   **server** rolled the transaction back, because of a deadlock or `innodb_rollback_on_timeout`;
///   or the transaction is read-only; or the connection broke.
///
/// # Cancel safety
/// After a drop, the server may still wait on the connection for up to five seconds. Drop the
/// transaction too: it is rolled back after the wait. On MySQL the session's
/// `innodb_lock_wait_timeout` may then remain short.
pub async fn lock_in_transaction(
    tx: &mut MySqlConnection,
    name: &str,
    wait: Wait,
) -> Result<Outcome> {
    DEFAULT.lock(tx, name, wait).await
}

/// The functions of this module, for tables with a chosen prefix and database. Create one and reuse
/// it.
#[derive(Debug, Clone)]
pub struct InTransaction {
    tables: Tables,
    lock: Sql,
    fence: Sql,
    sweep: [Sql; 2],
}

transaction::in_transaction!(
    MySql,
    MySqlConnection,
    "the tables' database; by default the connection's. It must exist."
);

impl InTransaction {
    fn of(tables: Tables) -> Self {
        let sql = |text: &str| Sql::new(&tables.expand(text, MySql::QUOTE));
        Self {
            lock: sql(include_str!("queries/transaction_lock.sql")),
            fence: sql(&format!("{PROBE};\n{FENCE_CHECK}")),
            sweep: [("{turn}", "used"), ("{fence}", "updated")].map(|(swept, age)| {
                let text = include_str!("queries/transaction_sweep.sql");
                sql(&text.replace("{swept}", swept).replace("{age}", age))
            }),
            tables,
        }
    }

    /// Returns the SQL of [`check_fence`](check_fence()), for another driver or language: two
    /// statements, for the transaction of the write. With autocommit, they protect nothing, and no
    /// error reports that. [`make_tables`](Self::make_tables) creates the table.
    ///
    /// The parameters of the first are the name, and then the fence (a `BIGINT`) three times. The
    /// parameter of the second is the name, and its row has the highest fence. If that fence is
    /// above the holder's, a later holder has written: roll the transaction back.
    ///
    /// ```
    /// let [record, read] = lockwright_sql::mysql::InTransaction::new().fence_check();
    /// assert_eq!(
    ///     record,
    ///     "INSERT INTO `lockwright_fence` (name, fence, updated) VALUES (?, ?, UTC_TIMESTAMP()) \
    ///      ON DUPLICATE KEY UPDATE updated = IF(fence <= ?, UTC_TIMESTAMP(), updated), \
    ///      fence = GREATEST(fence, ?)"
    /// );
    /// assert_eq!(read, "SELECT fence FROM `lockwright_fence` WHERE name = ? FOR UPDATE");
    /// ```
    pub fn fence_check(&self) -> [String; 2] {
        let sql = Sql::new(&self.tables.expand(FENCE_CHECK, MySql::QUOTE));
        let text = sql.with_placeholders(MySql::PLACEHOLDER).text;
        let (record, read) = text.split_once("; ").expect("the check has two statements");
        [record, read].map(str::to_owned)
    }

    async fn make(&self, connection: &mut MySqlConnection) -> Result<()> {
        no_commit(
            connection,
            "making tables would commit this transaction; make them before it begins",
        )?;
        fetch_on(connection, self.schema()).await.map(drop).map_err(|cause| failed(&cause))
    }

    async fn sweep_tables(
        &self,
        connection: &mut MySqlConnection,
        arguments: Arguments<'_>,
    ) -> Result<u64> {
        no_commit(connection, "sweeping would commit this transaction")?;
        let mut swept = 0;
        for sql in &self.sweep {
            let rows = run(connection, sql, arguments).await;
            if rows.is_err() {
                // The failed statement may have left its transaction open.
                let _ = fetch_on(connection, "ROLLBACK".to_owned()).await;
            }
            swept += transaction::swept(&rows.map_err(|cause| failed(&cause))?, BACKEND)?;
        }
        Ok(swept)
    }

    async fn lock_name(
        &self,
        tx: &mut MySqlConnection,
        name: &LockName,
        limit: &Limit,
    ) -> Result<Outcome> {
        fetch_on(tx, PROBE.to_owned()).await.map_err(|cause| failed(&cause))?;
        let mut slice = Duration::ZERO;
        loop {
            // The server waits only for whole seconds, so the client polls for the rest.
            let seconds = i64::try_from(slice.as_secs()).unwrap_or(i64::MAX);
            let arguments =
                [("name", Value::Text(name.as_str())), ("seconds", Value::Int(seconds))];
            match run(tx, &self.lock, &arguments).await {
                Ok(_) => return Ok(Outcome::Locked),
                Err(cause) if number(&cause) == Some(LOCK_WAIT_TIMEOUT) => {
                    passed(tx, limit).await?;
                }
                Err(cause) => {
                    let _ = fetch_on(tx, RESTORE.to_owned()).await;
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
}

async fn passed(tx: &mut MySqlConnection, limit: &Limit) -> Result<()> {
    fetch_on(tx, RESTORE.to_owned()).await.map_err(|cause| failed(&cause))?;
    let rows = fetch_on(tx, PASSED.to_owned()).await.map_err(|cause| match number(&cause) {
        Some(NO_SAVEPOINT) => Error::unavailable(
            "the server has rolled this whole transaction back, because \
             innodb_rollback_on_timeout is set; begin it again",
        )
        .with_backend(BACKEND),
        _ => failed(&cause),
    })?;
    let read = rows.last().ok_or(BadRow).and_then(|row| Ok((row.bool(0)?, row.int(1)?)));
    let (finds_deadlocks, own_limit) = read.map_err(|bad| bad_row(bad, BACKEND))?;
    let own_limit = Duration::from_secs(own_limit.try_into().unwrap_or(0));
    match limit.waited_without_limit() {
        Some(waited) if !finds_deadlocks && waited >= own_limit => Err(Error::unavailable(
            "another transaction still holds this name after innodb_lock_wait_timeout, and \
             the server doesn't look for deadlocks (innodb_deadlock_detect is off); roll this \
             transaction back and begin it again, or wait with a limit",
        )
        .with_backend(BACKEND)),
        _ => Ok(()),
    }
}

fn no_commit(connection: &MySqlConnection, problem: &str) -> Result<()> {
    match connection.is_in_transaction() {
        true => Err(Error::invalid_input(problem).with_backend(BACKEND)),
        false => Ok(()),
    }
}

async fn run(
    tx: &mut MySqlConnection,
    sql: &Sql,
    arguments: Arguments<'_>,
) -> sqlx::Result<Vec<Row>> {
    fetch_on(tx, sql.render(arguments, MySql::literal)).await
}

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
            "another transaction holds this name, and the innodb_lock_wait_timeout of this one \
             has expired",
        ),
        Some(READ_ONLY) => Error::unavailable(
            "this transaction is read-only, and the lock writes a row; begin it without \
             READ ONLY",
        ),
        _ => return transaction::failed::<MySql>(cause, BACKEND),
    };
    error.with_backend(BACKEND).with_source(cause.to_string())
}
