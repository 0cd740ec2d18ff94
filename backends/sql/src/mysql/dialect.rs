use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures_util::stream::{BoxStream, TryStreamExt as _};
use lockwright_core::{CredentialProvider, ErrorKind, Finding, Result};
use sqlx::mysql::{
    MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlPool, MySqlQueryResult, MySqlRow,
};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Either, Row as _, TypeInfo, ValueRef};

use super::borrowed;
use super::config::Config;
use crate::server::errors::{plain, verdicts};
use crate::server::lease::statement_texts;
use crate::server::schema::MISSING;
use crate::server::{
    Arguments, Borrowed, Cell, Dialect, Limits, Opened, Placeholder, Pool, Row, ServerSession, Sql,
    StatementTexts, Tables, Verdict, tls,
};

/// The settings of each session:
///
/// - UTC: in other time zones, `SYSDATE` jumps at the end of daylight saving time.
/// - `READ COMMITTED`: statements must see earlier commits. MySQL's default also locks gaps, so
///   requests for different names would deadlock.
/// - No `sql_mode` that changes literals or the order of an `UPDATE`'s assignments, and no other
///   setting that rejects updates or shortens answers.
/// - `innodb_snapshot_isolation`, from MariaDB 11.6 on, rejects concurrent changes of a row.
/// - `group_concat_max_len` is enough for all names of a sweep step.
/// - `wait_timeout`: the server keeps idle connections longer than the pool does.
pub(super) const SESSION_SETTINGS: &str = "SET NAMES utf8mb4, time_zone = '+00:00', completion_type = 'NO_CHAIN', \
                     autocommit = 1, \
                     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', \
                     sql_safe_updates = 0, sql_big_selects = 1, sql_select_limit = 18446744073709551615, \
                     innodb_lock_wait_timeout = 2, lock_wait_timeout = 2, wait_timeout = 900, \
                     group_concat_max_len = 4194304 \
                     /*M!110602 , innodb_snapshot_isolation = 0 */; \
                     SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";

/// Returns SQL that sets the server's time limits, in whole seconds. A statement's limit exceeds
/// the client's, because a server's timeout may follow a commit. On MariaDB, the session's limit
/// remains.
pub(super) fn limits(limits: Limits) -> String {
    let lock = limits.answer.as_secs().max(1);
    let statement = limits.slow.as_secs() + 1;
    format!(
        "SET innodb_lock_wait_timeout = {lock}, lock_wait_timeout = {lock} \
         /*M! , max_statement_time = IF(@@max_statement_time = 0, {statement}, \
             @@max_statement_time) */ \
         /*!80000 , max_execution_time = {statement}000 */"
    )
}

/// SQL for the time. Only `SYSDATE` reads the clock at each occurrence.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6))";

const SERVER: &str =
    "CAST(CRC32(CONCAT_WS(':', @@hostname, @@port, @@server_id, @@datadir)) AS SIGNED)";

pub(super) fn identity() -> String {
    format!("SELECT CONNECTION_ID(), {SERVER}")
}

pub(super) fn session(row: Option<&Row>, opened: Instant) -> Option<ServerSession> {
    let row = row?;
    Some(ServerSession { id: row.int(0).ok()?, server: row.int(1).ok()?, seen: 0, opened })
}

/// SQL for the holds to renew. The columns' character set is explicit, because the database's
/// default may lack characters.
const ASKED: &str = "JSON_TABLE(:holds, '$[*]' COLUMNS (place FOR ORDINALITY, \
                     name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]', \
                     token VARCHAR(32) CHARACTER SET utf8mb4 PATH '$[1]', \
                     ttl BIGINT PATH '$[2]')) AS asked";

const LOCKED: &str = "JSON_TABLE(@lockwright_locked, '$[*]' COLUMNS (\
                      name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]', \
                      token VARCHAR(32) CHARACTER SET utf8mb4 PATH '$[1]', \
                      ttl BIGINT PATH '$[2]', place BIGINT PATH '$[3]')) AS locked";

const OLD: &str = "JSON_TABLE(@lockwright_old, '$[*]' COLUMNS (\
                   name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$')) AS old";

