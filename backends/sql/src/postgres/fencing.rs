use std::time::Duration;

use lockwright_core::{Fence, Result};
use sqlx::PgConnection;

use super::dialect::{Postgresql, fetch_on};
use super::transaction::{BACKEND, DEFAULT, InTransaction, failed};
use crate::server::dialect::Dialect;
use crate::server::errors::bad_row;
use crate::server::fence_check;

/// Rejects a holder's transaction if a later holder has already written.
///
/// Records the fence for the name, and locks the record until the transaction ends. The name may
/// differ from the lock's, but all writers of the same data must use the same name. A connected
/// [`Postgres`](super::Postgres) or [`InTransaction::make_tables`] creates the table.
///
/// # Errors
/// - [`Lost`](lockwright_core::ErrorKind::Lost) with
///   [`Superseded`](lockwright_core::Reason::Superseded): a later holder has written. Roll the
///   transaction back.
/// - [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput): an invalid
///   [name](lockwright_core::LockName), a fence above [`Fence::MAX`], no open transaction, or a
///   failed transaction.
/// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the table doesn't exist.
/// - [`Denied`](lockwright_core::ErrorKind::Denied): the user may not change the table.
/// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): another transaction had locked the
///   name for longer than the user's `lock_timeout`; at a level above `READ COMMITTED`, another
///   transaction has changed the record; or the connection broke.
///
/// # Cancel safety
/// May be dropped; the transaction must then be rolled back or dropped.
pub async fn check_fence(tx: &mut PgConnection, name: &str, fence: Fence) -> Result<()> {
    DEFAULT.check_fence(tx, name, fence).await
}

impl InTransaction {
    /// Deletes some fences of names unused for `idle`, and returns their number. Call it again
    /// until it returns 0. No transaction waits for a sweep.
    ///
    /// `idle` must be longer than any holder can be paused, because a deleted fence rejects no
    /// write.
    ///
    /// # Errors
    /// As [`check_fence`](check_fence()).
    ///
    /// # Cancel safety
    /// May be dropped at any time; the fences are then deleted or not.
    pub async fn sweep(&self, connection: &mut PgConnection, idle: Duration) -> Result<u64> {
        let text = self.sweep.render(&fence_check::sweeping(idle), Postgresql::literal);
        let rows = fetch_on(connection, text).await.map_err(|cause| failed(&cause))?;
        fence_check::swept(&rows).map_err(|bad| bad_row(bad, BACKEND))
    }
}
