use lockwright_core::{Claim, Mode};

use super::Kind;
use crate::mysql::dialect::MySql;
use crate::server::dialect::Dialect;
use crate::server::held::rows;
use crate::server::sql::Sql;

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) kind: Kind,
    pub(super) alone: Locking,
    shared: Option<Locking>,
    /// Releases one hold of a joint session.
    pub(super) part: Sql,
    pub(super) make: Sql,
    /// Restores the idle timeout of a session that hasn't got the lock.
    pub(super) restore: Sql,
    /// A query for the lowest new fence, and the sequence's name.
    pub(super) raise: (String, String),
}

#[derive(Debug)]
pub(super) struct Locking {
    pub(super) try_lock: Sql,
    pub(super) wait: Sql,
    pub(super) missed: Sql,
    pub(super) waited: Sql,
    pub(super) unlock: Sql,
    pub(super) keep: Sql,
}

impl Statements {
    pub(super) fn new(kind: Kind, expand: impl Fn(&str) -> String) -> Self {
        let sql = |text: &str| Sql::new(&expand(text));
        let row_keep = |mode| sql(&rows::table_of(mode, include_str!("queries/row_keep.sql")));
        let (alone, shared) = match kind {
            Kind::Session => {
                let alone = Locking {
                    try_lock: sql(include_str!("queries/session_lock.sql")),
                    wait: sql(include_str!("queries/session_lock.sql")),
                    missed: sql(include_str!("queries/session_missed.sql")),
                    waited: sql(include_str!("queries/session_missed.sql")),
                    unlock: sql(include_str!("queries/session_unlock.sql")),
                    keep: sql(include_str!("queries/session_keep.sql")),
                };
                (alone, None)
            }
            Kind::Row => {
                let alone = Locking {
                    try_lock: sql(include_str!("queries/row_try.sql")),
                    wait: sql(include_str!("queries/row_wait.sql")),
                    missed: sql(include_str!("queries/row_missed.sql")),
                    waited: sql(include_str!("queries/row_waited.sql")),
                    unlock: sql(include_str!("queries/row_unlock.sql")),
                    keep: row_keep(Mode::Exclusive),
                };
                let shared = Locking {
                    try_lock: sql(include_str!("queries/row_shared_try.sql")),
                    wait: sql(include_str!("queries/row_shared_wait.sql")),
                    missed: sql(include_str!("queries/row_missed.sql")),
                    waited: sql(include_str!("queries/row_missed.sql")),
                    unlock: sql(include_str!("queries/row_shared_unlock.sql")),
                    keep: row_keep(Mode::Shared),
                };
                (alone, Some(shared))
            }
        };
        Self {
            kind,
            alone,
            shared,
            part: sql(include_str!("queries/session_part.sql")),
            restore: sql(include_str!("queries/session_restore.sql")),
            make: sql(include_str!("queries/row_make.sql")),
            raise: (
                sql(include_str!("queries/raise.sql")).render(&[], MySql::literal),
                expand("{hold_fence}"),
            ),
        }
    }

    pub(super) fn of(&self, claim: &Claim) -> &Locking {
        self.shared.as_ref().filter(|_| claim.mode == Mode::Shared).unwrap_or(&self.alone)
    }
}