/// Columns of the JSON tables above. `{asked_name}` is `asked.name` with the tables' collation.
const COLUMNS: [&str; 5] = ["asked.name", "asked.token", "locked.name", "locked.token", "old.name"];

#[derive(Clone)]
pub(crate) struct MySql {
    pub(super) server: MySqlConnectOptions,
    pool: Option<MySqlPool>,
    pub(super) credentials: Option<CredentialProvider>,
    tables: Tables,
    backend: &'static str,
    is_direct: Arc<AtomicBool>,
}

pub(crate) enum Connection {
    Own(MySqlConnection),
    OfPool(Borrowed<sqlx::MySql>),
}

impl MySql {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            server: config.server.clone().disable_statement_logging(),
            pool: config.pool.clone(),
            credentials: config.common.credentials.clone(),
            tables: config.common.tables.clone(),
            backend: config.backend(),
            is_direct: Arc::default(),
        }
    }

    pub(super) fn set_direct(&self) {
        self.is_direct.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
    }

    pub(super) async fn connect(&self) -> sqlx::Result<MySqlConnection> {
        let mut options = self.options().await?;
        // Without a current database, MySQL rejects some statements on tables of a named one.
        if let (None, Some(schema)) = (options.get_database(), self.tables.schema()) {
            options = options.database(schema);
        }
        let mut connection = options.connect().await?;
        fetch_on(&mut connection, SESSION_SETTINGS.to_owned()).await?;
        Ok(connection)
    }

    /// Sets the tables' database if none is set: the pool's sessions may use different ones.
    pub(super) fn with_default_database(mut self, database: &str) -> Result<Self> {
        let tables = self.tables.found_in(Some(database.to_owned()));
        self.tables = tables.map_err(|error| error.with_backend(self.backend))?;
        Ok(self)
    }

    async fn fetch_counted(
        &self,
        connection: &mut Connection,
        text: String,
    ) -> sqlx::Result<(Vec<Row>, Totals)> {
        // A `KILL` may take effect even if the request fails.
        let kills = text.starts_with("KILL ");
        let mut totals = Totals::default();
        let count = |result: &MySqlQueryResult| totals.add(result);
        let fetched = match connection {
            Connection::Own(own) => fetch_each(own, text, count).await,
            Connection::OfPool(borrowed) => {
                // Boxed, as in PostgreSQL's dialect.
                let answer: Pin<Box<dyn Future<Output = _> + Send>> =
                    Box::pin(borrowed.fetch(&text, count));
                answer.await
            }
        };
        match fetched {
            // The session had already ended. A `KILL` is always the last statement.
            Err(error) if number(&error) == Some(NO_SUCH_THREAD) => Ok((Vec::new(), totals)),
            Err(error @ sqlx::Error::Database(_))
                if (kills || totals.affected > 0) && totals.statements > 0 =>
            {
                Err(sqlx::Error::AnyDriverError(Box::new(Later(error))))
            }
            fetched => Ok((fetched?, totals)),
        }
    }

    fn schema_as_value(&self) -> String {
        match self.tables.schema() {
            Some(schema) => format!("'{schema}'"),
            None => "DATABASE()".to_owned(),
        }
    }
}

impl Dialect for MySql {
    type Connection = Connection;

    const QUOTE: char = '`';
    const PLACEHOLDER: Placeholder = Placeholder::QuestionMark;

    const TABLES_APPEAR_AT_ONCE: bool = false;
    const NOW: &'static str = NOW;

    const TEXTS: StatementTexts = StatementTexts {
        shared_acquire: include_str!("queries/shared_acquire.sql"),
        ..statement_texts!(concat!(
            include_str!("../../schema/mysql.sql"),
            "\n",
            include_str!("../../schema/mysql_session_lock.sql"),
            "\n",
            include_str!("../../schema/mysql_transaction.sql"),
            "\n",
            include_str!("../../schema/mysql_done.sql")
        ))
    };

