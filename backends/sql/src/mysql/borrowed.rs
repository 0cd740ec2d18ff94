//! Requests on the connections of the program's pool.
//!
//! sqlx's pool may hand out a connection with an open transaction, if the program dropped its
//! `BEGIN`. The session may have any settings. So each request begins with statements that detect a
//! transaction and replace the settings, and ends with statements that restore them.

use futures_util::TryStreamExt as _;
use lockwright_core::Token;
use sqlx::mysql::MySqlQueryResult;
use sqlx::{AssertSqlSafe, Either, MySql};

use super::dialect::{BEGIN, limits, number, row, rows_of};
use crate::server::borrowed::foreign_answer;
use crate::server::{Borrowed, Limits, Row};

/// The variables that a request sets, except those with another name on MariaDB than on MySQL.
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

const SAVE_OTHERS: &str = "SET \
    /*M! @lockwright_isolation = @@tx_isolation, @lockwright_read_only = @@tx_read_only, \
         @lockwright_statement = @@max_statement_time, max_statement_time = 0 */ \
    /*!80000 @lockwright_isolation = @@transaction_isolation, \
             @lockwright_read_only = @@transaction_read_only, \
             @lockwright_statement = @@max_execution_time */";

const RESTORE_OTHERS: &str = "SET \
    /*M! tx_isolation = @lockwright_isolation, tx_read_only = @lockwright_read_only, \
         max_statement_time = @lockwright_statement */ \
    /*!80000 transaction_isolation = @lockwright_isolation, \
             transaction_read_only = @lockwright_read_only, \
             max_execution_time = @lockwright_statement */";

/// Saves the session's variables, and sets them for a request.
pub(super) fn settings(of: Limits) -> String {
    let save = VARIABLES.map(|name| format!("@lockwright_{name} = @@{name}")).join(", ");
    format!("SET {save}; {SAVE_OTHERS}; {BEGIN}; {}", limits(of))
}

fn restore() -> String {
    let restore = VARIABLES.map(|name| format!("{name} = @lockwright_{name}")).join(", ");
    format!("SET {restore}; {RESTORE_OTHERS}")
}

impl Borrowed<MySql> {
    /// Calls `done` with each statement's result.
    pub(super) async fn fetch(
        &mut self,
        text: &str,
        done: impl FnMut(&MySqlQueryResult) + Send,
    ) -> sqlx::Result<Vec<Row>> {
        let mark = Token::random().to_string();
        // A proxy may send a text that begins with SELECT to a replica. In a transaction, the server
        // rejects SET TRANSACTION. A grant there would end with its ROLLBACK.
        let text = format!(
            "SET @lockwright_mark = '{mark}'; SELECT @lockwright_mark LIMIT 1; \
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
            // The server's error for another request doesn't apply to this one.
            Err(error) if number(&error).is_some() => Err(sqlx::Error::Protocol(error.to_string())),
            Err(error) => Err(error),
        };
        let (Either::Left(_), Either::Right(marked)) = (next().await?, next().await?) else {
            return Err(foreign_answer());
        };
        if !row(&marked)?.text(0).is_ok_and(|found| found == Some(mark.as_str())) {
            return Err(foreign_answer());
        }
        let rows = rows_of(answers, done).await?;
        self.is_clean = true;
        Ok(rows)
    }
}
