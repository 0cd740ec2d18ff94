use std::path::{Path, PathBuf};

use crate::process;
use crate::servers::{self, Version};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Server {
    pub(crate) folder: &'static str,
    pub(crate) title: &'static str,
    pub(crate) packages: &'static [&'static str],
    /// A `*` matches a number.
    binary: &'static str,
    probe: &'static [&'static str],
    says: &'static str,
    least: Version,
    pub(crate) suites: &'static [Suite],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Suite {
    pub(crate) package: &'static str,
    pub(crate) test: &'static str,
    pub(crate) only: Option<&'static str>,
}

impl Suite {
    const fn of(package: &'static str, test: &'static str) -> Self {
        Self { package, test, only: None }
    }
}

const SQL: &str = "lockwright-sql";
const MARIADB: &[Suite] = &[
    Suite::of(SQL, "mysql_lease"),
    Suite::of(SQL, "mysql_programs_pool"),
    Suite::of(SQL, "mysql_session"),
    Suite::of(SQL, "mysql_row"),
];
const MYSQL: &[Suite] = &[
    Suite { package: SQL, test: "lease_faults", only: Some("mariadb::") },
    Suite::of(SQL, "mysql_lease"),
    Suite::of(SQL, "mysql_programs_pool"),
    Suite::of(SQL, "mysql_session"),
    Suite::of(SQL, "mysql_row"),
    Suite { package: SQL, test: "session_lock", only: Some("mysql::") },
];
const POSTGRES: &[Suite] = &[
    Suite::of(SQL, "postgres_session"),
    Suite::of(SQL, "postgres_row"),
    Suite::of(SQL, "postgres_lease"),
];
const REDIS: &[Suite] = &[Suite::of("lockwright-redis", "conformance")];

/// Slowest first. In this order, the suites that start many servers, `lease_faults` and
/// `session_lock`, don't begin together.
#[rustfmt::skip]
pub(crate) const SERVERS: &[Server] = &[
    Server { folder: "mysql", title: "MySQL 8.4+", packages: &["mysql-server-core"], suites: MYSQL,
        binary: "usr/sbin/mysqld", probe: &["--no-defaults", "--version"], says: "Ver", least: (8, 4) },
    Server { folder: "postgresql", title: "PostgreSQL 17+", packages: &["postgresql"], suites: POSTGRES,
        binary: "usr/lib/postgresql/*/bin/postgres", probe: &["--version"], says: "PostgreSQL", least: (17, 0) },
    Server { folder: "mariadb", title: "MariaDB 11+", packages: &["mariadb-server-core", "mariadb-client-core"], suites: MARIADB,
        binary: "usr/sbin/mariadbd", probe: &["--no-defaults", "--version"], says: "MariaDB", least: (11, 0) },
    Server { folder: "redis", title: "Redis 8+", packages: &["redis-server"], suites: REDIS,
        binary: "usr/bin/redis-server", probe: &["--version"], says: "Redis server", least: (8, 0) },
    Server { folder: "valkey", title: "Valkey", packages: &["valkey-server"], suites: REDIS,
        binary: "usr/bin/valkey-server", probe: &["--version"], says: "Valkey server", least: (7, 2) },
];

impl Server {
    pub(crate) fn product(&self) -> &'static str {
        self.title.split(' ').next().unwrap_or(self.title)
    }

    pub(crate) fn version(&self, root: &Path) -> Result<String, String> {
        let binary = servers::newest(&root.join(self.binary))
            .ok_or_else(|| format!("the packages have no {}", self.binary))?;
        let said = process::output(&binary.display().to_string(), self.probe)?;
        let said = said.replace(&*binary.to_string_lossy(), "");
        let version = servers::version(&said).filter(|_| said.contains(self.says));
        let (major, minor) =
            version.ok_or_else(|| format!("{} says {said:?}", binary.display()))?;
        if (major, minor) < self.least {
            let (least, least_minor) = self.least;
            return Err(format!(
                "the version is {major}.{minor}, but at least {least}.{least_minor} is needed"
            ));
        }
        Ok(format!("{major}.{minor}"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Root {
    pub(crate) folder: PathBuf,
    pub(crate) server: String,
}
