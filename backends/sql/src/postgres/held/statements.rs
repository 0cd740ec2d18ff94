use lockwright_core::{Claim, Mode};

use super::Kind;
use crate::postgres::dialect::Postgresql;
use crate::server::held::rows;
use crate::server::sql::Sql;

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) kind: Kind,
    pub(super) dialect: Postgresql,
    alone: Locking,
    shared: Locking,
    /// Creates the name's row, in the mode `row`.
    pub(super) make: Sql,
    pub(super) shorten: Sql,
}

#[derive(Debug)]
pub(super) struct Locking {
    pub(super) try_lock: Sql,
    pub(super) wait: Sql,
    /// Runs after an unsuccessful wait, in the mode `row` also after an unsuccessful attempt.
    pub(super) missed: Sql,
    pub(super) unlock: Sql,
    pub(super) keep: Sql,
}

impl Statements {
    pub(super) fn new(kind: Kind, dialect: Postgresql, expand: impl Fn(&str) -> String) -> Self {
        let sql = |text: &str| Sql::new(&expand(text));
        let hot = |name, text: &str| Sql::hot(name, expand(text).trim_end().trim_end_matches(';'));
        let keep = |name, mode| hot(name, &rows::table_of(mode, include_str!("queries/keep.sql")));
        let missed = |mode| sql(&rows::table_of(mode, include_str!("queries/row_missed.sql")));
        let (alone, shared) = match kind {
            Kind::Session => (
                Locking {
                    try_lock: hot("held_try", include_str!("queries/session_try.sql")),
                    wait: sql(include_str!("queries/session_wait.sql")),
                    missed: sql(include_str!("queries/session_missed.sql")),
                    unlock: hot("held_unlock", include_str!("queries/session_unlock.sql")),
                    keep: keep("held_keep", Mode::Exclusive),
                },
                Locking {
                    try_lock: hot(
                        "held_shared_try",
                        include_str!("queries/session_shared_try.sql"),
                    ),
                    wait: sql(include_str!("queries/session_shared_wait.sql")),
                    missed: sql(include_str!("queries/session_shared_missed.sql")),
                    unlock: sql(include_str!("queries/session_shared_unlock.sql")),
                    keep: keep("held_shared_keep", Mode::Shared),
                },
            ),
            Kind::Row => (
                Locking {
                    try_lock: hot("held_try", include_str!("queries/row_try.sql")),
                    wait: sql(include_str!("queries/row_wait.sql")),
                    missed: missed(Mode::Exclusive),
                    unlock: sql(include_str!("queries/row_unlock.sql")),
                    keep: keep("held_keep", Mode::Exclusive),
                },
                Locking {
                    try_lock: hot("held_shared_try", include_str!("queries/row_shared_try.sql")),
                    wait: sql(include_str!("queries/row_shared_wait.sql")),
                    missed: missed(Mode::Shared),
                    unlock: sql(include_str!("queries/row_shared_unlock.sql")),
                    keep: keep("held_shared_keep", Mode::Shared),
                },
            ),
        };
        Self {
            kind,
            dialect,
            alone,
            shared,
            make: sql(include_str!("queries/row_make.sql")),
            shorten: sql(include_str!("queries/shorten.sql")),
        }
    }

    pub(super) fn of(&self, claim: &Claim) -> &Locking {
        if claim.mode == Mode::Shared { &self.shared } else { &self.alone }
    }
}
