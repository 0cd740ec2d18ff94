use std::time::Duration;

use crate::report::Counts;

pub(crate) const MARK: &str = "suite: ";

pub(crate) const SERVER: &str = "server: ";

pub(crate) const PANICKED: &str = " panicked at ";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suite {
    /// For example, `lockwright-core src/lib.rs` or `doc tests of lockwright_core`.
    pub(crate) title: String,
    pub(crate) counts: Counts,
    pub(crate) took: Duration,
    pub(crate) lines: Vec<String>,
    /// False if the test binary aborted.
    pub(crate) finished: bool,
}

impl Suite {
    pub(crate) fn of(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    pub(crate) fn ok(&self) -> bool {
        self.finished && self.counts.failed == 0
    }

    /// Counts at least one failure if the test binary aborted.
    pub(crate) fn counts(&self) -> Counts {
        let least = u64::from(!self.finished);
        Counts { failed: self.counts.failed.max(least), ..self.counts }
    }

    pub(crate) fn note_unfinished(&mut self, listed: &[String]) {
        let has_result = |test: &&str| self.lines.iter().any(|line| is_result_of(line, test));
        let slow = self.lines.iter().filter_map(|line| slow_test(line));
        let slow: Vec<&str> = slow.filter(|test| !has_result(test)).collect();
        let others = listed.iter().map(String::as_str).filter(|test| !has_result(test));
        let others: Vec<&str> = others.filter(|test| !slow.contains(test)).collect();
        let notes = [("running for long", slow), ("without a result", others)];
        let notes = notes.into_iter().filter(|(_, tests)| !tests.is_empty());
        let notes: Vec<_> =
            notes.map(|(what, tests)| format!("{what}: {}", tests.join(", "))).collect();
        self.lines.extend(notes);
    }

    pub(crate) fn ignored(&self) -> impl Iterator<Item = String> {
        self.lines.iter().filter_map(|line| {
            let (test, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
            Some(format!("{}{reason}", test.trim()))
        })
    }

    pub(crate) fn note_server(&mut self, title: &str, server: &str) {
        if let Some(at) = self.lines.iter().position(|line| line.starts_with(MARK)) {
            self.lines[at] += &format!(" on {title}");
            self.lines.insert(at + 1, format!("{SERVER}{server}"));
        }
    }

    pub(crate) fn is_conformance(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with(MARK))
    }

    pub(crate) fn failures(&self) -> Vec<(&str, Vec<&str>)> {
        let mut failures: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut speaks = false;
        for line in self.lines.iter().map(String::as_str) {
            if let Some(test) = failed_test(line) {
                failures.push((test, Vec::new()));
                speaks = true;
                continue;
            }
            if ["stack backtrace:", "failures:"].contains(&line) {
                speaks = false;
            }
            speaks |= line.contains(PANICKED);
            if speaks && let Some((_, said)) = failures.last_mut() {
                said.push(line);
            }
        }
        failures
    }

    pub(crate) fn complaints(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str).filter(|line| {
            !(line.starts_with("test ") && (line.ends_with("ok") || line.contains("... ignored")))
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Reader {
    current: Option<Suite>,
    /// The previous suite's title: several suites of a crate's doc tests share one.
    last: String,
}

impl Reader {
    pub(crate) fn of(title: &str) -> Self {
        Self { current: Some(Suite::of(title)), last: String::new() }
    }

    pub(crate) fn line(&mut self, line: &str) -> Option<Suite> {
        if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            return self.current.replace(Suite::of(&format!("doc tests of {name}")));
        }
        let begins = line.starts_with("running ") && !self.last.is_empty();
        if self.current.is_none() && begins {
            self.current = Some(Suite::of(&self.last));
        }
        let suite = self.current.as_mut()?;
        suite.lines.push(line.to_owned());
        (suite.counts, suite.took) = result(line)?;
        suite.finished = true;
        self.last.clone_from(&suite.title);
        self.current.take()
    }

    pub(crate) fn end(&mut self) -> Option<Suite> {
        self.current.take()
    }
}

/// Parses `test a::b ... ok`, `test a::b - should panic ... ok`. An aborted test has no result.
fn is_result_of(line: &str, test: &str) -> bool {
    let result = line.strip_prefix("test ").and_then(|rest| rest.strip_prefix(test));
    let result = result.map(|rest| rest.strip_prefix(" - should panic").unwrap_or(rest));
    result.is_some_and(|rest| rest.trim_start().starts_with("... ") && !rest.ends_with("... "))
}

fn slow_test(line: &str) -> Option<&str> {
    Some(line.strip_prefix("test ")?.split_once(" has been running for over ")?.0)
}

fn failed_test(line: &str) -> Option<&str> {
    let test = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(test.strip_suffix(" stdout").unwrap_or(test))
}

/// Parses `test result: ok. 3 passed; 0 failed; 1 ignored; …; finished in 0.10s`.
fn result(line: &str) -> Option<(Counts, Duration)> {
    let words: Vec<&str> = line.strip_prefix("test result: ")?.split([' ', ';']).collect();
    let before = |word: &str| {
        let at = words.iter().position(|other| *other == word)?;
        words[at.checked_sub(1)?].parse().ok()
    };
    let count = |word| before(word).unwrap_or_default();
    let counts = Counts {
        passed: count("passed"),
        failed: count("failed"),
        ignored: count("ignored"),
        filtered: count("filtered"),
    };
    let seconds = line.split_once("finished in ").and_then(|(_, rest)| rest.split_once('s'));
    let took =
        seconds.and_then(|(seconds, _)| Duration::try_from_secs_f64(seconds.parse().ok()?).ok());
    Some((counts, took.unwrap_or_default()))
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
        let text = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\
                    test c    ... ignored, for later\n\ntest result: FAILED. 1 passed; 1 failed; \
                    3 ignored; 0 measured; 2 filtered out; finished in 1.25s\n";
        let (suites, open) = read(Reader::of("lockwright-core src/lib.rs"), text);
        let [suite] = suites.as_slice() else { panic!("{suites:?}") };
        assert_eq!((open, suite.title.as_str()), (None, "lockwright-core src/lib.rs"));
        assert_eq!(suite.counts, Counts { passed: 1, failed: 1, ignored: 3, filtered: 2 });
        assert_eq!((suite.took, suite.ok()), (Duration::from_millis(1250), false));
        assert_eq!(suite.ignored().collect::<Vec<_>>(), ["c, for later"]);
        let complaints: Vec<&str> = suite.complaints().collect();
        assert!(!complaints.contains(&"test a ... ok"), "{complaints:?}");
        assert!(complaints.contains(&"test b ... FAILED"), "{complaints:?}");
    }

    #[test]
    fn doc_tests_are_distinct() {
        const RESULT: &str = "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 2.00s; merged doctests compilation took 1.00s\n";
        let text = format!(
            "   Compiling lockwright-core v0.1.0\n   Doc-tests lockwright_core\n\n\
             running 4 tests\n{RESULT}\nrunning 1 test\n{RESULT}   Doc-tests lockwright_sql\n{RESULT}"
        );
        let (suites, open) = read(Reader::default(), &text);
        let titles: Vec<_> = suites.iter().map(|suite| suite.title.as_str()).collect();
        let core = "doc tests of lockwright_core";
        assert_eq!((titles, open), (vec![core, core, "doc tests of lockwright_sql"], None));
        assert!(suites.iter().all(|suite| suite.ok() && suite.counts.passed == 4));
        assert_eq!(suites[0].took, Duration::from_secs(2));
    }

    #[test]
    fn tests_without_a_result_are_named() {
        let text = "running 5 tests\ntest a ... ok\ntest b - should panic ... ok\n\
                    test c has been running for over 60 seconds\n\
                    test d has been running for over 60 seconds\ntest c ... ok\ntest e ... ";
        let mut suite = read(Reader::of("x"), text).1.unwrap();
        suite.note_unfinished(&["a", "b", "c", "d", "e", "f"].map(str::to_owned));
        let noted = &suite.lines[suite.lines.len() - 3..];
        assert_eq!(noted, ["test e ... ", "running for long: d", "without a result: e, f"]);
    }

    #[test]
    fn aborted_binary_counts_as_a_failure() {
        let text = "   Doc-tests a\nrunning 5 tests\ntest x ... ok\n   Doc-tests b\n\
                    process didn't exit successfully: (signal: 6, SIGABRT: process abort signal)\n";
        let (suites, open) = read(Reader::default(), text);
        let [suite] = suites.as_slice() else { panic!("{suites:?}") };
        assert_eq!((suite.ok(), suite.counts().failed), (false, 1));
        assert_eq!(open.unwrap().counts().failed, 1);
    }
}
