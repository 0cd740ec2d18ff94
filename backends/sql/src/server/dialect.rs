use std::future::Future;
use std::sync::Arc;

use lockwright_core::{Fence, Finding, Result};

use super::{
    Arguments, Limits, Opened, Placeholder, Pool, ServerSession, Sql, StatementTexts, Tables,
    Value, Verdict,
};

/// A database server.
///
/// Each SQL text is atomic, or leaves correct data if the server crashes between its statements.
pub(crate) trait Dialect: Send + Sync + Sized + 'static {
    type Connection: Send + 'static;

    const QUOTE: char;

    const PLACEHOLDER: Placeholder;

    const NULL: &'static str = "NULL";

    /// SQL for `{now}`, the server's time in µs. The server reads its clock at each occurrence.
    const NOW: &'static str;

    const TEXTS: StatementTexts;

    /// False if a client may see some of the tables before another client has created the rest.
    const TABLES_APPEAR_AT_ONCE: bool = true;

    /// Returns the SQL text with a longer limit for waits for other sessions' locks.
    fn patiently(text: String) -> String;

    fn backend(&self) -> &'static str;

    fn tables(&self) -> &Tables;

    fn expand(&self, text: &str) -> String {
        self.tables().expand(text, Self::QUOTE).replace("{now}", Self::NOW)
    }

    fn channel(&self) -> &str {
        ""
    }

    fn is_by_file(&self) -> bool;

    fn open(
        &self,
        limits: Limits,
    ) -> impl Future<Output = sqlx::Result<Opened<Self::Connection>>> + Send;

    /// True if `open` takes a connection of the program's own pool.
    fn borrows(&self) -> bool {
        false
    }

    /// Ends those of `sessions` that still exist, and returns their ids.
    fn end_sessions<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        sessions: &'a [ServerSession],
    ) -> impl Future<Output = sqlx::Result<Vec<i64>>> + Send + 'a;

    /// Executes all statements in one round trip, and returns their rows.
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

    fn literal(value: Value<'_>, text: &mut String) {
        match value {
            Value::Int(number) => text.push_str(&number.to_string()),
            Value::Bool(yes) => text.push_str(if yes { "TRUE" } else { "FALSE" }),
            Value::Null => text.push_str(Self::NULL),
            Value::Text(value) => Self::quote(value, text),
        }
    }

    /// Appends a literal that means the same under all settings of the session.
    fn quote(value: &str, text: &mut String);

    fn judge(error: &sqlx::Error) -> Option<Verdict>;

    fn examine(&self, pool: &Arc<Pool<Self>>) -> impl Future<Output = Result<Vec<Finding>>> + Send;
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
    pub(crate) fn int(&self, at: usize) -> Result<i64, BadRow> {
        match self.0.get(at) {
            Some(Cell::Int(number)) => Ok(*number),
            _ => Err(BadRow),
        }
    }

    pub(crate) fn fence(&self, at: usize) -> Result<Fence, BadRow> {
        self.int(at)?.try_into().map(Fence::new).map_err(|_| BadRow)
    }

    pub(crate) fn is_null(&self, at: usize) -> bool {
        matches!(self.0.get(at), None | Some(Cell::Null))
    }

    pub(crate) fn bool(&self, at: usize) -> Result<bool, BadRow> {
        match self.0.get(at) {
            Some(Cell::Int(number)) => Ok(*number != 0),
            Some(Cell::Null) => Ok(false),
            _ => Err(BadRow),
        }
    }

    pub(crate) fn text(&self, at: usize) -> Result<Option<&str>, BadRow> {
        match self.0.get(at) {
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Null) => Ok(None),
            _ => Err(BadRow),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BadRow;