    fn backend(&self) -> &'static str {
        self.backend
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn expand(&self, text: &str) -> String {
        let mut text = text
            .replace("{asked}", ASKED)
            .replace("{locked}", LOCKED)
            .replace("{old}", OLD)
            .replace("{schema}", &self.schema_as_value());
        for column in COLUMNS {
            let placeholder = format!("{{{}}}", column.replace('.', "_"));
            let collated = format!("CONVERT({column} USING utf8mb4) COLLATE utf8mb4_bin");
            text = text.replace(&placeholder, &collated);
        }
        self.tables.expand(&text, Self::QUOTE).replace("{now}", NOW)
    }

    fn patiently(text: String) -> String {
        let text = text.trim_end().trim_end_matches(';');
        format!(
            "SET @lockwright_limit = @@lock_wait_timeout, lock_wait_timeout = 60;\n{text};\n\
             SET lock_wait_timeout = @lockwright_limit"
        )
    }

    fn borrows(&self) -> bool {
        self.pool.is_some()
    }

    fn is_by_file(&self) -> bool {
        self.server.get_socket().is_some()
    }

    async fn open(&self, limits: Limits) -> sqlx::Result<Opened<Connection>> {
        if let Some(pool) = &self.pool {
            let borrowed = Borrowed::take(pool, borrowed::settings(limits)).await?;
            return Ok((Connection::OfPool(borrowed), None));
        }
        let opened = Instant::now();
        let mut connection = self.connect().await?;
        let text = format!("{}; {}", self::limits(limits), identity());
        let rows = fetch_on(&mut connection, text).await?;
        let session = session(rows.last(), opened).filter(|_| self.is_direct());
        Ok((Connection::Own(connection), session))
    }

    async fn end_sessions(
        &self,
        connection: &mut Connection,
        sessions: &[ServerSession],
    ) -> sqlx::Result<Vec<i64>> {
        let ids: Vec<_> = sessions.iter().map(|session| session.id.to_string()).collect();
        // A restarted server reuses ids, so older sessions are skipped.
        let text = format!(
            "SHOW GLOBAL STATUS LIKE 'Uptime'; \
             SELECT id, {SERVER} FROM information_schema.processlist WHERE id IN ({})",
            ids.join(", ")
        );
        let rows = self.fetch(connection, text).await?;
        let uptime = rows.first().and_then(|row| row.text(1).ok()).flatten();
        let uptime = uptime.and_then(|uptime| uptime.parse().ok()).unwrap_or(u64::MAX);
        let mut still_there = Vec::new();
        for row in rows.iter().skip(1) {
            let (Ok(id), Ok(server)) = (row.int(0), row.int(1)) else { continue };
            let is_older = |session: &ServerSession| {
                (session.id, session.server) == (id, server)
                    && session.opened.elapsed().as_secs() <= uptime.saturating_add(1)
            };
            if sessions.iter().any(is_older) {
                // A `KILL` doesn't wait for the session's end.
                match self.fetch(connection, format!("KILL {id}")).await {
                    Err(error) if error.as_database_error().is_none() => return Err(error),
                    Ok(_) | Err(_) => {}
                }
                still_there.push(id);
            }
        }
        Ok(still_there)
    }

    async fn fetch(&self, connection: &mut Connection, text: String) -> sqlx::Result<Vec<Row>> {
        Ok(self.fetch_counted(connection, text).await?.0)
    }

    /// Executes a statement: prepared on own connections without a proxy, else as text. An update
    /// returns one row: the number of matched rows, and the last insert id.
    async fn execute(
        &self,
        connection: &mut Connection,
        sql: &Sql,
        arguments: Arguments<'_>,
    ) -> sqlx::Result<Vec<Row>> {
        let text = || sql.render(arguments, Self::literal);
        let Some(statement) = sql.prepared() else { return self.fetch(connection, text()).await };
        let is_select = statement.text.starts_with("SELECT");
        let totals = match connection {
            Connection::Own(own) if self.is_direct() && is_select => {
                return fetch_prepared(own, sql, arguments).await;
            }
            Connection::Own(own) if self.is_direct() => {
                match statement.bind(arguments).execute(&mut *own).await {
                    Err(error) if cannot_prepare(&error) => {
                        self.fetch_counted(connection, text()).await?.1
                    }
                    result => {
                        let mut totals = Totals::default();
                        totals.add(&result?);
                        totals
                    }
                }
            }
            connection => {
                let (rows, totals) = self.fetch_counted(connection, text()).await?;
                if is_select {
                    return Ok(rows);
                }
                totals
            }
        };
        let cell = |number: u64| Cell::Int(i64::try_from(number).unwrap_or(i64::MAX));
        Ok(vec![Row([totals.affected, totals.insert_id].map(cell).to_vec())])
    }

