use std::fmt::{Debug, Write};
use std::fs;
use std::path::PathBuf;

use crate::Explored;

/// A documentation page that contains a model's results word for word.
#[derive(Debug)]
pub struct Page {
    file: PathBuf,
}

impl Page {
    /// Returns the page in `file`.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }

    fn text(&self) -> String {
        let file = self.file.display();
        fs::read_to_string(&self.file).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Checks that the page contains `expected`.
    pub fn has(&self, expected: &str) {
        assert!(
            self.text().contains(expected),
            "{} does not contain this result:\n{expected}",
            self.file.display()
        );
    }

    /// Returns the trace below a heading.
    pub fn trace_of(&self, title: &str) -> String {
        let text = self.text();
        let section =
            text.split(&format!("### {title}\n")).nth(1).expect("the page has the heading");
        let block = section.split("```text\n").nth(1).expect("the heading has a trace");
        block.split("```").next().expect("a split has a first part").to_owned()
    }

    /// Returns a table row: states, steps, depth.
    pub fn row<Promise: Debug>(title: &str, explored: &Explored<Promise>) -> String {
        let Explored { states, steps, depth, .. } = *explored;
        format!("| {title} | {} | {} | {depth} |", thousands(states), thousands(steps))
    }

    /// Returns a section: heading, broken promise, trace.
    pub fn refutation(title: &str, broken: &str, trace: &str) -> String {
        let mut text = format!("### {title}\n\n**{broken}.**\n\n```text\n");
        for line in trace.lines() {
            writeln!(text, "{line}").expect("writing to a String succeeds");
        }
        text + "```\n"
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
