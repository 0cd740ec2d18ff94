use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::view::{KEEP_ALIVES, against, spread};
use super::{Extent, compare, read, write};
use crate::results::{Cell, FORMAT, Kind, Regime, Results, Settings};
use crate::workload::{WORKLOADS, Workload};

/// Deterministic noise: xorshift64.
struct Noise(u64);

impl Noise {
    /// Returns `value` with up to three percent of noise, and few digits as in a file.
    fn of(&mut self, value: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (value * (970.0 + 0.06 * (self.0 % 1_000) as f64)).round() / 1_000.0
    }

    fn rounds(&mut self, value: f64, rounds: usize) -> Vec<f64> {
        (0..rounds).map(|_| self.of(value)).collect()
    }
}

const BACKENDS: [&str; 3] = ["memory", "redis", "etcd"];

const SPEEDS: [(&str, Kind, f64); 4] = [
    ("baseline", Kind::Baseline, 1.0),
    ("lockwright", Kind::Ours, 0.7),
    ("quick", Kind::Peer, 0.9),
    ("slow", Kind::Peer, 0.04),
];

fn run() -> Results {
    let mut noise = Noise(0x5eed);
    let mut cells = Vec::new();
    for backend in BACKENDS {
        for workload in WORKLOADS {
            let numbers: &[u64] = if workload.grows.is_some() { &[10, 1_000] } else { &[0] };
            for regime in Regime::ALL {
                for (subject, _, speed) in SPEEDS {
                    for at in numbers {
                        let place = (backend, workload, *at, regime);
                        cells.push(cell(&mut noise, place, subject, speed));
                    }
                }
            }
        }
    }
    let subject = |(name, kind, _)| {
        let library = format!("{name} 1.2.3");
        json!({"name": name, "kind": kind, "library": library, "runtime": "tokio", "notes": []})
    };
    let exclusion = BACKENDS.into_iter().flat_map(|backend| {
        SPEEDS.map(|(subject, ..)| {
            json!({"backend": backend, "subject": subject, "turns": 400, "overlaps": 0})
        })
    });
    let results = json!({
        "format": FORMAT,
        "made": "2026-11-22T08:00:00Z",
        "seconds": 6_423.0,
        "settings": {"rounds": 7, "smoke": false},
        "machine": {
            "processor": "A processor", "cores": 2, "memory_bytes": 8_u64 << 30, "kernel": "Linux"
        },
        "versions": {"Redis": "7.0.15"},
        "subjects": SPEEDS.map(subject),
        "missing": [{"name": "absent", "reason": "no <compiler> here"}],
        "exclusion": exclusion.collect::<Vec<_>>(),
        "cells": cells,
    });
    serde_json::from_value(results).unwrap()
}

fn cell(
    noise: &mut Noise,
    (backend, workload, at, regime): (&str, &Workload, u64, Regime),
    subject: &str,
    speed: f64,
) -> Cell {
    let value = if workload.more_is_better { 10_000.0 * speed } else { 20.0 / speed };
    let mut measures = BTreeMap::from([(workload.measure, noise.rounds(value, 7))]);
    let columns = workload.columns.iter().filter(|measure| **measure != KEEP_ALIVES);
    measures.extend(columns.map(|measure| (*measure, noise.rounds(12.0, 7))));
    let cell = json!({
        "backend": backend, "workload": workload.id, "at": at, "regime": regime,
        "subject": subject, "measures": measures,
        "distribution": [[0.0, 30.0], [0.5, 80.0], [0.99, 300.0], [1.0, 9_000.0]],
    });
    serde_json::from_value(cell).unwrap()
}

fn change(results: &mut Results, backend: &str, workload: &str, subject: &str, factor: f64) {
    let measure = Workload::of(workload).unwrap().measure;
    let cell = find(results, backend, workload, subject);
    cell.measures.get_mut(measure).unwrap().iter_mut().for_each(|round| *round *= factor);
}

/// Returns the first matching cell, which is that of one core.
fn find<'a>(
    results: &'a mut Results,
    backend: &str,
    workload: &str,
    subject: &str,
) -> &'a mut Cell {
    let is = |cell: &&mut Cell| {
        cell.backend == backend && cell.workload == workload && cell.subject == subject
    };
    results.cells.iter_mut().find(is).unwrap()
}

