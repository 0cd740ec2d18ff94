//! Tests that were late, not wrong.
//!
//! On a shared machine, a server may not answer for seconds. A test that was *late* is run once
//! more, alone, at the end. A test that reports something *wrong* (two holders, a decreasing fence,
//! an unexpected answer) has failed. Late tests are shown at once and in the summary.

use crate::libtest::{PANICKED, Suite};

/// The prefixes of a conformance case for lateness. Its other messages report what it observed.
const LATE: &str = "late: ";
const NOT_DONE: &str = "it was not done after ";

/// Words of other tests for lateness: kinds of errors without an answer, and messages of the
/// testbed and the standard library.
const WORDS: &[&str] = &[
    "Unavailable",
    "Indeterminate",
    "Unreachable",
    "TimedOut(",
    "Elapsed",
    // The client itself was delayed and couldn't renew.
    "Lost(Expired)",
    "Lost(SessionEnded)",
    "did not answer",
    "did not happen within",
    "did not end within",
];

/// The maximum number of tests to run again. More aren't a brief delay.
const MOST: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    /// Its name, for a run by itself.
    pub(crate) test: String,
    /// The line that reports the lateness.
    pub(crate) why: String,
}

/// Returns the late tests of a binary, if it has no other failures.
pub(crate) fn tests(suite: &Suite) -> Option<Vec<Late>> {
    let failures = suite.failures();
    let all = suite.finished && failures.len() as u64 == suite.counts.failed;
    if !all || failures.is_empty() || failures.len() > MOST {
        return None;
    }
    failures
        .into_iter()
        .map(|(test, said)| {
            let why = if suite.is_conformance() { of_a_case(&said)? } else { of_panics(&said)? };
            Some(Late { test, why: why.trim().to_owned() })
        })
        .collect()
}

fn of_a_case(said: &[String]) -> Option<&String> {
    said.iter().find(|line| line.contains(LATE) || line.contains(NOT_DONE))
}

/// Returns the first report of lateness if each panic has one, as another thread's panic may be the
/// cause. Earlier output and expected values don't count.
fn of_panics(said: &[String]) -> Option<&String> {
    let is_beginning = |line: &String| line.contains(PANICKED);
    let first = said.iter().position(is_beginning)?;
    let mut why = None;
    for panic in said[first + 1..].split(is_beginning) {
        let is_expected =
            |line: &str| line.starts_with(" right: ") || line.starts_with("assertion failed: ");
        why = panic
            .iter()
            .find(|line| !is_expected(line) && WORDS.iter().any(|word| line.contains(word)));
        why?;
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtest::Reader;

    fn late(text: &str) -> Option<Vec<Late>> {
        let mut reader = Reader::of("x");
        let suite = text.lines().find_map(|line| reader.line(line));
        tests(&suite.or_else(|| reader.end())?)
    }

    const SUITE: &str = "suite: etcd-3.4

running 3 tests
test a::b ... FAILED
test a::c ... FAILED
test a::d ... ok

failures:

---- a::b ----
a name is free again: late: etcd: http://127.0.0.1:1 did not answer within 1s (Unavailable) (context.rs:145)

---- a::c ----
WHY


failures:
    a::b
    a::c

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    #[test]
    fn who_says_late_was_late() {
        let late = late(&SUITE.replace("WHY", "it goes on: it was not done after 120s")).unwrap();
        let [one, two] = late.as_slice() else { panic!("{late:?}") };
        assert_eq!((one.test.as_str(), two.test.as_str()), ("a::b", "a::c"));
        assert!(one.why.contains("(Unavailable)") && two.why.ends_with("after 120s"));
    }

    #[test]
    fn one_that_is_wrong_is_enough_for_the_binary_to_have_failed() {
        assert_eq!(late(&SUITE.replace("WHY", "two at once held \"x\"")), None);
        assert_eq!(late(&SUITE.replace("WHY", "")), None, "it says nothing");
        let other = "a break is told: it ended as Lost(Expired) (a.rs:1)";
        assert_eq!(late(&SUITE.replace("WHY", other)), None, "for another reason than it should");
        assert!(late(&SUITE.replace("WHY", "it goes on: late: it took 7s (a.rs:1)")).is_some());
    }

    fn printed(text: &str) -> String {
        format!(
            "running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n{text}\n\n\
             failures:\n    a\n\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"
        )
    }

    /// The last line belongs to the backtrace.
    fn panic(said: &str) -> String {
        format!(
            "\nthread 'a' (7) panicked at tests/a.rs:1:1:\n{said}\nstack backtrace:\n   \
             0: <tokio::time::timeout::Elapsed as Future>::poll\n"
        )
    }

    const NO_ANSWER: &str = "called `Result::unwrap()` on an `Err` value: Elapsed(())";

    #[test]
    fn what_stands_in_a_backtrace_is_not_what_a_test_says() {
        assert_eq!(late(&printed(&panic("assertion failed: held == 1"))), None);
        assert!(late(&printed(&panic(NO_ANSWER))).is_some());
    }

    #[test]
    fn what_was_expected_or_printed_is_not_what_came() {
        let answers = |left, right| {
            panic(&format!("assertion `left == right` failed\n  left: {left}\n right: {right}"))
        };
        assert_eq!(late(&printed(&answers("Renewed", "Indeterminate"))), None);
        assert!(late(&printed(&answers("Indeterminate", "Renewed"))).is_some());
        let expected = "assertion failed: matches!(error.kind(), ErrorKind::Unavailable)";
        assert_eq!(late(&printed(&panic(expected))), None);
        let fences = panic("assertion failed: next > fence");
        assert_eq!(late(&printed(&format!("it was Lost(SessionEnded)\n{fences}"))), None);
    }

    #[test]
    fn another_threads_panic_counts_too() {
        let other = panic("two held it");
        assert_eq!(late(&printed(&format!("{other}{}", panic(NO_ANSWER)))), None);
        assert_eq!(late(&printed(&format!("{}{other}", panic(NO_ANSWER)))), None);
        assert!(late(&printed(&format!("{}{}", panic(NO_ANSWER), panic(NO_ANSWER)))).is_some());
    }

    #[test]
    fn what_aborts_or_fails_without_a_word_is_no_matter_of_time() {
        assert_eq!(late("running 1 test\ntest a ... "), None);
        assert_eq!(late("test result: ok. 3 passed; 0 failed; 0 ignored"), None);
        assert_eq!(late("test result: FAILED. 3 passed; 1 failed; 0 ignored"), None);
    }
}
