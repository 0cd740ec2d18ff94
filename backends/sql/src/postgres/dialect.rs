use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{CredentialProvider, Finding, Result, Token};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Postgres, Row as _, TypeInfo, ValueRef};

use super::borrowed::{self, UNUSABLE};
use super::config::Config;
use crate::server::errors::verdicts;
use crate::server::lease::statement_texts;
use crate::server::schema::MISSING;
use crate::server::{
    Arguments, BadRow, Borrowed, Cell, Dialect, Limits, Opened, Placeholder, Pool, Prepared, Row,
    ServerSession, Sql, StatementTexts, Tables, Verdict, tls,
};

#[derive(Clone)]
pub(crate) struct Postgresql {
    pub(super) server: PgConnectOptions,
    pool: Option<PgPool>,
    pub(super) credentials: Option<CredentialProvider>,
    tables: Tables,
    backend: &'static str,
    /// See [`pooler`](super::pooler).
    mark: Option<String>,
}

const SERVER: &str = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";

pub(super) const MARK: &str = "current_setting('lockwright.mark', true)";

pub(crate) enum Connection {
    Own(Own),
    OfPool(Borrowed<Postgres>),
}

pub(crate) struct Own {
    driver: PgConnection,
    /// SQL that sets each request's time limits behind a pooler, where sessions change, so
    /// statements aren't prepared.
    limits: Option<String>,
}

impl Postgresql {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            server: config.server.clone().disable_statement_logging(),
            pool: config.pool.clone(),
            credentials: config.common.credentials.clone(),
            tables: config.common.tables.clone(),
            backend: config.backend(),
            mark: None,
        }
    }

    pub(super) fn marked(mut self) -> Self {
        let mark = Token::random().to_string();
        self.server = self.server.options([("lockwright.mark", &mark)]);
        self.mark = Some(mark);
        self
    }

    pub(super) async fn single_connection_pool(
        &self,
        connect_limit: Duration,
    ) -> sqlx::Result<PgPool> {
        Ok(PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(connect_limit)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .after_release(|_, _| Box::pin(async { Ok(false) }))
            .connect_lazy_with(self.options().await?))
    }

    pub(super) fn identity(&self) -> String {
        let is_direct = self.is_direct();
        format!("pg_backend_pid()::bigint, {SERVER}, {}, {is_direct}", Self::NOW)
    }

    pub(super) fn session(row: &Row, opened: Instant) -> Result<Option<ServerSession>, BadRow> {
        let (id, server, seen) = (row.int(0)?, row.int(1)?, row.int(2)?);
        Ok(row.bool(3)?.then_some(ServerSession { id, server, seen, opened }))
    }

    fn is_direct(&self) -> String {
        match &self.mark {
            Some(mark) => format!("coalesce({MARK} = '{mark}', false)"),
            None => "false".to_owned(),
        }
    }

    /// SQL for the schema that has the tables, or in which they would be created. For the program's
    /// pool only.
    pub(super) fn schema(&self) -> String {
        if !self.borrows() {
            return Self::NULL.to_owned();
        }
        format!(
            "coalesce((SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = \
             relnamespace WHERE pg_class.oid = to_regclass('{}')), current_schema())::text",
            self.expand("{lease}")
        )
    }

    /// Sets the tables' schema if none is set: the pool's sessions may have different search paths.
    pub(super) fn within(mut self, found: Option<String>) -> Result<Self> {
        self.tables = self.tables.found_in(found).map_err(|e| e.with_backend(self.backend))?;
        Ok(self)
    }

    pub(super) fn is_for_leases(&self) -> bool {
        self.backend == super::LEASE
    }

    pub(super) fn has_mark(&self, found: Option<&str>) -> bool {
        self.mark.is_some() && found == self.mark.as_deref()
    }
}

impl Dialect for Postgresql {
    type Connection = Connection;

    const QUOTE: char = '"';
    const PLACEHOLDER: Placeholder = Placeholder::Numbered;
    const NULL: &'static str = "NULL::text";
    const NOW: &'static str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

    const TEXTS: StatementTexts = statement_texts!(concat!(
        include_str!("../../schema/postgres.sql"),
        "\n",
        include_str!("../../schema/postgres_session_lock.sql"),
        "\n",
        include_str!("../../schema/postgres_transaction.sql")
    ));

    fn backend(&self) -> &'static str {
        self.backend
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn patiently(text: String) -> String {
        format!("SET LOCAL lock_timeout = 0;\n{text}")
    }

    fn channel(&self) -> &str {
        self.tables.channel()
    }

    fn borrows(&self) -> bool {
        self.pool.is_some()
    }

    fn is_by_file(&self) -> bool {
        // A path is the folder of a unix socket.
        self.server.get_socket().is_some() || self.server.get_host().starts_with('/')
    }

