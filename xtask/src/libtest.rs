//! Reads what test binaries print, through `cargo test`.

use std::time::Duration;

use crate::process::plain;
use crate::report::Counts;

/// One test binary, or the doc tests of one crate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suite {
    /// `lockwright_core src/lib.rs`, `lockwright_core tests/loss.rs`, `doc tests of lockwright_core`.
    pub(crate) title: String,
    pub(crate) counts: Counts,
    /// As the binary says.
    pub(crate) took: Duration,
    /// Everything it printed.
    pub(crate) lines: Vec<String>,
    /// Whether it came to its end: a binary that aborts prints no result.
    pub(crate) finished: bool,
}

impl Suite {
    pub(crate) fn ok(&self) -> bool {
        self.finished && self.counts.failed == 0
    }

    /// The counts, where a binary without a result counts as one failure.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.counts;
        if !self.finished && counts.failed == 0 {
            counts.failed = 1;
        }
        counts
    }

    /// The tests that it has and didn't run, each with its reason if it gives one.
    pub(crate) fn ignored(&self) -> impl Iterator<Item = String> {
        self.lines.iter().map(|line| plain(line)).filter_map(|line| {
            let (test, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
            Some(format!("{}{reason}", test.trim()))
        })
    }

    /// What it printed, without the tests that passed.
    pub(crate) fn complaints(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str).filter(|line| {
            let line = plain(line);
            !(line.starts_with("test ") && (line.ends_with("ok") || line.contains("... ignored")))
        })
    }
}

/// Takes the output of `cargo test` apart, line by line.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    current: Option<Suite>,
    /// The title of the suite that ended last: doc tests of one crate come as several.
    last: String,
    /// The crate whose unit tests came last: cargo runs its integration tests next, and several
    /// crates have some of the same name.
    unit: String,
}

impl Reader {
    /// Reads one line. Answers a suite when the line ends it.
    pub(crate) fn line(&mut self, raw: &str) -> Option<Suite> {
        let line = plain(raw);
        if let Some(title) = self.title(&line) {
            let aborted = self.end();
            self.current = Some(Suite { title, ..Suite::default() });
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

    /// `Running tests/loss.rs (target/debug/deps/loss-0123456789abcdef)`, `Doc-tests lockwright`.
    fn title(&mut self, line: &str) -> Option<String> {
        let line = line.trim_start();
        if let Some(name) = line.strip_prefix("Doc-tests ") {
            return Some(format!("doc tests of {name}"));
        }
        let (source, binary) =
            line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
        if let Some(source) = source.strip_prefix("unittests ") {
            let file = binary.rsplit(['/', '\\']).next()?;
            self.unit = file.rsplit_once('-').map_or(file, |(name, _hash)| name).to_owned();
            return Some(format!("{} {source}", self.unit));
        }
        Some(format!("{} {source}", self.unit))
    }

    /// The suite that never came to its end, if there is one.
    pub(crate) fn end(&mut self) -> Option<Suite> {
        self.current.take()
    }
}

/// `running 3 tests`.
fn is_beginning(line: &str) -> bool {
    line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test"))
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

    fn read(text: &str) -> (Vec<Suite>, Option<Suite>) {
        let mut reader = Reader::default();
        let suites = text.lines().filter_map(|line| reader.line(line)).collect();
        (suites, reader.end())
    }

    #[test]
    fn suites_are_told_apart_and_counted() {
        let (suites, open) = read(
            "   Compiling lockwright-core v0.1.0
     Running unittests src/lib.rs (target/debug/deps/lockwright_core-5f3c)

running 2 tests
test a ... ok
test b ... FAILED
test c    ... ignored, for later

test result: FAILED. 1 passed; 1 failed; 3 ignored; 0 measured; 2 filtered out; finished in 1.25s

error: 1 target failed:
     \u{1b}[1m\u{1b}[32mRunning\u{1b}[0m tests/loss.rs (target/debug/deps/loss-77)
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
   Doc-tests lockwright_core

running 4 tests
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.00s; merged doctests compilation took 1.00s

running 1 test
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s
",
        );
        assert_eq!(open, None);
        let titles: Vec<_> = suites.iter().map(|suite| suite.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "lockwright_core src/lib.rs",
                "lockwright_core tests/loss.rs",
                "doc tests of lockwright_core",
                "doc tests of lockwright_core",
            ]
        );
        assert_eq!(suites[2].took, Duration::from_secs(2));
        assert_eq!(suites[3].counts.passed, 1);
        assert_eq!(suites[0].counts, Counts { passed: 1, failed: 1, ignored: 3, filtered: 2 });
        assert_eq!(suites[0].took, Duration::from_millis(1250));
        assert!(!suites[0].ok() && suites[1].ok());
        assert!(suites[0].complaints().all(|line| line != "test a ... ok"));
        assert_eq!(suites[0].ignored().collect::<Vec<_>>(), ["c, for later"]);
        assert!(suites[0].complaints().any(|line| line == "test b ... FAILED"));
        assert_eq!(suites[1].counts.passed, 7);
    }

    #[test]
    fn a_binary_that_aborts_counts_as_a_failure() {
        let (suites, open) = read(
            "     Running tests/a.rs (target/debug/deps/a-1)
running 5 tests
test x ... ok
     Running tests/b.rs (target/debug/deps/b-1)
process didn't exit successfully: (signal: 6, SIGABRT: process abort signal)
",
        );
        assert_eq!(suites.len(), 1);
        assert!(!suites[0].ok());
        assert_eq!(suites[0].counts().failed, 1);
        assert_eq!(open.unwrap().counts().failed, 1);
    }
}
