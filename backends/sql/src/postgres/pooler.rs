//! Detects a replica, another product, and a pooler.
//!
//! Each connection sets `lockwright.mark` to a random value of this client: the mark. A pooler
//! rejects the setting, drops it, or returns another client's mark. Until the client has read its
//! own, it sets nothing else, because a pooler's clients may share the session.

use lockwright_core::{Error, ErrorKind, Result};

use super::dialect::{MARK, Postgresql};
use crate::server::{BadRow, Effect, Pool, Row};

const OLDEST: i64 = 120_000;

#[derive(Debug)]
pub(super) struct Server {
    pub(super) is_replica: bool,
    pub(super) version: i64,
    is_utf8: bool,
    pub(super) is_direct: bool,
    product: String,
    pub(super) schema: Option<String>,
}

impl Server {
    pub(super) async fn look(pool: &Pool<Postgresql>) -> Result<Self> {
        let look = format!(
            "SELECT pg_is_in_recovery(), current_setting('server_version_num')::bigint, \
             current_setting('server_encoding') = 'UTF8', {MARK}, version(), {}",
            pool.dialect().schema()
        );
        let rows = pool.fetch_text(look, Effect::Reads).await?;
        let read = |row: &Row| {
            Ok(Self {
                is_replica: row.bool(0)?,
                version: row.int(1)?,
                is_utf8: row.bool(2)?,
                is_direct: pool.dialect().has_mark(row.text(3)?),
                product: row.text(4)?.unwrap_or_default().to_owned(),
                schema: row.text(5)?.map(str::to_owned),
            })
        };
        pool.sound(rows.first().ok_or(BadRow).and_then(read))
    }

    pub(super) fn can_lock(&self, backend: &'static str) -> Result<()> {
        let problem = if let Some(other) = other_product(&self.product) {
            format!(
                "this server is {other} and not PostgreSQL, and its locks work differently; connect \
                 to a PostgreSQL server"
            )
        } else if self.is_replica {
            "this server is a replica, which can't lock; connect to its primary".to_owned()
        } else if self.version < OLDEST {
            format!(
                "this server is PostgreSQL {}, and at least {} is needed",
                self.version / 10_000,
                OLDEST / 10_000
            )
        } else if !self.is_utf8 {
            "the database isn't in UTF-8, so that it can't store every name; keep the locks in \
             another one: CREATE DATABASE locks ENCODING 'UTF8' TEMPLATE template0"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Unsupported, problem).with_backend(backend))
    }
}

fn other_product(version: &str) -> Option<&str> {
    const OTHERS: [(&str, &str); 4] = [
        ("-YB-", "YugabyteDB"),
        ("Redshift", "Redshift"),
        ("Greenplum", "Greenplum"),
        ("Materialize", "Materialize"),
    ];
    if version.starts_with("PostgreSQL ") || version.starts_with("EnterpriseDB ") {
        return OTHERS.iter().find(|(sign, _)| version.contains(sign)).map(|(_, name)| *name);
    }
    let end = version.find([' ', ',']).unwrap_or(version.len());
    Some(if end == 0 { "of an unknown kind" } else { &version[..end] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_postgresql_is_accepted() {
        for (version, other) in [
            ("PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, 64-bit", None),
            ("PostgreSQL 18.1 on aarch64-unknown-linux-gnu, compiled by clang", None),
            ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, go1.19)", Some("CockroachDB")),
            ("PostgreSQL 11.2-YB-2.19.3.0-b0 on x86_64-pc-linux-gnu", Some("YugabyteDB")),
            ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.12103", Some("Redshift")),
            ("", Some("of an unknown kind")),
        ] {
            assert_eq!(other_product(version), other, "{version}");
        }
    }
}
