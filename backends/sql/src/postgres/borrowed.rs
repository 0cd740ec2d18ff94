//! Requests on the connections of the program's pool.
//!
//! sqlx's pool may return a connection with an open transaction, if the program dropped its
//! `BEGIN`, or with an unread answer, if a `COPY` failed or was dropped. So each request begins
//! with statements that detect these, and replace the session's settings.

use futures_util::TryStreamExt as _;
use lockwright_core::Token;
use sqlx::{AssertSqlSafe, Postgres};

use super::dialect::{below, code, row};
use crate::server::borrowed::foreign_answer;
use crate::server::{Borrowed, Limits, Row};

/// If `has_schema`, the tables' names include their schema, so the search path needs only
/// `pg_catalog`. Without `pg_temp` behind it, temporary tables and types would be found first.
pub(super) fn settings(limits: Limits, has_schema: bool) -> String {
    let [lock, statement] = [limits.answer, limits.slow].map(below);
    let path = if has_schema { "SET LOCAL search_path = pg_catalog, pg_temp; " } else { "" };
    format!("{path}SET LOCAL lock_timeout = {lock}; SET LOCAL statement_timeout = {statement}; ")
}

impl Borrowed<Postgres> {
    pub(super) async fn fetch(&mut self, text: &str) -> sqlx::Result<Vec<Row>> {
        let request_id = Token::random().to_string();
        // A grant in a transaction that began before this message would end with that one's
        // `ROLLBACK`.
        let text = format!(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {}\
             SELECT '{request_id}', CASE WHEN current_setting('synchronous_commit') = 'off' \
                 THEN set_config('synchronous_commit', 'on', true) END \
             WHERE (CASE WHEN now() = statement_timestamp() \
                              AND current_setting('client_encoding') = 'UTF8' \
                         THEN '1' ELSE '{UNUSABLE} {request_id}' END)::int = 1; {text}",
            self.settings
        );
        self.is_clean = false;
        let answer = self.answer(text, &request_id).await;
        self.is_clean = match &answer {
            Ok(_) => true,
            Err(error) => code(error).is_some() && !error.to_string().contains(&request_id),
        };
        answer
    }

    /// Returns the rows after the one with `request_id`. An error before it may belong to another
    /// request.
    async fn answer(&mut self, text: String, request_id: &str) -> sqlx::Result<Vec<Row>> {
        // Safe: table names are checked, and `literal` writes values.
        let mut answer = sqlx::raw_sql(AssertSqlSafe(text)).fetch(&mut *self.connection);
        let first = match answer.try_next().await {
            Ok(first) => first.as_ref().map(row).transpose()?,
            Err(error) if code(&error).is_none() || error.to_string().contains(request_id) => {
                return Err(error);
            }
            Err(error) => return Err(sqlx::Error::Protocol(error.to_string())),
        };
        if !first.is_some_and(|first| first.text(0).is_ok_and(|found| found == Some(request_id))) {
            return Err(foreign_answer());
        }
        answer.try_collect::<Vec<_>>().await?.iter().map(row).collect()
    }
}

/// The server's error if the request began in an earlier transaction, or in another encoding.
/// Nothing of it was carried out then.
pub(super) const UNUSABLE: &str = "lockwright: unusable session";