    async fn open(&self, limits: Limits) -> sqlx::Result<Opened<Connection>> {
        if let Some(pool) = &self.pool {
            let settings = borrowed::settings(limits, self.tables.schema().is_some());
            return Ok((Connection::OfPool(Borrowed::take(pool, settings).await?), None));
        }
        let opened = Instant::now();
        let mut driver = self.options().await?.connect().await?;
        let [lock, statement] = [limits.answer, limits.slow].map(below);
        let is_direct = self.is_direct();
        let unset = |name: &str| format!("current_setting('{name}') = '0'");
        let set = |name: &str, to: u128| {
            let unset = unset(name);
            format!(
                "CASE WHEN {is_direct} AND {unset} THEN set_config('{name}', '{to}', false) END"
            )
        };
        let text = format!(
            "SELECT {}, {}, {}, {}, {}, {}",
            self.identity(),
            unset("lock_timeout"),
            unset("statement_timeout"),
            set("lock_timeout", lock),
            set("statement_timeout", statement),
            set("idle_in_transaction_session_timeout", 60_000),
        );
        let rows = fetch_on(&mut driver, text).await?;
        let bad = |_: BadRow| sqlx::Error::RowNotFound;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let session = Self::session(row, opened).map_err(bad)?;
        let set_local = |at, name, to| match row.bool(at) {
            Ok(true) => format!("SET LOCAL {name} = {to}; "),
            _ => String::new(),
        };
        let limits = session.is_none().then(|| {
            set_local(4, "lock_timeout", lock) + &set_local(5, "statement_timeout", statement)
        });
        Ok((Connection::Own(Own { driver, limits }), session))
    }

    async fn end_sessions(
        &self,
        connection: &mut Connection,
        sessions: &[ServerSession],
    ) -> sqlx::Result<Vec<i64>> {
        // A later session with the same process id started after `seen`, so it isn't selected.
        let which: Vec<String> = sessions
            .iter()
            .map(|session| {
                format!(
                    "({SERVER} = {} AND pid = {} \
                      AND extract(epoch FROM backend_start) * 1000000 <= {})",
                    session.server, session.id, session.seen
                )
            })
            .collect();
        let which = format!("FROM pg_stat_activity WHERE {}", which.join(" OR "));
        let end = format!("SELECT pid::bigint, pg_terminate_backend(pid) {which}");
        let rows = match self.fetch(connection, end).await {
            // The server refused to end sessions, so this only checks which still exist.
            Err(sqlx::Error::Database(_)) => {
                self.fetch(connection, format!("SELECT pid::bigint {which}")).await?
            }
            rows => rows?,
        };
        Ok(rows.iter().filter_map(|row| row.int(0).ok()).collect())
    }

    async fn fetch(&self, connection: &mut Connection, text: String) -> sqlx::Result<Vec<Row>> {
        match connection {
            Connection::Own(Own { driver, limits: None }) => fetch_on(driver, text).await,
            Connection::Own(Own { driver, limits: Some(limits) }) => {
                fetch_on(driver, format!("{limits}{text}")).await
            }
            Connection::OfPool(borrowed) => {
                // Boxed, because deeper futures would exceed rustc's default recursion limit.
                let answer: Pin<Box<dyn Future<Output = _> + Send>> =
                    Box::pin(borrowed.fetch(&text));
                answer.await
            }
        }
    }

    async fn execute(
        &self,
        connection: &mut Connection,
        sql: &Sql,
        arguments: Arguments<'_>,
    ) -> sqlx::Result<Vec<Row>> {
        match (sql.prepared(), connection) {
            (Some(statement), Connection::Own(Own { driver, limits: None })) => {
                fetch_prepared(driver, statement, arguments).await
            }
            (_, connection) => self.fetch(connection, sql.render(arguments, Self::literal)).await,
        }
    }

    fn quote(value: &str, text: &mut String) {
        let escapes = value.contains('\\');
        text.push_str(if escapes { " E'" } else { "'" });
        for c in value.chars() {
            match c {
                '\'' => text.push_str("''"),
                '\\' => text.push_str("\\\\"),
                // A zero byte would end the query.
                '\0' => {}
                other => text.push(other),
            }
        }
        text.push('\'');
    }

    fn judge(error: &sqlx::Error) -> Option<Verdict> {
        let error = error.as_database_error()?;
        judge(&error.code().unwrap_or_default(), error.message())
    }

    async fn examine(&self, pool: &Arc<Pool<Self>>) -> Result<Vec<Finding>> {
        super::doctor::examine(pool).await
    }
}

/// Returns a limit below the client's, so the server's timeout comes first.
pub(super) fn below(limit: Duration) -> u128 {
    (limit.as_millis() * 9 / 10).max(1)
}

pub(super) async fn fetch_on(
    connection: &mut PgConnection,
    text: String,
) -> sqlx::Result<Vec<Row>> {
    // Safe: table names are checked, and `literal` writes values.
    let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(connection).await?;
    rows.iter().map(row).collect()
}

pub(super) async fn fetch_prepared(
    connection: &mut PgConnection,
    statement: &Prepared,
    arguments: Arguments<'_>,
) -> sqlx::Result<Vec<Row>> {
    let rows = statement.bind(arguments).fetch_all(connection).await?;
    rows.iter().map(row).collect()
}

