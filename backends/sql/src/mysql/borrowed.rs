//! Requests on the connections of the program's pool.
//!
//! sqlx's pool may return a connection with an open transaction, or with an unread answer to a
//! dropped request. Each request detects both, and saves, sets and restores the session's settings.

use futures_util::TryStreamExt as _;
use lockwright_core::Token;
use sqlx::mysql::MySqlQueryResult;
use sqlx::{AssertSqlSafe, Either, MySql};

use super::dialect::{SESSION_SETTINGS, limits, number, row, rows_of};
use crate::server::borrowed::foreign_answer;
use crate::server::{Borrowed, Limits, Row};

const VARIABLES: [&str; 15] = [
    "autocommit",
    "character_set_client",
    "character_set_results",
    "collation_connection",
    "completion_type",
    "group_concat_max_len",
    "innodb_lock_wait_timeout",
    "last_insert_id",
    "lock_wait_timeout",
    "sql_big_selects",
    "sql_mode",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "wait_timeout",
];

/// Saves the variables of MariaDB or MySQL only. [`limits`] keeps a `max_statement_time`, so this
/// resets it.
const SAVE_OF_SERVER: &str = "SET \
    /*M! @lockwright_isolation = @@tx_isolation, @lockwright_read_only = @@tx_read_only, \
         @lockwright_statement = @@max_statement_time, max_statement_time = 0, \
         @lockwright_checks = @@check_constraint_checks, check_constraint_checks = 1 */ \
    /*M!110602 , @lockwright_snapshot = @@innodb_snapshot_isolation */ \
    /*!80000 @lockwright_isolation = @@transaction_isolation, \
             @lockwright_read_only = @@transaction_read_only, \
             @lockwright_statement = @@max_execution_time */";

const RESTORE_OF_SERVER: &str = "SET \
    /*M! tx_isolation = @lockwright_isolation, tx_read_only = @lockwright_read_only, \
         max_statement_time = @lockwright_statement, \
         check_constraint_checks = @lockwright_checks */ \
    /*M!110602 , innodb_snapshot_isolation = @lockwright_snapshot */ \
    /*!80000 transaction_isolation = @lockwright_isolation, \
             transaction_read_only = @lockwright_read_only, \
             max_execution_time = @lockwright_statement */";

pub(super) fn settings(time_limits: Limits) -> String {
    let save = VARIABLES.map(|name| format!("@lockwright_{name} = @@{name}")).join(", ");
    format!("SET {save}; {SAVE_OF_SERVER}; {SESSION_SETTINGS}; {}", limits(time_limits))
}

fn restore() -> String {
    let restore = VARIABLES.map(|name| format!("{name} = @lockwright_{name}")).join(", ");
    format!("SET {restore}; {RESTORE_OF_SERVER}")
}

impl Borrowed<MySql> {
    pub(super) async fn fetch(
        &mut self,
        text: &str,
        on_result: impl FnMut(&MySqlQueryResult) + Send,
    ) -> sqlx::Result<Vec<Row>> {
        let request_id = Token::random().to_string();
        // The text begins with DO: a proxy may send a SELECT to a replica, and ProxySQL binds the
        // connection to one server after a SET. LIMIT overrides `sql_select_limit = 0`. SET
        // TRANSACTION fails in an open transaction, whose ROLLBACK would undo a grant.
        let text = format!(
            "DO 0; SELECT '{request_id}' LIMIT 1; \
             SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {}; {}; {}",
            self.settings,
            text.trim_end().trim_end_matches(';'),
            restore()
        );
        self.is_clean = false;
        // Safe: table names are checked, and `literal` writes values.
        let mut answers = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(&mut *self.connection);
        let mut next = async || match answers.try_next().await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(foreign_answer()),
            // The error belongs to another request.
            Err(error) if number(&error).is_some() => Err(sqlx::Error::Protocol(error.to_string())),
            Err(error) => Err(error),
        };
        let (Either::Left(_), Either::Right(first)) = (next().await?, next().await?) else {
            return Err(foreign_answer());
        };
        if !row(&first)?.text(0).is_ok_and(|found| found == Some(request_id.as_str())) {
            return Err(foreign_answer());
        }
        let rows = rows_of(answers, on_result).await?;
        self.is_clean = true;
        Ok(rows)
    }
}
