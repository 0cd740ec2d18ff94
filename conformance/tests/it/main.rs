//! Tests of the suite's own parts, and of the pages about them.
//!
//! This command writes the picture for the history checker's page:
//! `LOCKWRIGHT_RECORD=1 cargo test -p lockwright-conformance --features paused --test it`.
#![forbid(unsafe_code)]

#[path = "../../examples/history.rs"]
mod example;
mod history;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use lockwright_conformance::cases::{all, named};
use lockwright_conformance::register::Register;
use lockwright_conformance::workload::{RemoteStore, Store};
use lockwright_core::Fence;

fn docs(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/src").join(file)
}

#[test]
fn case_names_are_unique() {
    let mut names = HashSet::new();
    all().for_each(|case| assert!(names.insert(case.name), "{}", case.name));
}

#[test]
fn page_shows_the_backend_of_the_example() {
    let page = fs::read_to_string(docs("writing-a-backend.md")).unwrap();
    let example = include_str!("../../examples/own_backend.rs");
    assert!(
        page.contains(&format!("```rust\n{example}```\n")),
        "docs/src/writing-a-backend.md doesn't show conformance/examples/own_backend.rs as it is"
    );
}

#[test]
fn page_names_cases_that_are_there() {
    let page = fs::read_to_string(docs("writing-a-backend.md")).unwrap();
    let (_, table) = page.split_once("| mistake | the case |").expect("the table of mistakes");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cases: Vec<&str> = rows.filter_map(|row| row.rsplit('`').nth(1)).collect();
    assert!(cases.len() > 30, "{} rows", cases.len());
    cases.into_iter().for_each(|case| assert!(named(case).is_some(), "there is no case {case}"));
}

#[test]
fn page_shows_the_picture_of_the_example() {
    let (file, drawn) = (docs("history-checker/run.svg"), example::picture());
    if std::env::var_os("LOCKWRIGHT_RECORD").is_some() {
        fs::write(&file, &drawn).unwrap();
    }
    let shown = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        shown == drawn,
        "{} isn't what the example draws; set LOCKWRIGHT_RECORD=1 to write it",
        file.display()
    );
    assert!(drawn.contains("A run with 1 violation"));
}

#[test]
fn page_shows_the_example() {
    let page = fs::read_to_string(docs("history-checker.md")).unwrap();
    let example = include_str!("../../examples/history.rs");
    let shown = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let shown = shown.expect("the page has a block of Rust");
    assert!(
        example.contains(shown.trim_end()),
        "docs/src/history-checker.md doesn't show a part of conformance/examples/history.rs"
    );
}

#[test]
fn a_remote_store_is_the_one_that_is_served() {
    let (here, name) = (Register::default(), "a name, \"quoted\"");
    let address = here.serve().expect("a loopback port").to_string();
    let there = RemoteStore::connect(&address).expect("it is served");
    assert!(there.write(name, Fence::new(7)).expect("an answer"));
    assert!(!there.write(name, Fence::new(6)).expect("an answer"));
    assert!(there.write("another", Fence::new(6)).expect("an answer"));
    assert_eq!((here.counts(name).accepted, here.counts(name).refused), (1, 1));
    assert_eq!(there.pick().expect("an answer"), None);
    there.leave("{\"ticket\": 1}").expect("an answer");
    there.leave("second").expect("an answer");
    assert_eq!(there.pick().expect("an answer").as_deref(), Some("{\"ticket\": 1}"));
    assert_eq!(here.pick().unwrap().as_deref(), Some("second"));
}
