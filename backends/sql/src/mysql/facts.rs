use std::collections::HashMap;

use lockwright_core::{Error, ErrorKind, Result};

use super::dialect::MySql;
use crate::server::{BadRow, Effect, Pool, Row};

/// The oldest versions with `JSON_TABLE` and `SKIP LOCKED`.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

#[derive(Debug)]
pub(super) struct Facts(HashMap<String, String>);

impl Facts {
    pub(super) async fn look(pool: &Pool<MySql>) -> Result<Self> {
        let rows = pool.fetch_text(LOOK.to_owned(), Effect::Reads).await?;
        pool.sound(Self::of(&rows))
    }

    fn of(rows: &[Row]) -> Result<Self, BadRow> {
        let pair = |row: &Row| {
            let name = row.text(0)?.ok_or(BadRow)?.to_ascii_lowercase();
            Ok((name, row.text(1)?.unwrap_or_default().to_owned()))
        };
        rows.iter().map(pair).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| matches!(value, "ON" | "1" | "YES"))
    }

    pub(super) fn version(&self) -> &str {
        self.text("version").unwrap_or_default()
    }

    pub(super) fn is_too_old(&self) -> bool {
        let mut numbers = self.version().split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        let release = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let is_mariadb = self.version().contains("MariaDB");
        release < if is_mariadb { OLDEST_MARIADB } else { OLDEST_MYSQL }
    }

    pub(super) fn only_reads(&self) -> Option<&'static str> {
        ["innodb_read_only", "super_read_only", "read_only"]
            .into_iter()
            .find(|name| self.text(name).is_some_and(|value| !matches!(value, "OFF" | "0" | "NO")))
    }

    pub(super) fn multi_primary(&self) -> Option<&'static str> {
        if self.is_on("wsrep_on") {
            return Some("a Galera cluster (wsrep_on)");
        }
        let group = self.text("group_replication_group_name").is_some_and(|name| !name.is_empty());
        (group && !self.is_on("group_replication_single_primary_mode"))
            .then_some("group replication with several primaries")
    }

    pub(super) fn can_lock(&self, backend: &'static str) -> Result<()> {
        let problem = if let Some(setting) = self.only_reads() {
            format!(
                "this server is read-only ({setting}), most likely as a replica; connect to its \
                 primary"
            )
        } else if self.is_too_old() {
            format!(
                "this server is version {}, and MariaDB {}.{} or MySQL {}.{} is needed",
                self.version(),
                OLDEST_MARIADB.0,
                OLDEST_MARIADB.1,
                OLDEST_MYSQL.0,
                OLDEST_MYSQL.1
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Unsupported, problem).with_backend(backend))
    }

    pub(super) fn can_hold(&self, backend: &'static str) -> Result<()> {
        let Some(what) = self.multi_primary() else { return Ok(()) };
        let problem = format!(
            "this server belongs to {what}, whose primaries don't share session locks; use the \
             mode lease with one primary, or another server"
        );
        Err(Error::new(ErrorKind::Unsupported, problem).with_backend(backend))
    }
}

const LOOK: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only', \
                    'super_read_only', 'innodb_read_only', 'wsrep_on', \
                    'group_replication_group_name', 'group_replication_single_primary_mode', \
                    'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', \
                    'max_connections', 'thread_handling')";

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(settings: &[(&str, &str)]) -> Facts {
        Facts(settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn the_oldest_version_depends_on_whose_it_is() {
        for (version, too_old) in [
            ("10.5.29-MariaDB", true),
            ("10.6.0-MariaDB", false),
            ("11.4.2-MariaDB-log", false),
            ("5.7.44", true),
            ("8.0.36-0ubuntu0", false),
            ("", true),
        ] {
            assert_eq!(facts(&[("version", version)]).is_too_old(), too_old, "{version}");
        }
    }

    #[test]
    fn several_primaries_are_refused() {
        let group = ("group_replication_group_name", "aaaa");
        let single = |on| [group, ("group_replication_single_primary_mode", on)];
        assert!(facts(&[("wsrep_on", "ON")]).can_hold("mysql-row").is_err());
        assert!(facts(&single("OFF")).can_hold("mysql-row").is_err());
        assert!(facts(&single("ON")).can_hold("mysql-row").is_ok());
        assert!(facts(&[("wsrep_on", "OFF")]).can_hold("mysql-row").is_ok());
    }
}