    fn quote(value: &str, text: &mut String) {
        text.push_str("_utf8mb4 X'");
        push_hex(value.as_bytes(), text);
        text.push('\'');
    }

    fn judge(error: &sqlx::Error) -> Option<Verdict> {
        let sqlx::Error::AnyDriverError(error) = error else { return judge(number(error)?) };
        let Later(error) = error.downcast_ref()?;
        let message = "the server can't carry out all of the request";
        let unknown = Verdict::new(ErrorKind::Indeterminate, message);
        let verdict = Self::judge(error).unwrap_or(unknown);
        Some(Verdict { kind: ErrorKind::Indeterminate, ..verdict })
    }

    async fn examine(&self, pool: &Arc<Pool<Self>>) -> Result<Vec<Finding>> {
        super::doctor::examine(pool).await
    }
}

pub(super) async fn fetch_prepared(
    connection: &mut MySqlConnection,
    sql: &Sql,
    arguments: Arguments<'_>,
) -> sqlx::Result<Vec<Row>> {
    if let Some(statement) = sql.prepared() {
        match statement.bind(arguments).fetch_all(&mut *connection).await {
            Err(error) if cannot_prepare(&error) => {}
            rows => return rows?.iter().map(row).collect(),
        }
    }
    fetch_on(connection, sql.render(arguments, MySql::literal)).await
}

pub(super) async fn fetch_on(
    connection: &mut MySqlConnection,
    text: String,
) -> sqlx::Result<Vec<Row>> {
    fetch_each(connection, text, |_| {}).await
}

async fn fetch_each(
    connection: &mut MySqlConnection,
    text: String,
    on_result: impl FnMut(&MySqlQueryResult) + Send,
) -> sqlx::Result<Vec<Row>> {
    // Safe: table names are checked, and `literal` writes values.
    rows_of(sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(connection), on_result).await
}

pub(super) async fn rows_of(
    mut answers: BoxStream<'_, sqlx::Result<Either<MySqlQueryResult, MySqlRow>>>,
    mut on_result: impl FnMut(&MySqlQueryResult) + Send,
) -> sqlx::Result<Vec<Row>> {
    let mut rows = Vec::new();
    while let Some(answer) = answers.try_next().await? {
        match answer {
            Either::Left(result) => on_result(&result),
            Either::Right(answered) => rows.push(row(&answered)?),
        }
    }
    Ok(rows)
}

#[derive(Default)]
struct Totals {
    statements: u64,
    affected: u64,
    insert_id: u64,
}

impl Totals {
    fn add(&mut self, result: &MySqlQueryResult) {
        self.statements += 1;
        self.affected += result.rows_affected();
        // Statements without an id report 0.
        self.insert_id = self.insert_id.max(result.last_insert_id());
    }
}

/// An error after an earlier statement of the request made a change.
#[derive(Debug)]
struct Later(sqlx::Error);

impl std::fmt::Display for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&plain(&self.0))
    }
}

impl std::error::Error for Later {}

