use std::collections::HashMap;
use std::sync::Arc;

use lockwright_core::{Error, ErrorKind, Mode, Profile, Result};
use tokio::time::Instant;

use super::{Kept, Permit, Server, Session, SessionId};
use crate::queries::find;
use crate::server::{Effect, Pool, Row, Sql, Use, errors};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Session,
    Row,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        self.prefix().trim_end_matches('_')
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Session => "session_",
            Self::Row => "row_",
        }
    }
}

pub(crate) struct Sessions<S: Server> {
    pub(crate) profile: Profile,
    pub(crate) kind: Kind,
    pub(crate) pool: Arc<Pool<S>>,
    pub(crate) own: S::Own,
    exclusive: Queries,
    shared: Queries,
}

type Queries = HashMap<&'static str, Sql>;

const PREPARED: [&str; 5] = ["try", "wait", "unlock", "part", "note"];

/// Reads the queries of a kind and mode. Their names lack `session_`, `row_` and `shared_`. For
/// readers, `shared_X`, later in the files, replaces `X`.
fn queries<S: Server>(dialect: &S, kind: Kind, mode: Mode) -> Queries {
    let (held, prefix) = match mode {
        Mode::Shared => ("{reader}", "shared_"),
        _ => ("{hold}", ""),
    };
    let headers = S::QUERIES.lines().filter_map(|line| line.strip_prefix("/* "));
    let names = headers.flat_map(|names| names.trim_end_matches("*/").split_whitespace());
    let query = |name: &'static str| {
        let text = dialect.expand_for(kind, &find(S::QUERIES, name).replace("{held}", held));
        let name = name.strip_prefix(kind.prefix()).unwrap_or(name);
        let name = name.strip_prefix(prefix).unwrap_or(name);
        match PREPARED.contains(&name) {
            true => (name, Sql::to_prepare(&text, S::PLACEHOLDER)),
            false => (name, Sql::new(&text)),
        }
    };
    let other = if kind == Kind::Session { Kind::Row } else { Kind::Session };
    names.filter(|name| !name.starts_with(other.prefix())).map(query).collect()
}

impl<S: Server> Sessions<S> {
    pub(crate) fn new(kind: Kind, pool: &Arc<Pool<S>>) -> Arc<Self> {
        Arc::new(Self {
            profile: S::profile(kind),
            kind,
            own: S::own(pool),
            exclusive: queries(pool.dialect(), kind, Mode::Exclusive),
            shared: queries(pool.dialect(), kind, Mode::Shared),
            pool: Arc::clone(pool),
        })
    }

    pub(crate) fn sql(&self, mode: Mode, name: &str) -> &Sql {
        if mode == Mode::Shared { &self.shared[name] } else { &self.exclusive[name] }
    }

    pub(crate) async fn try_open(self: &Arc<Self>) -> Result<()> {
        let deadline = Instant::now() + self.pool.limits().connect;
        let permit = Permit::get(&self.pool, Use::Hold, deadline).await?;
        S::open_session(self, permit).await?.close().await;
        Ok(())
    }

    pub(crate) fn failed(&self, error: sqlx::Error) -> Error {
        errors::failed(error, Effect::Changes, self.pool.dialect()).error
    }

    /// Reads a session's answer to a renewal of `count` holds: the session, whether it has the
    /// lock, and the record's `broken` and `released`. Fails if another session answered.
    pub(crate) fn kept(&self, rows: &[Row], count: usize, id: SessionId) -> Result<Vec<Kept>> {
        let is_of = |row: &Row| row.int(0).is_ok_and(|session| session == id);
        if rows.len() != count || !rows.iter().all(is_of) {
            let message = format!(
                "another session answered instead of the one with the lock: a {} is in between; \
                 connect to the server itself, or use the mode lease",
                S::BETWEEN
            );
            return Err(self.pool.error(ErrorKind::InvalidConfig, message));
        }
        let kept = |row: &Row| match (row.bool(1), row.bool(2), row.bool(3)) {
            (Ok(true), Ok(false), Ok(false)) => Kept::Renewed,
            (Ok(true), _, Ok(false)) => Kept::Broken,
            _ => Kept::Ended,
        };
        Ok(rows.iter().map(kept).collect())
    }

    pub(crate) fn sessions_are_shared(&self) -> Error {
        let message = format!(
            "a {} shares a session of the server among several connections, so a lock doesn't stay \
             with its connection; connect to the server itself, or use the mode lease",
            S::BETWEEN
        );
        self.pool.error(ErrorKind::Unsupported, message)
    }
}
