//! Tests that the page about the history checker shows the example and its picture.
//!
//! This command writes the picture:
//! `LOCKWRIGHT_RECORD=1 cargo test -p lockwright-conformance --features paused --test it`.
use std::fs;
use std::path::PathBuf;

#[path = "../../examples/history.rs"]
mod example;

fn docs(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/src").join(file)
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
