//! What each database brings.

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

/// A database, as far as it differs from the others.
///
/// Every text is sent as it is by [`Dialect::fetch`], in one round trip, and may consist of several
/// statements. A text that changes anything must be atomic, or such that each of its statements
/// may be the last one that is carried out.
pub(crate) trait Dialect: Debug + Send + Sync + Sized + 'static {
    /// A connection. Dropping it closes it.
    type Connection: Send + 'static;

    /// What names are quoted with.
    const QUOTE: char;

    /// The server's clock as `{now}` in the texts: microseconds, read anew wherever it stands.
    const NOW: &'static str;

    /// Whether tables can be made in one transaction. Elsewhere those who begin at once may find
    /// some of them, and go on making the others.
    const TABLES_APPEAR_AT_ONCE: bool = true;

    /// Returns the SQL with a longer limit on waits for other sessions than requests have.
    fn patiently(text: String) -> String;

    /// What errors say they come from: the profile's name.
    fn backend(&self) -> &'static str;

    /// The tables.
    fn tables(&self) -> &Tables;

    /// The texts.
    fn texts(&self) -> &'static Texts;

    /// A text with the names of the tables, and the clock.
    fn expand(&self, text: &str) -> String {
        self.tables().expand(text, Self::QUOTE).replace("{now}", Self::NOW)
    }

    /// Where a release that somebody waits for is told, in the words of the texts.
    fn channel(&self) -> &str {
        ""
    }

    /// Whether the way to the server is a file of this machine, and not a network.
    fn is_by_file(&self) -> bool;

    /// Opens a connection, ready for use.
    fn connect(&self) -> impl Future<Output = sqlx::Result<Self::Connection>> + Send;

    /// Opens a connection for requests, with the server's own time limits set where possible. Also
    /// returns its session, unless a pooler shares that between connections.
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

    /// Sends a text, and answers the rows of all its statements.
    fn fetch<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        text: String,
    ) -> impl Future<Output = sqlx::Result<Vec<Row>>> + Send + 'a;

    /// Sends a text with values for its parameters.
    fn execute<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        sql: &'a Sql,
        arguments: Arguments<'a>,
    ) -> impl Future<Output = sqlx::Result<Vec<Row>>> + Send + 'a {
        self.fetch(connection, sql.render(arguments, Self::literal))
    }

    /// Writes a value as a literal, so that nothing in it can be taken for SQL.
    fn literal(value: Value<'_>, text: &mut String);

    /// The code by which an error is judged: the SQLSTATE, where that tells enough.
    fn code(error: &dyn DatabaseError) -> Cow<'_, str> {
        error.code().unwrap_or_default()
    }

    /// What a server's error means, by its code and its message; `None` for one that isn't known.
    fn judge(code: &str, message: &str) -> Option<Verdict>;

    /// Looks at the live server.
    fn examine(&self, pool: &Pool<Self>) -> impl Future<Output = Result<Vec<Finding>>> + Send;
}

/// The texts of a database. Their parameters and columns are the same in all of them; each file
/// says what they are. Times are the server's, in microseconds.
#[derive(Debug)]
pub(crate) struct Texts {
    /// The tables.
    pub(crate) schema: &'static str,
    /// Answers `version`.
    pub(crate) version: &'static str,
    pub(crate) acquire: &'static str,
    pub(crate) renew: &'static str,
    pub(crate) release: &'static str,
    /// A release that leaves a tombstone.
    pub(crate) settle: &'static str,
    /// Gives a hold to another token.
    pub(crate) swap: &'static str,
    pub(crate) inspect: &'static str,
    pub(crate) list: &'static str,
    pub(crate) break_run_out: &'static str,
    pub(crate) break_now: &'static str,
    /// Raises the floor above what the next text deletes.
    pub(crate) sweep_floor: &'static str,
    pub(crate) sweep_leases: &'static str,
    pub(crate) sweep_tombstones: &'static str,
    // The same for those who hold a name beside each other.
    pub(crate) beside_acquire: &'static str,
    pub(crate) beside_renew: &'static str,
    pub(crate) beside_release: &'static str,
    pub(crate) beside_settle: &'static str,
    /// Takes back that a writer waits.
    pub(crate) beside_end: &'static str,
    /// Notes that a writer waits.
    pub(crate) beside_wait: &'static str,
    pub(crate) beside_swap: &'static str,
    pub(crate) beside_break: &'static str,
    pub(crate) beside_break_now: &'static str,
    pub(crate) beside_sweep: &'static str,
}

/// One row of an answer, column by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row(pub(crate) Vec<Cell>);

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
}

impl Row {
    /// A number, or a boolean as 0 or 1.
    pub(crate) fn int(&self, at: usize) -> Result<i64, BadRow> {
        match self.0.get(at) {
            Some(Cell::Int(number)) => Ok(*number),
            _ => Err(BadRow),
        }
    }

    /// Whether there is no value, or no such column.
    pub(crate) fn is_null(&self, at: usize) -> bool {
        matches!(self.0.get(at), None | Some(Cell::Null))
    }

    /// A boolean; `NULL` is false.
    pub(crate) fn bool(&self, at: usize) -> Result<bool, BadRow> {
        match self.0.get(at) {
            Some(Cell::Int(number)) => Ok(*number != 0),
            Some(Cell::Null) => Ok(false),
            _ => Err(BadRow),
        }
    }

    /// A text, if it isn't `NULL`.
    pub(crate) fn text(&self, at: usize) -> Result<Option<&str>, BadRow> {
        match self.0.get(at) {
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Null) => Ok(None),
            _ => Err(BadRow),
        }
    }
}

/// A row that isn't as the texts make them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BadRow;
