pub(crate) const INTEROP: &str = "lockwright-interop";

struct Package {
    package: &'static str,
    /// For `redis`, `--quick` skips tests with `redis::` or `on_redis` in their path.
    servers: &'static [&'static str],
    /// Test binaries that `--quick` runs, because some of their tests need no server.
    serverless: &'static [&'static str],
}

/// The longest tests first.
#[rustfmt::skip]
const LIST: &[Package] = &[
    Package { package: "lockwright-sql", servers: &["postgres", "mysql", "pgbouncer"], serverless: &["lib", "sqlite", "conformance"] },
    Package { package: "lockwright-redis", servers: &["redis"], serverless: &["lib"] },
    Package { package: "lockwright-cli", servers: &[], serverless: &["cli", "lockwright"] },
    Package { package: "lockwright-testbed", servers: &[], serverless: &[] },
    Package { package: "lockwright-bench-subjects", servers: &[], serverless: &[] },
    Package { package: "lockwright-etcd", servers: &["etcd"], serverless: &["lib"] },
    Package { package: "lockwright-zookeeper", servers: &["zookeeper"], serverless: &["lib"] },
    Package { package: "lockwright-redlock", servers: &["redlock"], serverless: &["lib"] },
    Package { package: INTEROP, servers: &[], serverless: &[] },
];

/// Test binaries that run alone. They keep two cores busy, so a parallel binary's clusters wouldn't
/// elect leaders in time.
const EXCLUSIVE: &[(&str, &str)] =
    &[("lockwright-etcd", "server"), ("lockwright-zookeeper", "server")];

/// Test binaries whose tests mostly wait, and how many tests run at once. Conformance suites aren't
/// listed: their cases share a server.
const TEST_THREADS: &[(&str, &str, &str)] = &[
    ("lockwright-sql", "session_lock", "6"),
    ("lockwright-sql", "lease_faults", "6"),
    ("lockwright-sql", "shared_holders", "6"),
    ("lockwright-redis", "server", "6"),
    ("lockwright-etcd", "server", "14"),
    ("lockwright-zookeeper", "server", "8"),
    ("lockwright-testbed", "testbed", "4"),
    ("lockwright-cli", "cli", "4"),
    (INTEROP, "queues", "6"),
];

/// Packages with servers come first; in a package, binaries that mostly wait.
pub(crate) fn start_order(package: &str, name: &str) -> (usize, bool) {
    let line = LIST.iter().position(|line| line.package == package).unwrap_or(LIST.len());
    (line, threads(package, name).is_none())
}

pub(crate) fn starts_servers(package: &str, name: &str) -> bool {
    let line = LIST.iter().find(|line| line.package == package);
    line.is_some_and(|line| !line.serverless.contains(&name))
}

pub(crate) fn threads(package: &str, name: &str) -> Option<[&'static str; 2]> {
    let line = TEST_THREADS.iter().find(|line| (line.0, line.1) == (package, name));
    line.map(|(.., threads)| ["--test-threads", threads])
}

pub(crate) fn packages_with_servers() -> impl Iterator<Item = &'static str> {
    LIST.iter().filter(|line| line.serverless.is_empty()).map(|line| line.package)
}

pub(crate) fn is_exclusive(package: &str, name: &str) -> bool {
    EXCLUSIVE.contains(&(package, name))
}

pub(crate) fn paths() -> impl Iterator<Item = String> {
    let servers = LIST.iter().flat_map(|line| line.servers);
    servers.flat_map(|server| [format!("{server}::"), format!("on_{server}")])
}
