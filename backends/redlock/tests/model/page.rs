//! The page that shows what came out.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::explorer::Explored;
use crate::rules::Promise;

fn text() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("../../docs/src/redlock-model.md")).expect("the page is there")
}

/// Asserts that the page has this, word for word.
pub(crate) fn has(expected: &str) {
    assert!(
        text().contains(expected),
        "docs/src/redlock-model.md does not have this, which is what came out:\n{expected}"
    );
}

/// A row of the table of what was explored.
pub(crate) fn row(title: &str, explored: &Explored<Promise>) -> String {
    let Explored { states, steps, depth, .. } = *explored;
    format!("| {title} | {} | {} | {depth} |", thousands(states), thousands(steps))
}

/// A heading, what is broken, and how.
pub(crate) fn refutation(title: &str, promise: Promise, trace: &str) -> String {
    let mut text = format!("### {title}\n\n{}\n\n```text\n", broken(promise));
    for line in trace.lines() {
        writeln!(text, "{line}").expect("a string takes all");
    }
    text + "```\n"
}

/// The trace below a heading.
pub(crate) fn trace_of(title: &str) -> String {
    let text = text();
    let section = text.split(&format!("### {title}\n")).nth(1).expect("the heading is there");
    let block = section.split("```text\n").nth(1).expect("a trace follows");
    block.split("```").next().expect("a split has a first part").to_owned()
}

pub(crate) fn broken(promise: Promise) -> &'static str {
    match promise {
        Promise::OneBelieves => "**Two believe.**",
        Promise::FencesDiffer => "**Two grants, one fence.**",
        Promise::FencesGrow => "**A later belief, a smaller fence.**",
        Promise::NothingIsLeft => "**Something is left.**",
        Promise::TheNextIsGranted => "**Nobody gets it any more.**",
    }
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
