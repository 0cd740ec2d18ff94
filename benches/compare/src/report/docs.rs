use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;

use super::view::{Place, View, spread};
use super::{names, read, write};
use crate::results::Regime;
use crate::workload::Workload;

fn docs(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/src", path].iter().collect()
}

#[test]
fn pages_and_pictures_are_made_from_the_results() {
    for name in ["benchmarks", "hand-over"] {
        let made = tempfile::tempdir().unwrap();
        let json = docs(name).join("results.json");
        let page = made.path().join("benchmarks.md");
        write(&read(&json).unwrap(), &json, &page, &made.path().join(name), None).unwrap();
        let remedy = "`cargo xtask bench report docs/src/benchmarks/results.json` makes it again";
        if name == "benchmarks" {
            let is = read_to_string(docs("benchmarks.md")).unwrap();
            assert!(is == read_to_string(&page).unwrap(), "benchmarks.md: {remedy}");
        }
        for path in read_dir(docs(name)).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "svg") {
                let now = made.path().join(name).join(path.file_name().unwrap());
                let is_same =
                    read_to_string(now).is_ok_and(|now| now == read_to_string(&path).unwrap());
                assert!(is_same, "{}: {remedy}", path.display());
            }
        }
    }
}

#[test]
fn the_table_of_the_hand_over_has_the_results() {
    let results = read(&docs("hand-over/results.json")).unwrap();
    let (view, page) = (View::of(&results), read_to_string(docs("hand-over.md")).unwrap());
    for (id, at, measure, peer) in [
        ("hand-over", 0, "hand_overs_per_second", "rueidislock"),
        ("hand-over-5ms", 0, "hand_overs_per_second", "rueidislock"),
        ("hand-over-5ms", 0, "wait_p99_us", "python-redis-lock"),
        ("hand-over-5ms", 0, "jain", "python-redis-lock"),
        ("waiters", 1_000, "hand_overs_per_second", ""),
        ("waiting", 0, "server_commands_per_second", "python-redis-lock"),
    ] {
        let workload = Workload::of(id).unwrap();
        let place = Place { workload: workload.id, backend: "redis", at, regime: Regime::TwoCores };
        let figure = |subject| {
            let spread = view.cell(&place, subject).and_then(|cell| spread(cell, measure));
            spread.map_or(names::NONE.to_owned(), |spread| names::figure(measure, spread.median))
        };
        let peer = match figure(peer) {
            none if none == names::NONE => none,
            figure => format!("{figure} ({peer})"),
        };
        let (before, after) = (figure("lockwright-before"), figure("lockwright"));
        let row = format!(" | {before} | {after} | {peer} |\n");
        assert!(page.contains(&row), "{id}, {measure}: no {row:?} in hand-over.md");
    }
}