macro_rules! has {
    ($text:expr, $($expected:expr),+ $(,)?) => {{
        let text: &str = &$text;
        $(assert!(text.contains($expected), "no {:?} in {text}", $expected);)+
    }};
}

fn written(results: &Results) -> String {
    let folder = tempfile::tempdir().unwrap();
    let [path, pictures] =
        ["src/benchmarks.md", "src/benchmarks"].map(|name| folder.path().join(name));
    fs::create_dir_all(&pictures).unwrap();
    fs::write(pictures.join("tasks-growth.svg"), "of an earlier run").unwrap();
    fs::write(pictures.join("own.svg"), "<svg></svg>").unwrap();
    write(results, &folder.path().join("results.json"), &path, &pictures, Extent::Full).unwrap();
    let page = fs::read_to_string(&path).unwrap();
    let mut there: Vec<PathBuf> =
        fs::read_dir(&pictures).unwrap().map(|entry| entry.unwrap().path()).collect();
    there.retain(|path| !path.ends_with("own.svg"));
    there.sort();
    let targets = page.split("](benchmarks/").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next());
    let mut shown: Vec<PathBuf> = targets.map(|target| pictures.join(target)).collect();
    shown.sort();
    assert_eq!(there, shown, "pictures there, and pictures shown");
    let pictures = there.iter().map(|path| fs::read_to_string(path).unwrap());
    for text in pictures.chain([page.clone()]) {
        for bad in ["NaN", "inf ", ">inf", "\"inf", "(inf", " inf", "Infinity"] {
            assert!(!text.contains(bad), "{bad} in {text}");
        }
    }
    page
}

