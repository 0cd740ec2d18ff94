use std::sync::Arc;

use lockwright_core::{Claim, Error, ErrorKind, Mode, Profile, Result};
use tokio::time::Instant;

use super::{Kept, Permit, Records, Server, Session, SessionId};
use crate::server::{Effect, Pool, Row, Sql, Use, errors};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Session,
    Row,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Row => "row",
        }
    }
}

/// SQL and state that the sessions of one client share.
pub(crate) struct Sessions<S: Server> {
    pub(crate) profile: Profile,
    pub(crate) records: Records<S>,
    pub(crate) kind: Kind,
    pub(crate) pool: Arc<Pool<S>>,
    pub(crate) alone: Locking,
    shared: Locking,
    /// Replaces [`Locking::wait`] if the name may have readers.
    pub(crate) wait_for_readers: Sql,
    /// Releases one hold of a joint session.
    pub(crate) part: Sql,
    pub(crate) make: Sql,
    pub(crate) own: S::Own,
}

pub(crate) struct Locking {
    pub(crate) try_lock: Sql,
    pub(crate) wait: Sql,
    /// Runs after an unsuccessful wait, and in the mode `row` after any unsuccessful attempt.
    pub(crate) missed: Sql,
    pub(crate) unlock: Sql,
    pub(crate) keep: Sql,
}

impl<S: Server> Sessions<S> {
    pub(crate) fn new(kind: Kind, pool: &Arc<Pool<S>>) -> Arc<Self> {
        let query = |mode, name: &str| pool.dialect().query(kind, mode, name);
        let to_prepare = |text: String| Sql::to_prepare(&text, S::PLACEHOLDER);
        let locking = |mode| {
            let prefix = if mode == Mode::Shared { "shared_" } else { "" };
            let of_kind = |name| query(mode, &format!("{}_{name}", kind.word()));
            let of_mode = |name| of_kind(format!("{prefix}{name}"));
            Locking {
                try_lock: to_prepare(of_mode("try")),
                wait: to_prepare(of_mode("wait")),
                missed: Sql::new(&of_mode("missed")),
                unlock: to_prepare(of_mode("unlock")),
                keep: Sql::new(&of_kind("keep".to_owned())),
            }
        };
        let wait_for_readers = format!("{}_wait_for_readers", kind.word());
        Arc::new(Self {
            profile: S::profile(kind),
            records: Records::new(kind, Arc::clone(pool)),
            kind,
            pool: Arc::clone(pool),
            alone: locking(Mode::Exclusive),
            shared: locking(Mode::Shared),
            wait_for_readers: Sql::new(&query(Mode::Exclusive, &wait_for_readers)),
            part: to_prepare(query(Mode::Exclusive, "session_part")),
            make: Sql::new(&query(Mode::Exclusive, "row_make")),
            own: S::own(kind, pool),
        })
    }

    pub(crate) async fn try_open(self: &Arc<Self>) -> Result<()> {
        let deadline = Instant::now() + self.pool.limits().connect;
        let permit = Permit::get(&self.pool, Use::Hold, deadline).await?;
        S::open_session(self, permit).await?.close().await;
        Ok(())
    }

    pub(crate) fn of(&self, claim: &Claim) -> &Locking {
        if claim.mode == Mode::Shared { &self.shared } else { &self.alone }
    }

    pub(crate) fn failed(&self, error: sqlx::Error) -> Error {
        errors::failed(error, Effect::Changes, self.pool.dialect()).error
    }

    /// Reads a session's answer to a renewal of `count` holds. The columns are 0 the session, 1
    /// whether the session has the lock, 2 the record's `broken` and 3 the record's `released`.
    ///
    /// # Errors
    /// Another session answered.
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
