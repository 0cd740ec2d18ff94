//! Tests that Lockwright and the baseline exclude other holders on every backend, and that each
//! measurement works.
use lockwright_bench::driver::{self, Plan};
use lockwright_bench::results::{Cell, Kind, Results};
use lockwright_bench::{WORKLOADS, Workload};

use super::smoke_of;

/// The maximum number of attempts. On a busy machine, a measurement of 30 ms may end before two
/// clients have competed for the lock.
const TRIES: usize = 4;

fn everything_works_on(backend: &str) {
    let mut lacking = Vec::new();
    for _ in 0..TRIES {
        lacking = lacking_in(&measured(backend), backend);
        if lacking.is_empty() {
            return;
        }
    }
    panic!("{TRIES} times something was lacking, at last: {lacking:#?}");
}

fn measured(backend: &str) -> Results {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        ours: vec![
            (Kind::Baseline, vec![env!("CARGO_BIN_EXE_bench-baseline").to_owned()]),
            (Kind::Ours, vec![env!("CARGO_BIN_EXE_bench-ours").to_owned()]),
        ],
        ..smoke_of(backend, folder.path())
    };
    let results = driver::run(&plan, |_| Ok(())).unwrap();
    // An overlap fails the test without a retry, because a busy machine can't cause overlaps.
    for seen in &results.exclusion {
        assert_eq!(seen.overlaps, 0, "{seen:?}");
    }
    let overlap = |cell: &&Cell| cell.note.as_deref().is_some_and(|note| note.contains("overlap"));
    assert_eq!(results.cells.iter().find(overlap), None);
    results
}

fn lacking_in(results: &Results, backend: &str) -> Vec<String> {
    let mut lacking = Vec::new();
    for subject in ["baseline", "lockwright"] {
        let excludes = results
            .exclusion
            .iter()
            .any(|seen| seen.subject == subject && seen.turns > 0 && seen.error.is_none());
        if !excludes {
            lacking.push(format!("{subject} excludes: {:?}", results.exclusion));
        }
    }
    let failed = |cell: &&Cell| cell.note.as_deref().is_some_and(|note| note.contains("failed"));
    lacking.extend(results.cells.iter().filter(failed).map(|cell| format!("{cell:?}")));
    let alone = backend == "memory";
    let nobody_counts = alone || backend == "sqlite";
    for Workload { id, measure, .. } in WORKLOADS {
        if (alone && ["hand-over", "hand-over-5ms", "waiting", "processes"].contains(id))
            || (nobody_counts && measure.starts_with("server_commands"))
        {
            continue;
        }
        let mut cells = results.cells.iter().filter(|cell| cell.workload == *id);
        let ours = |cell: &Cell| {
            let has_waits = !id.starts_with("hand-over") || !cell.distribution.is_empty();
            cell.subject == "lockwright" && cell.measures.contains_key(*measure) && has_waits
        };
        if !cells.any(ours) {
            lacking.push(format!("{id}: {measure}"));
        }
    }
    lacking
}

macro_rules! on {
    ($($test:ident $backend:literal)*) => {
        $(
            #[test]
            fn $test() {
                everything_works_on($backend);
            }
        )*

        #[test]
        fn no_backend_is_forgotten() {
            let all: Vec<_> = lockwright_bench::servers::names().collect();
            assert_eq!(all, [$($backend),*]);
        }
    };
}

on! {
    memory "memory"
    sqlite "sqlite"
    postgres_lease "postgres-lease"
    postgres_session "postgres-session"
    postgres_row "postgres-row"
    mysql_lease "mysql-lease"
    mysql_session "mysql-session"
    mysql_row "mysql-row"
    redis "redis"
    redis_sentinel "redis-sentinel"
    redis_cluster "redis-cluster"
    redlock "redlock-5"
    etcd "etcd"
    zookeeper "zookeeper"
}
