//! The conformance suite on newer servers than the installed ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries::{self, Binary};
use crate::packages::{self, Archive};
use crate::report::Report;
use crate::servers::{self, Version};
use crate::steps::Options;
use crate::{process, tmp};

/// A server, and the test suites to run on it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Server {
    /// The folder in `target/servers/`.
    folder: &'static str,
    /// The title in the conformance table.
    pub(crate) title: &'static str,
    packages: &'static [&'static str],
    /// The path of its program in the folder of packages. A `*` matches a number.
    binary: &'static str,
    probe: &'static [&'static str],
    /// Text in that output, which identifies the server.
    says: &'static str,
    least: Version,
    suites: &'static [Suite],
}

/// A test binary, by package and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Suite {
    package: &'static str,
    test: &'static str,
    /// A filter for the tests' names.
    only: Option<&'static str>,
}

impl Suite {
    const fn of(package: &'static str, test: &'static str) -> Self {
        Self { package, test, only: None }
    }
}

const SQL: &str = "lockwright-sql";
const MARIADB: &[Suite] =
    &[Suite::of(SQL, "mysql_lease"), Suite::of(SQL, "mysql_session"), Suite::of(SQL, "mysql_row")];
const MYSQL: &[Suite] = &[
    Suite::of(SQL, "mysql_lease"),
    Suite::of(SQL, "mysql_session"),
    Suite::of(SQL, "mysql_row"),
    Suite { package: SQL, test: "lease_faults", only: Some("mariadb::") },
    Suite { package: SQL, test: "held", only: Some("mysql::") },
];
const REDIS: &[Suite] = &[Suite::of("lockwright-redis", "conformance")];

/// The slowest servers come first.
pub(crate) const SERVERS: &[Server] = &[
    Server {
        folder: "postgresql",
        title: "PostgreSQL 17+",
        packages: &["postgresql"],
        binary: "usr/lib/postgresql/*/bin/postgres",
        probe: &["--version"],
        says: "PostgreSQL",
        least: (17, 0),
        suites: &[
            Suite::of(SQL, "postgres_session"),
            Suite::of(SQL, "postgres_row"),
            Suite::of(SQL, "postgres_lease"),
        ],
    },
    Server {
        folder: "mysql",
        title: "MySQL 8.4+",
        packages: &["mysql-server-core"],
        binary: "usr/sbin/mysqld",
        probe: &["--no-defaults", "--version"],
        says: "Ver",
        least: (8, 4),
        suites: MYSQL,
    },
    Server {
        folder: "mariadb",
        title: "MariaDB 11+",
        packages: &["mariadb-server-core", "mariadb-client-core"],
        binary: "usr/sbin/mariadbd",
        probe: &["--no-defaults", "--version"],
        says: "MariaDB",
        least: (11, 0),
        suites: MARIADB,
    },
    Server {
        folder: "redis",
        title: "Redis 8+",
        packages: &["redis-server"],
        binary: "usr/bin/redis-server",
        probe: &["--version"],
        says: "Redis server",
        least: (8, 0),
        suites: REDIS,
    },
    Server {
        folder: "valkey",
        title: "Valkey",
        packages: &["valkey-server"],
        binary: "usr/bin/valkey-server",
        probe: &["--version"],
        says: "Valkey server",
        least: (7, 2),
        suites: REDIS,
    },
];

pub(crate) fn step(options: &Options) -> Report {
    if options.quick {
        return Report::left_out("--quick runs no servers");
    }
    if !servers::may_install() || !packages::has_later_suites() {
        return Report::left_out(
            "newer server versions come from packages, which are downloaded only as root on Debian \
             or Ubuntu",
        );
    }
    let place = match Place::new() {
        Ok(place) => place,
        Err(problem) => return Report::failed(&problem),
    };
    let roots = match place.provide() {
        Ok(roots) => roots,
        Err(problem) => return Report::failed(&problem),
    };
    // With all features of the workspace, as in the other steps, so that nothing is built twice.
    let mut args = vec!["--workspace", "--all-features"];
    let mut tests: Vec<&str> =
        SERVERS.iter().flat_map(|it| it.suites).map(|suite| suite.test).collect();
    tests.sort_unstable();
    tests.dedup();
    tests.iter().for_each(|test| args.extend(["--test", test]));
    let built = match binaries::build("versions", &args) {
        Ok(built) => built,
        Err(report) => return report,
    };
    let mut jobs: Vec<Binary> = Vec::new();
    for (server, root) in SERVERS.iter().zip(&roots) {
        for Suite { package, test, only } in server.suites {
            match built.iter().find(|it| it.package == *package && it.name == *test) {
                Some(binary) => jobs.push(binary.clone().on(server.title, root.clone(), *only)),
                None => return Report::failed(&format!("{package} has no test {test}")),
            }
        }
    }
    // These tests mostly wait, so more of them run in parallel.
    let at_a_time = if options.at_a_time == 1 { 1 } else { 2 * options.at_a_time };
    let mut report = binaries::run("versions", jobs, &[], at_a_time, process::RUNNING);
    // The table shows cases that aren't promised.
    report.left_out.retain(|test| !test.contains("[not promised]"));
    report
}

