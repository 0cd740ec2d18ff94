//! The list of the crates whose tests start servers, or want the machine to themselves.
//!
//! A new backend is one line here. A crate that isn't in the list needs no server, but for those of
//! its tests that say so: they stand in a module that is named after a server of the list (`mod
//! redis`), or have it in their own names (`on_redis`).

use crate::binaries::Binary;
use crate::interop;

/// A crate whose tests start servers.
struct Tested {
    /// The package.
    package: &'static str,
    /// The servers, as the names of other crates' tests call them.
    servers: &'static [&'static str],
    /// Those of its test binaries that start none before they look which tests are wanted; `lib` is
    /// that of the crate itself. `--quick` runs these.
    without: &'static [&'static str],
}

/// In the order in which they begin: those that take longest come first, and among them those that wait most,
/// beside others that want the processor.
#[rustfmt::skip] // one line each
const LIST: &[Tested] = &[
    Tested { package: "lockwright-sql", servers: &["postgres", "mysql", "pgbouncer"], without: &["lib", "it", "conformance"] },
    Tested { package: "lockwright-redis", servers: &["redis"], without: &[] },
    Tested { package: "lockwright-cli", servers: &[], without: &["cli", "lockwright"] },
    Tested { package: "lockwright-testbed", servers: &[], without: &[] },
    Tested { package: "lockwright-bench-contestants", servers: &[], without: &[] },
    Tested { package: "lockwright-etcd", servers: &["etcd"], without: &["lib"] },
    Tested { package: "lockwright-zookeeper", servers: &["zookeeper"], without: &["lib"] },
    Tested { package: "lockwright-redlock", servers: &["redlock"], without: &["lib", "quorum", "model", "simulation"] },
    Tested { package: interop::CRATE, servers: &[], without: &[] },
];

/// The test binaries that run by themselves: clusters whose members are killed and come back keep both
/// cores busy, and two such beside each other don't find a leader in time.
const ALONE: &[(&str, &str)] = &[("lockwright-etcd", "server"), ("lockwright-zookeeper", "server")];

/// The test binaries that wait for servers nearly all the time, and how many of their tests run beside each
/// other: more than there are cores. Not the suites: their cases share a server, and those that disturb it
/// wait until all others have stopped.
const PATIENT: &[(&str, &str, &str)] = &[
    ("lockwright-sql", "beside", "6"),
    ("lockwright-sql", "held", "6"),
    ("lockwright-sql", "lease_faults", "6"),
    ("lockwright-sql", "mysql_held", "6"),
    ("lockwright-sql", "postgres_held", "6"),
    ("lockwright-redis", "server", "6"),
    ("lockwright-etcd", "server", "9"),
    ("lockwright-zookeeper", "server", "8"),
    ("lockwright-testbed", "smoke", "4"),
    (interop::CRATE, "queues", "4"),
];

/// Where in the list a package stands; those that aren't in it come after all that are.
pub(crate) fn place(package: &str) -> usize {
    LIST.iter().position(|line| line.package == package).unwrap_or(LIST.len())
}

/// Whether a binary starts a server before it looks which tests are wanted, or all its tests need one.
pub(crate) fn starts_servers(binary: &Binary) -> bool {
    let line = LIST.iter().find(|line| line.package == binary.package);
    line.is_some_and(|line| !line.without.contains(&binary.name.as_str()))
}

/// What a binary is told of how many of its tests may run beside each other.
pub(crate) fn threads(binary: &Binary) -> Option<[&'static str; 2]> {
    let is_it = |(package, name, _): &&(&str, &str, _)| is(binary, package, name);
    PATIENT.iter().find(is_it).map(|(.., threads)| ["--test-threads", threads])
}

fn is(binary: &Binary, package: &str, name: &str) -> bool {
    binary.package == package && binary.name == name
}

/// The packages of which nothing runs without a server.
pub(crate) fn packages_with_servers() -> impl Iterator<Item = &'static str> {
    LIST.iter().filter(|line| line.without.is_empty()).map(|line| line.package)
}

/// Whether a binary is to have the machine to itself.
pub(crate) fn runs_alone(binary: &Binary) -> bool {
    ALONE.iter().any(|(package, name)| is(binary, package, name))
}

/// What the paths of tests contain that need a server, wherever they are.
pub(crate) fn paths() -> impl Iterator<Item = String> {
    let servers = LIST.iter().flat_map(|line| line.servers);
    servers.flat_map(|server| [format!("{server}::"), format!("on_{server}")])
}
