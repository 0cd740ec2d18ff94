//! The interface to one database.

use std::borrow::Cow;
use std::fmt::Debug;
use std::future::Future;

use lockwright_core::{Finding, Result};
use sqlx::error::DatabaseError;

use super::abandoned::ServerSession;
use super::errors::Verdict;
use super::pool::{Limits, Pool};
use super::sql::{Arguments, Sql, Value};
use super::table::Tables;

/// A database server: everything in which it differs from the others.
///
/// [`Dialect::fetch`] sends each SQL text in one round trip. A text that changes anything is
/// atomic, or correct if execution stops after any of its statements.
pub(crate) trait Dialect: Debug + Send + Sync + Sized + 'static {
    type Connection: Send + 'static;

    const QUOTE: char;

    /// The clock `{now}`: microseconds, read at each occurrence.
    const NOW: &'static str;

    /// True if tables are created in one transaction. If not, concurrent first users may find some
    /// of them.
    const TABLES_APPEAR_AT_ONCE: bool = true;

    /// Returns the SQL with a longer limit on waits for other sessions.
    fn patiently(text: String) -> String;

    fn backend(&self) -> &'static str;

    fn tables(&self) -> &Tables;

    fn texts(&self) -> &'static Texts;

    /// Fills in the names of the tables and the clock.
    fn expand(&self, text: &str) -> String {
        self.tables().expand(text, Self::QUOTE).replace("{now}", Self::NOW)
    }

    fn channel(&self) -> &str {
        ""
    }

    /// Returns whether the server is reached through a file, not the network.
    fn is_by_file(&self) -> bool;

    fn connect(&self) -> impl Future<Output = sqlx::Result<Self::Connection>> + Send;

    /// Opens a connection for requests, with server-side time limits where possible. Also returns
    /// its session, unless a pooler shares it.
    fn open(
        &self,
        limits: Limits,
    ) -> impl Future<Output = sqlx::Result<(Self::Connection, Option<ServerSession>)>> + Send;

    /// Ends those of the sessions that still exist, and returns their ids.
    fn end_sessions<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        sessions: &'a [ServerSession],
    ) -> impl Future<Output = sqlx::Result<Vec<i64>>> + Send + 'a;

    /// Sends SQL and returns the rows of all its statements.
    fn fetch<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        text: String,
    ) -> impl Future<Output = sqlx::Result<Vec<Row>>> + Send + 'a;

    fn execute<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        sql: &'a Sql,
        arguments: Arguments<'a>,
    ) -> impl Future<Output = sqlx::Result<Vec<Row>>> + Send + 'a {
        self.fetch(connection, sql.render(arguments, Self::literal))
    }

    /// Writes a value as an escaped literal.
    fn literal(value: Value<'_>, text: &mut String);

    /// Returns the code for [`judge`](Dialect::judge): the SQLSTATE, if specific enough.
    fn code(error: &dyn DatabaseError) -> Cow<'_, str> {
        error.code().unwrap_or_default()
    }

    /// Returns the meaning of a server's error, or `None` for an unknown error.
    fn judge(code: &str, message: &str) -> Option<Verdict>;

    fn examine(&self, pool: &Pool<Self>) -> impl Future<Output = Result<Vec<Finding>>> + Send;
}

/// The SQL texts, whose parameters and columns are the same for all databases. Times are the
/// server's, in microseconds.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) schema: &'static str,
    pub(crate) version: &'static str,
    pub(crate) acquire: &'static str,
    pub(crate) renew: &'static str,
    pub(crate) release: &'static str,
    pub(crate) reconcile: &'static str,
    pub(crate) swap: &'static str,
    pub(crate) inspect: &'static str,
    pub(crate) list: &'static str,
    pub(crate) break_run_out: &'static str,
    pub(crate) break_now: &'static str,
    /// Raises the floor above the fences that `sweep_leases` deletes.
    pub(crate) sweep_floor: &'static str,
    pub(crate) sweep_leases: &'static str,
    pub(crate) sweep_tombstones: &'static str,
    // The same for shared holders.
    pub(crate) beside_acquire: &'static str,
    pub(crate) beside_renew: &'static str,
    pub(crate) beside_release: &'static str,
    pub(crate) beside_reconcile: &'static str,
    /// Removes the mark of a waiting writer.
    pub(crate) beside_end: &'static str,
    pub(crate) beside_wait: &'static str,
    pub(crate) beside_swap: &'static str,
    pub(crate) beside_break: &'static str,
    pub(crate) beside_break_now: &'static str,
    pub(crate) beside_sweep: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row(pub(crate) Vec<Cell>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
}

impl Row {
    /// Returns a number, or a boolean as 0 or 1.
    pub(crate) fn int(&self, at: usize) -> Result<i64, BadRow> {
        match self.0.get(at) {
            Some(Cell::Int(number)) => Ok(*number),
            _ => Err(BadRow),
        }
    }

    /// Returns whether the value is `NULL` or the column is missing.
    pub(crate) fn is_null(&self, at: usize) -> bool {
        matches!(self.0.get(at), None | Some(Cell::Null))
    }

    /// Returns a boolean; `NULL` is false.
    pub(crate) fn bool(&self, at: usize) -> Result<bool, BadRow> {
        match self.0.get(at) {
            Some(Cell::Int(number)) => Ok(*number != 0),
            Some(Cell::Null) => Ok(false),
            _ => Err(BadRow),
        }
    }

    /// Returns a text, or `None` for `NULL`.
    pub(crate) fn text(&self, at: usize) -> Result<Option<&str>, BadRow> {
        match self.0.get(at) {
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Null) => Ok(None),
            _ => Err(BadRow),
        }
    }
}

/// A row that no SQL of this crate produces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BadRow;
