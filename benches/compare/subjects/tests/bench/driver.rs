use std::sync::{Mutex, PoisonError};

use lockwright_bench::driver::{self, Plan};
use lockwright_bench::results::Results;

use super::smoke_of;

/// Serializes the tests, because each starts many processes and depends on time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn measured(fakes: &[&str]) -> Results {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let peer = |fake: &&str| vec![env!("CARGO_BIN_EXE_bench-fake").to_owned(), (*fake).to_owned()];
    let plan = Plan {
        only: vec!["pairs".to_owned()],
        peers: fakes.iter().map(peer).collect(),
        ..smoke_of("sqlite", folder.path())
    };
    driver::run(&plan, |_| Ok(())).unwrap()
}

#[test]
fn overlap_is_detected_and_not_timed() {
    let results = measured(&["open", "honest"]);
    let open = results.exclusion.iter().find(|seen| seen.subject == "open").unwrap();
    assert!(open.overlaps > 0, "{open:?}");
    let timed: Vec<_> = results.cells.iter().map(|cell| cell.subject.as_str()).collect();
    assert!(timed.contains(&"honest") && !timed.contains(&"open"), "{timed:?}");
}

#[test]
fn a_failure_is_reported_and_not_timed() {
    let results = measured(&["unable", "ending", "talkative"]);
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
