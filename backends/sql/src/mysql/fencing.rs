use std::time::Duration;

use lockwright_core::{Error, Fence, Result};
use sqlx::{Connection, MySqlConnection};

use super::dialect::fetch_on;
use super::transaction::{BACKEND, DEFAULT, InTransaction, failed, run};
use crate::server::errors::bad_row;
use crate::server::fence_check;

/// Rejects a holder's transaction if a later holder has already written.
///
/// Records the fence for the name, and locks the record until the transaction ends. The name may
/// differ from the lock's, but all writers of the same data must use the same name. For the tables,
/// see [`lock_in_transaction`](super::lock_in_transaction).
///
/// # Errors
/// - [`Lost`](lockwright_core::ErrorKind::Lost) with
///   [`Superseded`](lockwright_core::Reason::Superseded): a later holder has written. Roll the
///   transaction back.
/// - [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput): an invalid
///   [name](lockwright_core::LockName), a fence above [`Fence::MAX`], or no open transaction.
/// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the tables don't exist.
/// - [`Denied`](lockwright_core::ErrorKind::Denied): the user may not change them.
/// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): another transaction had locked the
///   name for longer than `innodb_lock_wait_timeout`; a deadlock, after which the server has rolled
///   the transaction back; or the connection broke.
///
/// # Cancel safety
/// May be dropped; the transaction must then be rolled back or dropped.
pub async fn check_fence(tx: &mut MySqlConnection, name: &str, fence: Fence) -> Result<()> {
    DEFAULT.check_fence(tx, name, fence).await
}

impl InTransaction {
    /// Deletes some rows of names unused for `idle`, and returns their number. Call it again until
    /// it returns 0. No transaction waits for a sweep.
    ///
    /// `idle` must be longer than any holder can be paused, because a deleted fence rejects no
    /// write.
    ///
    /// # Errors
    /// [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput) in a transaction, because a sweep
    /// would commit it. Otherwise as [`check_fence`](check_fence()).
    ///
    /// # Cancel safety
    /// May be dropped at any time; the rows are then deleted or not.
    pub async fn sweep(&self, connection: &mut MySqlConnection, idle: Duration) -> Result<u64> {
        if connection.is_in_transaction() {
            return Err(Error::invalid_input("sweeping would commit this transaction")
                .with_backend(BACKEND));
        }
        let arguments = fence_check::sweeping(idle);
        let mut swept = 0;
        for sql in &self.sweep {
            let rows = match run(connection, sql, &arguments).await {
                Ok(rows) => rows,
                Err(cause) => {
                    // The failed statement may have left its transaction open.
                    let _ = fetch_on(connection, "ROLLBACK".to_owned()).await;
                    return Err(failed(&cause));
                }
            };
            swept += fence_check::swept(&rows).map_err(|bad| bad_row(bad, BACKEND))?;
        }
        Ok(swept)
    }
}