pub(super) fn number(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

pub(super) fn push_hex(bytes: &[u8], text: &mut String) {
    text.reserve(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
    }
}

pub(super) fn row(row: &MySqlRow) -> sqlx::Result<Row> {
    let mut cells = Vec::with_capacity(row.len());
    for at in 0..row.len() {
        let value = row.try_get_raw(at)?;
        cells.push(if value.is_null() {
            Cell::Null
        } else {
            match row.column(at).type_info().name() {
                "BIGINT" | "INT" | "MEDIUMINT" | "SMALLINT" | "TINYINT" | "BOOLEAN" => {
                    Cell::Int(row.try_get_unchecked(at)?)
                }
                name if name.ends_with("INT UNSIGNED") => {
                    let number: u64 = row.try_get_unchecked(at)?;
                    Cell::Int(i64::try_from(number).unwrap_or(i64::MAX))
                }
                _ => Cell::Text(row.try_get_unchecked(at)?),
            }
        });
    }
    Ok(Row(cells))
}

pub(super) const LOCK_WAIT_TIMEOUT: u16 = 1205;
pub(super) const DEADLOCK: u16 = 1213;
pub(super) const INTERRUPTED: u16 = 1317;
const NO_SUCH_THREAD: u16 = 1094;
const IN_TRANSACTION: u16 = 1568;

/// Returns whether the statement was neither prepared nor executed: there are too many prepared
/// statements (1461), or a table changes too often (1615).
fn cannot_prepare(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(1461 | 1615))
}

pub(super) fn is_the_end(number: u16) -> bool {
    // Proxies report a lost server by a client's number (from 2000) or their own (from 9000).
    matches!(
        number,
        1053 | 1077..=1080 | 1152..=1161 | 1184 | 1927 | 2000..=2999 | 3169 | 4031 | 9000..=9999
    )
}

/// Classifies an error by its [number](https://mariadb.com/kb/en/mariadb-error-codes/). A failed
/// statement has no effect, because the server rolls it back. Errors that may follow a commit, and
/// a [`Later`] error, are `Indeterminate`.
fn judge(number: u16) -> Option<Verdict> {
    verdicts!(number;
        1045 | 1698 => Denied, tls::REFUSED_OR_ENCRYPTED_ONLY;
        1044 | 1142 | 1143 | 1227 | 1370 =>
            Denied,
            "the user may not do that; it needs SELECT, INSERT, UPDATE and DELETE on the tables";
        3159 => Denied, tls::ENCRYPTED_ONLY;
        1095 => Denied, "the session is another user's, and this one may not end it";
        1046 => InvalidConfig, "the connection has no database; write mysql://host/NAME";
        1049 => InvalidConfig, "there is no such database; create it, or name another in the URL";
        1146 => InvalidConfig, MISSING;
        1054 | 1136 | 1364 | 1406 | 1366 | 1265 | 1267 =>
            InvalidConfig, "the tables are not as Lockwright made them; name others with ?table=";
        1665 =>
            InvalidConfig,
            "the server's binary log can't take this; set binlog_format to MIXED or ROW";
        3819 | 4025 | 1690 | 1264 =>
            Conflict, "the name's row was changed by hand, or its fences have reached their end; \
                       delete it when the name is free and none of its fences is in use";
        IN_TRANSACTION =>
            Unavailable.again().useless(),
            "the program's pool returned only connections with open transactions; end each transaction \
             before its connection returns to the pool";
        DEADLOCK | 1020 | 1062 =>
            Unavailable.again(), "the request failed repeatedly because of deadlocks; try again";
        LOCK_WAIT_TIMEOUT => Unavailable, "another session keeps the tables locked";
        INTERRUPTED | 1969 | 3024 =>
            Unavailable, "the server cancelled the request, by its time limit or for an operator";
        1290 | 1792 | 1836 | 3100 =>
            Unavailable.useless(), "the server is read-only now: it is a replica, or set to be";
        1047 => Unavailable.useless(), "the server's cluster has no majority";
        1021 | 1114 => Unavailable, "the server's disk is full; make room";
        1040 | 1203 | 1226 =>
            Unavailable,
            "the server has no connection left; raise max_connections, or ask for fewer";
        1037 | 1038 | 1041 | 1135 => Unavailable, "the server is short of memory";
        number if is_the_end(number) =>
            Indeterminate.useless(), "the server ended the connection";
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_error_of_a_proxy_is_indeterminate() {
        for number in [2013, 9001] {
            assert_eq!(judge(number).unwrap().kind, ErrorKind::Indeterminate);
        }
    }
}
