use lockwright_core::{Claim, Mode};

use super::Kind;
use crate::mysql::dialect::MySql;
use crate::queries::query;
use crate::server::dialect::Dialect;
use crate::server::session_lock::records;
use crate::server::sql::Sql;

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) kind: Kind,
    pub(super) alone: Locking,
    shared: Option<Locking>,
    /// Releases one hold of a joint session.
    pub(super) part: Sql,
    pub(super) make: Sql,
    /// Restores the idle timeout of a session that didn't get the lock.
    pub(super) restore: Sql,
    /// A query for the lowest new fence, and the sequence's name.
    pub(super) raise: (String, String),
}

#[derive(Debug)]
pub(super) struct Locking {
    pub(super) try_lock: Sql,
    pub(super) wait: Sql,
    /// Waits instead of `wait` if the name may have readers.
    pub(super) wait_for_readers: Option<Sql>,
    pub(super) missed: Sql,
    pub(super) waited: Sql,
    pub(super) unlock: Sql,
    pub(super) keep: Sql,
}

impl Statements {
    pub(super) fn new(kind: Kind, expand: impl Fn(&str) -> String) -> Self {
        let sql = |text: &str| Sql::new(&expand(text));
        let prepared = |text: &str| Sql::to_prepare(&expand(text), MySql::PLACEHOLDER);
        let row_keep =
            |mode| sql(&records::table_of(mode, query!("queries/renew.sql", "row_keep")));
        let (alone, shared) = match kind {
            Kind::Session => {
                let alone = Locking {
                    try_lock: prepared(query!("queries/acquire.sql", "session_lock")),
                    wait: sql(query!("queries/acquire.sql", "session_lock")),
                    wait_for_readers: None,
                    missed: sql(query!("queries/acquire.sql", "session_missed")),
                    waited: sql(query!("queries/acquire.sql", "session_missed")),
                    unlock: prepared(query!("queries/release.sql", "session_unlock")),
                    keep: sql(query!("queries/renew.sql", "session_keep")),
                };
                (alone, None)
            }
            Kind::Row => {
                let alone = Locking {
                    try_lock: prepared(query!("queries/acquire.sql", "row_try")),
                    wait: sql(query!("queries/acquire.sql", "row_wait")),
                    wait_for_readers: Some(sql(query!(
                        "queries/acquire.sql",
                        "row_wait_for_readers"
                    ))),
                    missed: sql(query!("queries/acquire.sql", "row_missed")),
                    waited: sql(query!("queries/acquire.sql", "row_waited")),
                    unlock: sql(query!("queries/release.sql", "row_unlock")),
                    keep: row_keep(Mode::Exclusive),
                };
                let shared = Locking {
                    try_lock: sql(query!("queries/acquire.sql", "row_shared_try")),
                    wait: sql(query!("queries/acquire.sql", "row_shared_wait")),
                    wait_for_readers: None,
                    missed: sql(query!("queries/acquire.sql", "row_missed")),
                    waited: sql(query!("queries/acquire.sql", "row_missed")),
                    unlock: sql(query!("queries/release.sql", "row_shared_unlock")),
                    keep: row_keep(Mode::Shared),
                };
                (alone, Some(shared))
            }
        };
        Self {
            kind,
            alone,
            shared,
            part: prepared(query!("queries/release.sql", "session_part")),
            restore: sql(query!("queries/acquire.sql", "session_restore")),
            make: sql(query!("queries/acquire.sql", "row_make")),
            raise: (
                sql(query!("queries/record.sql", "raise")).render(&[], MySql::literal),
                expand("{hold_fence}"),
            ),
        }
    }

    pub(super) fn of(&self, claim: &Claim) -> &Locking {
        self.shared.as_ref().filter(|_| claim.mode == Mode::Shared).unwrap_or(&self.alone)
    }
}
