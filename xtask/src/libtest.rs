//! Parses the output of tests.

use std::time::Duration;

use crate::process::plain;
use crate::report::Counts;

pub(crate) const MARK: &str = "suite: ";

pub(crate) const SERVER: &str = "server: ";

pub(crate) const PANICKED: &str = " panicked at ";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suite {
    /// `lockwright-core src/lib.rs`, `lockwright-core tests/loss.rs`, `doc tests of lockwright_core`.
    pub(crate) title: String,
    pub(crate) counts: Counts,
    pub(crate) took: Duration,
    pub(crate) lines: Vec<String>,
    /// False if it aborted.
    pub(crate) finished: bool,
}

impl Suite {
    pub(crate) fn ok(&self) -> bool {
        self.finished && self.counts.failed == 0
    }

    /// A binary without a result has at least one failure.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.counts;
        if !self.finished && counts.failed == 0 {
            counts.failed = 1;
        }
        counts
    }

    /// Notes the tests without a result, and the slow ones of them.
    pub(crate) fn note_unfinished(&mut self, listed: &[String]) {
        let lines: Vec<String> = self.lines.iter().map(|line| plain(line)).collect();
        let with_result: Vec<&str> =
            lines.iter().filter_map(|line| test_with_result(line)).collect();
        let slow: Vec<&str> = lines.iter().filter_map(|line| slow_test(line)).collect();
        let others = listed.iter().map(String::as_str).filter(|test| !slow.contains(test));
        let tests = slow.iter().copied().chain(others);
        let unfinished: Vec<&str> = tests.filter(|test| !with_result.contains(test)).collect();
        let is_slow = |test: &&str| slow.contains(test);
        let (slow, others): (Vec<&str>, Vec<&str>) = unfinished.into_iter().partition(is_slow);
        for (what, tests) in [("running for long", slow), ("without a result", others)] {
            if !tests.is_empty() {
                self.lines.push(format!("{what}: {}", tests.join(", ")));
            }
        }
    }

    pub(crate) fn ignored(&self) -> impl Iterator<Item = String> {
        self.lines.iter().map(|line| plain(line)).filter_map(|line| {
            let (test, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
            Some(format!("{}{reason}", test.trim()))
        })
    }

    /// Its column's name then ends with `title`.
    pub(crate) fn note_server(&mut self, title: &str, server: &str) {
        if let Some(at) = self.lines.iter().position(|line| plain(line).starts_with(MARK)) {
            self.lines[at] += &format!(" on {title}");
            self.lines.insert(at + 1, format!("{SERVER}{server}"));
        }
    }

    pub(crate) fn is_conformance(&self) -> bool {
        self.lines.iter().any(|line| plain(line).starts_with(MARK))
    }

    pub(crate) fn failures(&self) -> Vec<(String, Vec<String>)> {
        let mut failures: Vec<(String, Vec<String>)> = Vec::new();
        let mut speaks = false;
        for line in self.lines.iter().map(|line| plain(line)) {
            if let Some(test) = failed_test(&line) {
                failures.push((test.to_owned(), Vec::new()));
                speaks = true;
                continue;
            }
            if line == "stack backtrace:" || line == "failures:" {
                speaks = false;
            } else if line.contains(PANICKED) {
                speaks = true;
            }
            if speaks && let Some((_, said)) = failures.last_mut() {
                said.push(line);
            }
        }
        failures
    }

    pub(crate) fn complaints(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str).filter(|line| {
            let line = plain(line);
            !(line.starts_with("test ") && (line.ends_with("ok") || line.contains("... ignored")))
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Reader {
    current: Option<Suite>,
    /// A crate's doc tests may be several suites.
    last: String,
}

impl Reader {
    pub(crate) fn of(title: &str) -> Self {
        let suite = Suite { title: title.to_owned(), ..Suite::default() };
        Self { current: Some(suite), last: String::new() }
    }

    pub(crate) fn line(&mut self, raw: &str) -> Option<Suite> {
        let line = plain(raw);
        if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            let aborted = self.end();
            *self = Self::of(&format!("doc tests of {name}"));
            return aborted;
        }
        if self.current.is_none() && is_beginning(&line) && !self.last.is_empty() {
            self.current = Some(Suite { title: self.last.clone(), ..Suite::default() });
        }
        let suite = self.current.as_mut()?;
        suite.lines.push(raw.to_owned());
        let (counts, took) = result(&line)?;
        suite.counts.add(counts);
        suite.took += took;
        suite.finished = true;
        self.last.clone_from(&suite.title);
        self.current.take()
    }

    pub(crate) fn end(&mut self) -> Option<Suite> {
        self.current.take()
    }
}

fn is_beginning(line: &str) -> bool {
    line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test"))
}

/// `test a::b ... ok`.
fn test_with_result(line: &str) -> Option<&str> {
    let (test, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let test = test.trim_end();
    (!result.is_empty()).then(|| test.strip_suffix(" - should panic").unwrap_or(test))
}

/// `---- a::b stdout ----`, or without `stdout`.
fn failed_test(line: &str) -> Option<&str> {
    let test = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(test.strip_suffix(" stdout").unwrap_or(test))
}

/// `test a::b has been running for over 60 seconds`.
fn slow_test(line: &str) -> Option<&str> {
    Some(line.strip_prefix("test ")?.split_once(" has been running for over ")?.0)
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s`.
fn result(line: &str) -> Option<(Counts, Duration)> {
    let rest = line.strip_prefix("test result: ")?;
    let mut counts = Counts::default();
    let mut took = Duration::ZERO;
    for part in rest.split([';', '.']) {
        let mut words = part.split_whitespace();
        if let (Some(number), Some(word)) = (words.next(), words.next())
            && let Ok(number) = number.parse()
        {
            match word {
                "passed" => counts.passed = number,
                "failed" => counts.failed = number,
                "ignored" => counts.ignored = number,
                "filtered" => counts.filtered = number,
                _ => {}
            }
        }
    }
    for part in rest.split(';') {
        if let Some(seconds) = part.trim().strip_prefix("finished in ")
            && let Ok(seconds) = seconds.trim_end_matches('s').parse()
        {
            took = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        }
    }
    Some((counts, took))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut reader: Reader, text: &str) -> (Vec<Suite>, Option<Suite>) {
        let suites = text.lines().filter_map(|line| reader.line(line)).collect();
        (suites, reader.end())
    }

    #[test]
    fn tests_are_counted() {
        let (suites, open) = read(
            Reader::of("lockwright-core src/lib.rs"),
            "
running 2 tests
test a ... ok
test b ... FAILED
test c    ... ignored, for later

test result: FAILED. 1 passed; 1 failed; 3 ignored; 0 measured; 2 filtered out; finished in 1.25s

",
        );
        assert_eq!(open, None);
        assert_eq!(suites.len(), 1);
        assert_eq!(suites[0].title, "lockwright-core src/lib.rs");
        assert_eq!(suites[0].counts, Counts { passed: 1, failed: 1, ignored: 3, filtered: 2 });
        assert_eq!(suites[0].took, Duration::from_millis(1250));
        assert!(!suites[0].ok());
        assert!(suites[0].complaints().all(|line| line != "test a ... ok"));
        assert_eq!(suites[0].ignored().collect::<Vec<_>>(), ["c, for later"]);
        assert!(suites[0].complaints().any(|line| line == "test b ... FAILED"));
    }

    #[test]
    fn doc_tests_are_told_apart() {
        let (suites, open) = read(
            Reader::default(),
            "   Compiling lockwright-core v0.1.0
   \u{1b}[1m\u{1b}[32mDoc-tests\u{1b}[0m lockwright_core

running 4 tests
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.00s; merged doctests compilation took 1.00s

running 1 test
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s
   Doc-tests lockwright_sql
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
",
        );
        assert_eq!(open, None);
        let seen: Vec<_> =
            suites.iter().map(|suite| (suite.title.as_str(), suite.counts.passed)).collect();
        let core = "doc tests of lockwright_core";
        assert_eq!(seen, [(core, 4), (core, 1), ("doc tests of lockwright_sql", 7)]);
        assert!(suites.iter().all(Suite::ok));
        assert_eq!(suites[0].took, Duration::from_secs(2));
    }

    #[test]
    fn tests_without_a_result_are_named() {
        let (_, open) = read(
            Reader::of("x"),
            "
running 5 tests
test a ... ok
test b - should panic ... ok
test c has been running for over 60 seconds
test d has been running for over 60 seconds
test c ... ok
test e ... ",
        );
        let mut suite = open.unwrap();
        suite.note_unfinished(&["a", "b", "c", "d", "e", "f"].map(str::to_owned));
        let noted: Vec<_> =
            suite.complaints().skip_while(|line| !line.contains("e ... ")).collect();
        assert_eq!(noted, ["test e ... ", "running for long: d", "without a result: e, f"]);
    }

    #[test]
    fn what_aborts_counts_as_a_failure() {
        let (suites, open) = read(
            Reader::default(),
            "   Doc-tests a
running 5 tests
test x ... ok
   Doc-tests b
process didn't exit successfully: (signal: 6, SIGABRT: process abort signal)
",
        );
        assert_eq!(suites.len(), 1);
        assert!(!suites[0].ok());
        assert_eq!(suites[0].counts().failed, 1);
        assert_eq!(open.unwrap().counts().failed, 1);
    }
}