/// The folders of the downloaded and of the unpacked packages.
struct Place {
    kept: PathBuf,
    roots: PathBuf,
    is_temporary: bool,
}

/// A folder of unpacked packages, and the server in it, such as `MySQL 9.7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Root {
    pub(crate) folder: PathBuf,
    pub(crate) server: String,
}

impl Place {
    /// Uses folders below the target folder, which are kept. Packages go to a temporary folder if
    /// servers, which don't run as root, can't enter the target folder.
    fn new() -> Result<Self, String> {
        let kept = crate::target_folder().join("servers");
        let said = |error: std::io::Error| format!("{}: {error}", kept.display());
        fs::create_dir_all(&kept).map_err(said)?;
        let kept = kept.canonicalize().map_err(said)?;
        let may_be_entered =
            |folder: &Path| folder.metadata().is_ok_and(|it| it.permissions().mode() & 0o001 != 0);
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o755)).map_err(said)?;
        let is_temporary = !kept.ancestors().all(may_be_entered);
        let roots = if is_temporary {
            tmp::folder().join(format!("lockwright-servers-{}", std::process::id()))
        } else {
            kept.clone()
        };
        Ok(Self { kept, roots, is_temporary })
    }

    /// Downloads and unpacks each server's packages, unless they are there already.
    fn provide(&self) -> Result<Vec<Root>, String> {
        let mut archive = None;
        let mut roots = Vec::new();
        let mut problems = Vec::new();
        for server in SERVERS {
            let folder = self.roots.join(server.folder);
            let found = match server.version(&folder) {
                Ok(version) => Ok(version),
                Err(_) => {
                    if archive.is_none() {
                        archive = Some(Archive::of_this_machine(&self.kept.join("packages"))?);
                    }
                    let Some(archive) = &mut archive else { continue };
                    // Unpacked elsewhere and then renamed, so that no partial folder is used.
                    let fresh = self.roots.join(format!("{}.new", server.folder));
                    archive
                        .unpack(server.packages, &fresh, |root| server.version(root))
                        .and_then(|version| moved(&fresh, &folder).map(|()| version))
                }
            };
            match found {
                Ok(version) => {
                    let server = format!("{} {version}", server.product());
                    println!("     {server}");
                    roots.push(Root { folder, server });
                }
                Err(problem) => problems.push(format!("{}: {problem}", server.title)),
            }
        }
        if problems.is_empty() { Ok(roots) } else { Err(problems.join("\n")) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.roots);
        }
    }
}

fn moved(fresh: &Path, folder: &Path) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(said)?;
    }
    fs::rename(fresh, folder).map_err(said)
}

impl Server {
    /// Returns the server's name without the version.
    fn product(&self) -> &'static str {
        self.title.split(' ').next().unwrap_or(self.title)
    }

    /// Returns the version of the server in a folder of packages, if it is new enough.
    fn version(&self, root: &Path) -> Result<String, String> {
        let binary = servers::newest(&root.join(self.binary))
            .ok_or_else(|| format!("the packages have no {}", self.binary))?;
        let output = Command::new(&binary).args(self.probe).output();
        let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let said = said.replace(&*binary.to_string_lossy(), "");
        let version = servers::version(&said).filter(|_| said.contains(self.says));
        let Some((major, minor)) = version else {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} says {:?}", binary.display(), said + &complaint));
        };
        if (major, minor) < self.least {
            let (major_wanted, minor_wanted) = self.least;
            return Err(format!(
                "the version is {major}.{minor}, but at least {major_wanted}.{minor_wanted} is needed"
            ));
        }
        Ok(format!("{major}.{minor}"))
    }
}
