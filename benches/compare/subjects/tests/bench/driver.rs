use std::sync::{Mutex, PoisonError};

use lockwright_bench::driver::{self, Plan};
use lockwright_bench::results::{Kind, Results};

use super::smoke_of;

/// Serializes the tests, because each starts many processes and depends on time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn measured(kind: Kind, fakes: &[&str], only: &[&str]) -> Results {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let commands = || {
        fakes.iter().map(|&fake| vec![env!("CARGO_BIN_EXE_bench-fake").to_owned(), fake.to_owned()])
    };
    let plan = Plan {
        only: only.iter().map(|&only| only.to_owned()).collect(),
        ours: if kind == Kind::Peer { vec![] } else { commands().map(|it| (kind, it)).collect() },
        peers: if kind == Kind::Peer { commands().collect() } else { vec![] },
        ..smoke_of("sqlite", folder.path())
    };
    driver::run(&plan, |_| Ok(())).unwrap()
}

#[test]
fn excluding_subject_is_timed_at_everything() {
    let results = measured(Kind::Ours, &["honest"], &[]);
    let [exclusion] = &results.exclusion[..] else { panic!("{:?}", results.exclusion) };
    assert!(exclusion.turns > 0 && exclusion.overlaps == 0, "{exclusion:?}");
    for workload in lockwright_bench::WORKLOADS {
        let cells: Vec<_> =
            results.cells.iter().filter(|cell| cell.workload == workload.id).collect();
        assert!(!cells.is_empty(), "{} is measured", workload.id);
        // SQLite has no server to count commands.
        let of_server = workload.measure.starts_with("server_commands");
        for cell in cells.iter().filter(|cell| cell.note.is_none() && !of_server) {
            assert!(cell.measures.contains_key(workload.measure), "{cell:?}");
        }
    }
    let turns = results.cells.iter().find(|cell| cell.workload == "hand-over").unwrap();
    assert!(turns.measures["turns_per_second"][0] > 0.0, "{turns:?}");
    assert!(!turns.distribution.is_empty());
}

#[test]
fn overlap_is_detected_and_not_timed() {
    let results = measured(Kind::Peer, &["open", "honest"], &["pairs"]);
    let open = results.exclusion.iter().find(|seen| seen.subject == "open").unwrap();
    assert!(open.overlaps > 0, "{open:?}");
    let timed: Vec<_> = results.cells.iter().map(|cell| cell.subject.as_str()).collect();
    assert!(timed.contains(&"honest") && !timed.contains(&"open"), "{timed:?}");
}

#[test]
fn a_failure_is_reported_and_not_timed() {
    let results = measured(Kind::Peer, &["unable", "ending", "talkative"], &["pairs"]);
    assert!(results.cells.is_empty(), "{:?}", results.cells);
    let why = |name: &str| {
        let seen = results.exclusion.iter().find(|seen| seen.subject == name).unwrap();
        seen.error.clone().unwrap()
    };
    assert_eq!(why("unable"), "it doesn't wait");
    assert!(why("ending").contains("it has ended"), "{}", why("ending"));
    assert!(why("talkative").contains("let me think"), "{}", why("talkative"));
}

#[test]
fn a_program_that_cant_be_started_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        only: vec!["pairs".to_owned()],
        peers: vec![vec!["/nowhere/at/all".to_owned()], vec!["/bin/true".to_owned()]],
        ..smoke_of("memory", folder.path())
    };
    let results = driver::run(&plan, |_| Ok(())).unwrap();
    let missing: Vec<_> = results.missing.iter().map(|missing| missing.name.as_str()).collect();
    assert_eq!(missing, ["/nowhere/at/all", "/bin/true"]);
    assert!(results.missing[0].reason.contains("No such file"), "{}", results.missing[0].reason);
    assert!(results.missing[1].reason.contains("it has ended"), "{}", results.missing[1].reason);
}
