use lockwright_core::{Claim, Mode};

use super::{Kind, MUST_RAISE};
use crate::postgres::dialect::Postgresql;
use crate::queries::query;
use crate::server::dialect::Dialect;
use crate::server::session_lock::records;
use crate::server::sql::{Placeholder, Sql};

pub(super) const TRY: &str = "lockwright_try";
pub(super) const WAIT: &str = "lockwright_wait";

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) kind: Kind,
    pub(super) dialect: Postgresql,
    alone: Locking,
    shared: Locking,
    /// Releases one hold of a joint session.
    pub(super) part: Sql,
    pub(super) make: Sql,
    pub(super) shorten: Sql,
    pub(super) must_raise: String,
    pub(super) raise: String,
}

#[derive(Debug)]
pub(super) struct Locking {
    pub(super) try_lock: Sql,
    pub(super) wait: Sql,
    /// Waits instead of `wait` if the name may have readers.
    pub(super) wait_for_readers: Option<Sql>,
    /// Runs after an unsuccessful wait, and in the mode `row` after any unsuccessful attempt.
    pub(super) missed: Sql,
    pub(super) unlock: Sql,
    pub(super) keep: Sql,
}

impl Statements {
    pub(super) fn new(kind: Kind, dialect: Postgresql, expand: impl Fn(&str) -> String) -> Self {
        let sql = |text: &str| Sql::new(&expand(text));
        let prepared = |text: &str| Sql::to_prepare(&expand(text), Placeholder::Numbered);
        let about = |mode, text| sql(&records::table_of(mode, text));
        let keep = |mode| about(mode, query!("queries/renew.sql", "keep"));
        let missed = || sql(query!("queries/acquire.sql", "missed"));
        let (alone, shared) = match kind {
            Kind::Session => (
                Locking {
                    try_lock: prepared(query!("queries/acquire.sql", "session_try")),
                    wait: prepared(query!("queries/acquire.sql", "session_wait")),
                    wait_for_readers: Some(sql(query!(
                        "queries/acquire.sql",
                        "session_wait_for_readers"
                    ))),
                    missed: sql(query!("queries/acquire.sql", "session_missed")),
                    unlock: prepared(query!("queries/release.sql", "session_unlock")),
                    keep: keep(Mode::Exclusive),
                },
                Locking {
                    try_lock: prepared(query!("queries/acquire.sql", "session_shared_try")),
                    wait: sql(query!("queries/acquire.sql", "session_shared_wait")),
                    wait_for_readers: None,
                    missed: missed(),
                    unlock: sql(query!("queries/release.sql", "session_shared_unlock")),
                    keep: keep(Mode::Shared),
                },
            ),
            Kind::Row => (
                Locking {
                    try_lock: prepared(query!("queries/acquire.sql", "row_try")),
                    wait: prepared(query!("queries/acquire.sql", "row_wait")),
                    wait_for_readers: Some(sql(query!(
                        "queries/acquire.sql",
                        "row_wait_for_readers"
                    ))),
                    missed: missed(),
                    unlock: sql("ROLLBACK"),
                    keep: keep(Mode::Exclusive),
                },
                Locking {
                    try_lock: sql(query!("queries/acquire.sql", "row_shared_try")),
                    wait: sql(query!("queries/acquire.sql", "row_shared_wait")),
                    wait_for_readers: None,
                    missed: missed(),
                    unlock: sql(query!("queries/release.sql", "row_shared_unlock")),
                    keep: keep(Mode::Shared),
                },
            ),
        };
        Self {
            kind,
            dialect,
            alone,
            shared,
            part: prepared(query!("queries/release.sql", "session_part")),
            make: sql(query!("queries/acquire.sql", "row_make")),
            shorten: sql(query!("queries/renew.sql", "shorten")),
            must_raise: expand(MUST_RAISE),
            raise: sql(query!("queries/record.sql", "raise")).render(&[], Postgresql::literal),
        }
    }

    /// Returns SQL that prepares the mode `row`'s statements [`TRY`] and [`WAIT`].
    pub(super) fn prepare(&self) -> String {
        let prepare = |name, sql: &Sql| {
            let Some(statement) = sql.prepared() else { return String::new() };
            let type_of = |name: &String| if name == "name" { "text" } else { "bigint" };
            let types = statement.parameters.iter().map(type_of).collect::<Vec<_>>().join(", ");
            format!("PREPARE {name} ({types}) AS {}; ", statement.text)
        };
        let (attempt, wait) = (prepare(TRY, &self.alone.try_lock), prepare(WAIT, &self.alone.wait));
        // `PREPARE` has its own transaction, because the hold's would keep the locks that `PREPARE`
        // takes on tables.
        format!("BEGIN; {attempt}{wait}COMMIT; ")
    }

    pub(super) fn of(&self, claim: &Claim) -> &Locking {
        if claim.mode == Mode::Shared { &self.shared } else { &self.alone }
    }
}