fn part(page: &str, heading: &str) -> String {
    let start =
        page.find(&format!("\n## {heading}")).unwrap_or_else(|| panic!("no {heading:?} in {page}"));
    let rest = &page[start + 4..];
    let text = &rest[..rest.find("\n## ").unwrap_or(rest.len())];
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const BEHIND: &str = "Where Lockwright is slower than a peer";
const FAR: &str = "Where Lockwright is far from the baseline";
const BEATEN: &str = "Where a baseline was beaten";

#[test]
fn keep_alives_are_not_commands() {
    let mut noise = Noise(0x5eed);
    let workload = Workload::of("waiting").unwrap();
    let mut with = |commands: f64, alive: f64| {
        let mut cell = cell(&mut noise, ("zookeeper", workload, 0, Regime::OneCore), "x", 1.0);
        cell.measures.insert(workload.measure.to_owned(), vec![commands]);
        cell.measures.insert(KEEP_ALIVES.to_owned(), vec![alive]);
        cell
    };
    let (chatty, quiet) = (with(30.0, 20.0), with(5.0, 0.0));
    assert_eq!(spread(&chatty, workload.measure).unwrap().median, 10.0);
    assert_eq!(against(&chatty, &quiet).unwrap().ratio.median, 2.0);
}

#[test]
fn a_faster_peer_stands_first_with_its_ratio() {
    let mut results = run();
    change(&mut results, "redis", "pairs", "quick", 1.5);
    let page = written(&results);
    assert!(
        page.starts_with("# Benchmarks\n\n## Where Lockwright is slower than a peer"),
        "{page}"
    );
    let first = part(&page, BEHIND);
    let first = first.split(" - **").nth(1).unwrap();
    assert!(
        first.starts_with("redis** · Uncontended: acquire and release - one core: "),
        "{first}"
    );
    has!(first, "of quick's 13.", "**0.5");
    assert!(!first.contains("of slow's"), "{first}");
}

#[test]
fn nothing_is_reported_of_what_is_noise() {
    let mut results = run();
    results.cells.retain(|cell| cell.subject != "quick");
    let page = written(&results);
    has!(part(&page, BEHIND), "Nowhere, in 78 comparisons with peers: Lockwright is ahead in 78");
    assert!(part(&page, BEATEN).contains("No subject was better"), "{}", part(&page, BEATEN));
    // The peer is slower in one of seven rounds.
    let mut results = run();
    results.cells.retain(|cell| cell.workload == "pairs" && cell.backend == "redis");
    find(&mut results, "redis", "pairs", "quick").measures.get_mut("pairs_per_second").unwrap()
        [3] = 1.0;
    let text = part(&written(&results), BEHIND);
    has!(text, "In 1 of 4 comparisons", "1 are within the noise");
    assert!(text.contains("two cores: ") && !text.contains("one core: "), "{text}");
}

#[test]
fn the_baseline_is_far_or_beaten() {
    let mut results = run();
    has!(part(&written(&results), FAR), "Nowhere, in 78 comparisons");
    change(&mut results, "etcd", "pairs", "lockwright", 0.5);
    change(&mut results, "redis", "tasks", "quick", 2.0);
    let page = written(&results);
    has!(part(&page, FAR), "In 1 of 78 comparisons");
    has!(part(&page, BEATEN), "In 1 comparisons, a subject was better");
}

#[test]
fn missing_and_faulty_subjects_and_a_smoke_run_are_named() {
    let mut results = run();
    results.exclusion[3].overlaps = 7;
    results.exclusion[7].error = Some("it hangs".to_owned());
    results.settings.smoke = true;
    let page = written(&results);
    assert!(page.starts_with("# Benchmarks\n\n**This was a smoke run"), "{page}");
    has!(page, "- **absent**: no \\<compiler\\> here\n");
    let text = part(&page, "Checks of mutual exclusion");
    has!(text, "- **slow on memory**: 7 of 400 turns began before another turn");
    has!(text, "- **slow on redis**: it hangs");
    has!(part(&page, "Subjects"), "| lockwright | Lockwright | lockwright 1.2.3");
}

#[test]
fn the_tables_have_the_baseline_first_then_ours_then_peers_by_speed() {
    let mut results = run();
    results.cells.reverse();
    let page = written(&results);
    let table = part(&page, "Uncontended: acquire and release");
    let position = |name: &str| table.find(name).unwrap_or_else(|| panic!("no {name} in {table}"));
    let order =
        ["| etcd | baseline | ", "| **lockwright** | ", "| quick | ", "| slow | "].map(position);
    assert!(order.is_sorted(), "{table}");
    has!(table, "| backend | subject | two cores / one core: pairs per second |");
    has!(table, "k/s · 0.70 (0.6", "p99 | client CPU per pair");
    let growth = part(&page, "Growth with waiters");
    has!(growth, "| two cores / one core: 10 | 1k |");
    assert!(page.lines().all(|line| line.chars().count() < 250));
}

#[test]
fn any_subset_has_its_page() {
    let all = run();
    let mut subsets: Vec<Results> = Vec::new();
    let mut keep = |which: &dyn Fn(&Cell) -> bool| {
        let mut subset = all.clone();
        subset.cells.retain(|cell| which(cell));
        subsets.push(subset);
    };
    keep(&|_| false);
    keep(&|cell| cell.subject == "lockwright");
    keep(&|cell| cell.subject != "baseline");
    keep(&|cell| cell.subject != "lockwright");
    keep(&|cell| cell.regime == Regime::OneCore && cell.backend == "etcd");
    for workload in WORKLOADS {
        keep(&|cell| cell.workload == workload.id && cell.at < 100);
    }
    let mut nothing = all.clone();
    (nothing.subjects, nothing.exclusion, nothing.missing) = (vec![], vec![], vec![]);
    nothing.settings.rounds = 1;
    subsets.push(nothing);
    for (index, figures) in
        [vec![0.0; 7], vec![], vec![f64::NAN; 7], vec![5.0]].into_iter().enumerate()
    {
        for who in ["baseline", "lockwright", ""] {
            let mut odd = all.clone();
            odd.cells
                .retain(|cell| ["pairs", "waiting", "renewal"].contains(&cell.workload.as_str()));
            for cell in odd.cells.iter_mut().filter(|cell| cell.subject.contains(who)) {
                cell.measures.values_mut().for_each(|rounds| rounds.clone_from(&figures));
                if index == 1 {
                    cell.measures.clear();
                    cell.distribution.clear();
                    cell.note = Some("it failed: | [x](y)".to_owned());
                }
            }
            subsets.push(odd);
        }
    }
    for subset in &subsets {
        written(subset);
        let text = compare::text(subset, subset, true);
        has!(text, "Nothing changed beyond the noise");
        assert!(!compare::text(&all, subset, true).contains("NaN"));
    }
}

#[test]
fn a_run_is_the_same_as_itself_and_one_slower_cell_is_seen() {
    let before = run();
    let text = compare::text(&before, &before, true);
    has!(text, "Nothing changed beyond the noise, in 312 cells");
    let mut after = before.clone();
    change(&mut after, "redis", "hand-over", "lockwright", 0.7);
    let text = compare::text(&before, &after, false);
    let lines: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(
        lines[0],
        "Of 78 cells of Lockwright in both runs, by more than the noise: 1 worse, 0 better."
    );
    assert_eq!(lines[2], "Worse, the worst first:");
    assert!(lines[3].starts_with("  redis, hand-over, one core: lockwright: 0.69 → 0.4"), "{text}");
    assert!(lines[3].contains(" of the baseline, -30 % (") && lines.len() == 4, "{text}");
    let back = compare::text(&after, &before, false);
    has!(back, "Better, the best first:", ", +43 % (");
}

#[test]
fn a_slower_machine_is_no_change_and_others_are_asked_for() {
    let before = run();
    let mut after = before.clone();
    for cell in &mut after.cells {
        cell.measures.values_mut().flatten().for_each(|figure| *figure *= 0.5);
    }
    after.machine.processor = "Another one".to_owned();
    let text = compare::text(&before, &after, false);
    has!(text, "Nothing of Lockwright changed");
    has!(text, "Another machine: A processor with 2 cores");
    // The baseline has no ratio to itself, so its figures are compared.
    let text = compare::text(&before, &after, true);
    has!(text, "memory, pairs, one core: baseline: ", "/s, -50 % (no baseline");
    assert!(!text.contains(": quick: "), "{text}");
}

#[test]
fn differences_between_runs_are_reported() {
    let before = run();
    let mut after = before.clone();
    after.cells.retain(|cell| !(cell.backend == "etcd" && cell.workload == "tasks"));
    after.settings = Settings { rounds: 3, smoke: true };
    after.versions.insert("Redis".to_owned(), "8.0".to_owned());
    let text = compare::text(&before, &after, false);
    for expected in [
        "Only in the old run:\n  etcd, tasks, one core: lockwright\n  etcd, tasks, two cores: lockwright\n",
        "Another number of rounds: 7, now 3.",
        "The new run was a smoke run",
        "Another version of Redis: 7.0.15, now 8.0.",
    ] {
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
    assert!(!text.contains("Only in the new run"));
    has!(compare::text(&after, &before, false), "Only in the new run:\n  etcd, tasks, one");
}

#[test]
fn unreadable_file_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.json");
    let problem = |text: &str| {
        fs::write(&path, text).unwrap();
        read(&path).unwrap_err().to_string()
    };
    let whole = serde_json::to_string(&run()).unwrap();
    has!(problem("{"), "results.json: not JSON");
    has!(problem("{}"), "name a results.json");
    has!(problem("{\"format\": 99}"), "format 99, and this program reads format 2: measure again");
    has!(problem("{\"format\": 2}"), "measure again");
    fs::write(&path, whole).unwrap();
    assert_eq!(read(&path).unwrap(), run());
    fs::remove_file(&path).unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("results.json: "));
}

fn docs(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/src", path].iter().collect()
}

#[test]
fn page_and_pictures_are_made_from_the_results() {
    let made = tempfile::tempdir().unwrap();
    let (json, page) = (docs("benchmarks/results.json"), made.path().join("benchmarks.md"));
    let pictures = made.path().join("benchmarks");
    write(&read(&json).unwrap(), &json, &page, &pictures, Extent::Summary).unwrap();
    let remedy = "`cargo xtask bench report docs/src/benchmarks/results.json` makes it again";
    let is_same = |is: PathBuf, made: PathBuf| {
        let made = fs::read_to_string(made);
        let same = made.is_ok_and(|made| made == fs::read_to_string(&is).unwrap());
        assert!(same, "{}: {remedy}", is.display());
    };
    is_same(docs("benchmarks.md"), page);
    for picture in fs::read_dir(docs("benchmarks")).unwrap().map(|entry| entry.unwrap().path()) {
        if picture.extension().is_some_and(|extension| extension == "svg") {
            let made = pictures.join(picture.file_name().unwrap());
            is_same(picture, made);
        }
    }
}