pub(super) fn row(row: &PgRow) -> sqlx::Result<Row> {
    let mut cells = Vec::with_capacity(row.len());
    for at in 0..row.len() {
        let value = row.try_get_raw(at)?;
        cells.push(if value.is_null() {
            Cell::Null
        } else {
            match row.column(at).type_info().name() {
                "INT8" => Cell::Int(row.try_get(at)?),
                "INT4" => Cell::Int(row.try_get::<i32, _>(at)?.into()),
                "BOOL" => Cell::Int(i64::from(row.try_get::<bool, _>(at)?)),
                _ => Cell::Text(row.try_get_unchecked(at)?),
            }
        });
    }
    Ok(Row(cells))
}

// https://www.postgresql.org/docs/current/errcodes-appendix.html
pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";
pub(super) const DEADLOCK: &str = "40P01";
pub(super) const PROTOCOL_VIOLATION: &str = "08P01";

pub(super) fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error()?.code()
}

/// Classifies an error by its
/// [code](https://www.postgresql.org/docs/current/errcodes-appendix.html). A failed statement has
/// no effect, because the server rolls it back. Errors that may follow a commit, and those of a
/// pooler that has lost its server, are `Indeterminate`.
fn judge(code: &str, message: &str) -> Option<Verdict> {
    verdicts!(code;
        // These messages are English. In other languages, the next pattern matches.
        "28000" if message.contains("no encryption") || message.contains("SSL off") =>
            Denied, tls::ENCRYPTED_ONLY;
        "28P01" | "28000" =>
            Denied, "the server refuses the user or the password; check both in the URL";
        "42501" =>
            Denied, "the user may not do that; it needs SELECT, INSERT, UPDATE and DELETE on the \
                     tables, and SELECT and UPDATE on the sequence of fences";
        "3D000" => InvalidConfig, "there is no such database; name one in the URL";
        "3F000" =>
            InvalidConfig, "there is no such schema; create it, or name another with ?schema=";
        "42P01" => InvalidConfig, MISSING;
        "42703" | "42804" | "42883" | "42P10" | "42809" =>
            InvalidConfig, "the tables are not as Lockwright made them; name others with ?table=";
        "23514" | "22003" =>
            Conflict, "the name's row was changed by hand, or its fences have reached their end; \
                       delete it when the name is free and none of its fences is in use";
        "22P02" if message.contains(UNUSABLE) =>
            Unavailable.again().useless(),
            "the program's pool returned only connections with open transactions, or with another \
             client_encoding than UTF8; end each transaction before its connection returns to the pool";
        "40001" | DEADLOCK | "23505" =>
            Unavailable.again(), "the request failed repeatedly because of deadlocks; try again";
        // The tables were altered after the server made the statement's plan.
        "0A000" if message.contains("cached plan") =>
            Unavailable.again().useless(),
            "the tables are being altered again and again; try again";
        LOCK_NOT_AVAILABLE => Unavailable, "another session keeps the tables locked";
        // A statement timeout expires before the commit. Another session may cancel the request
        // after the commit, while the server still writes its log.
        "57014" if message.contains("statement timeout") =>
            Unavailable, "the server cancelled the request by its statement_timeout";
        "57014" => Indeterminate, "another session cancelled the request";
        "40003" => Indeterminate, "it is unknown whether the server committed";
        "57P01" | "25P04" => Indeterminate.useless(), "the server ended the connection";
        "25006" | "0A000" if code == "25006" || message.contains("during recovery") =>
            Unavailable.useless(), "the server is read-only now: it is a replica, or set to be";
        "53100" => Unavailable, "the server's disk is full; make room";
        "53300" =>
            Unavailable,
            "the server has no connection left; raise max_connections, or ask for fewer";
        "57P03" | "57P05" =>
            Unavailable.useless(),
            "the server is stopping or starting, or ended a connection that did nothing";
        _ if code.starts_with("53") =>
            Unavailable, "the server is short of memory, disk or connections";
        // PgBouncer and RDS Proxy reject the connection before they forward a request.
        PROTOCOL_VIOLATION | "0A000"
            if message.contains("unsupported startup parameter")
                || message.contains("command-line options") =>
            InvalidConfig,
            "a pooler refuses a parameter of the connection; leave `options` out of the URL";
        _ if code.starts_with("08") || code.starts_with("57P") || code.starts_with("58") =>
            Indeterminate.useless(), "the server or a pooler ended the connection";
    )
}

#[cfg(test)]
mod tests {
    use lockwright_core::ErrorKind;

    use super::*;

    #[test]
    fn codes_with_several_meanings_are_told_apart() {
        for (code, message, kind) in [
            ("40003", "", Some(ErrorKind::Indeterminate)),
            ("40001", "", Some(ErrorKind::Unavailable)),
            (
                "08P01",
                "unsupported startup parameter in options: lockwright.mark",
                Some(ErrorKind::InvalidConfig),
            ),
            (
                "0A000",
                "RDS Proxy currently doesn't support command-line options",
                Some(ErrorKind::InvalidConfig),
            ),
            ("0A000", "another feature", None),
        ] {
            assert_eq!(judge(code, message).map(|verdict| verdict.kind), kind, "{code} {message}");
        }
    }
}
