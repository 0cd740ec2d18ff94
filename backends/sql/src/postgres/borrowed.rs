//! Requests on the connections of the program's pool.
//!
//! sqlx's pool may hand out a connection with an open transaction, if the program dropped its
//! `BEGIN`, or with an unread answer, if the program dropped a `COPY`. The session may have any
//! settings. So each request begins with statements that check or replace the settings.

use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::TryStreamExt as _;
use sqlx::AssertSqlSafe;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPool;

use super::dialect::{below, code, row};
use crate::server::{Limits, Row};

pub(crate) struct Borrowed {
    connection: PoolConnection<sqlx::Postgres>,
    /// Sets the session's parameters for one request.
    settings: String,
    /// False to close the connection instead of returning it.
    is_clean: bool,
}

impl Borrowed {
    /// If `has_schema`, the tables' names include their schema, so the search path is only
    /// `pg_catalog`.
    pub(super) async fn take(
        pool: &PgPool,
        limits: Limits,
        has_schema: bool,
    ) -> sqlx::Result<Self> {
        let [lock, statement] = [limits.answer, limits.slow].map(below);
        let path = if has_schema { "SET LOCAL search_path = pg_catalog; " } else { "" };
        let settings = format!(
            "{path}SET LOCAL lock_timeout = {lock}; SET LOCAL statement_timeout = {statement}; "
        );
        Ok(Self { connection: pool.acquire().await?, settings, is_clean: true })
    }

    pub(super) async fn fetch(&mut self, text: &str) -> sqlx::Result<Vec<Row>> {
        static NEXT: AtomicI64 = AtomicI64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // The request has a transaction of its own if that began with this message. A grant in an
        // earlier one would end with its `ROLLBACK`.
        let text = format!(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {}\
             SELECT {number}::bigint, CASE WHEN current_setting('synchronous_commit') = 'off' \
                 THEN set_config('synchronous_commit', 'on', true) END \
             WHERE 1 / (now() = statement_timestamp() \
                        AND current_setting('client_encoding') = 'UTF8')::int = 1; {text}",
            self.settings
        );
        self.is_clean = false;
        let answer = self.answer(text, number).await;
        self.is_clean = match &answer {
            Ok(_) => true,
            Err(error) => code(error).is_some_and(|code| !is_of_session(&code)),
        };
        answer
    }

    /// Returns the rows after the one with the request's `number`.
    async fn answer(&mut self, text: String, number: i64) -> sqlx::Result<Vec<Row>> {
        // Safe: table names are checked, and `literal` writes values.
        let mut answer = sqlx::raw_sql(AssertSqlSafe(text)).fetch(&mut *self.connection);
        let first = match answer.try_next().await {
            Ok(first) => first.as_ref().map(row).transpose()?,
            Err(error) if code(&error).is_some_and(|code| is_of_session(&code)) => {
                return Err(error);
            }
            Err(error) => return Err(sqlx::Error::Protocol(error.to_string())),
        };
        if first.and_then(|first| first.int(0).ok()) != Some(number) {
            return Err(sqlx::Error::Protocol("an answer to another request".to_owned()));
        }
        answer.try_collect::<Vec<_>>().await?.iter().map(row).collect()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if !self.is_clean {
            tracing::warn!(
                "closing a connection of the program's pool: an answer is missing, it has a \
                 transaction that the program dropped, or its encoding isn't UTF8"
            );
            self.connection.close_on_drop();
        }
    }
}

/// Returns whether the first statements of a request fail with this code.
pub(super) fn is_of_session(code: &str) -> bool {
    matches!(code, "22012" | "25001" | "25P02")
}
