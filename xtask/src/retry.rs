//! Selects failed tests to retry.
//!
//! A test that only *timed out* is run once more, alone: a shared machine may stop for seconds. A
//! test that reports something *wrong* has failed.

use crate::libtest::{PANICKED, Suite};

/// The prefix of a conformance case's time-out.
const CASE_TIMED_OUT: &str = "late: ";
const CASE_WAITED: &str = "it was not done after ";

/// Texts of time-outs in errors without an answer, the testbed and the standard library.
const TIMEOUT_WORDS: &[&str] = &[
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

/// More aren't a brief delay.
const MAX_RETRIES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retry {
    pub(crate) test: String,
    pub(crate) why: String,
}

pub(crate) fn tests(suite: &Suite) -> Option<Vec<Retry>> {
    let failures = suite.failures();
    let all = suite.finished && failures.len() as u64 == suite.counts.failed;
    if !all || failures.is_empty() || failures.len() > MAX_RETRIES {
        return None;
    }
    failures
        .into_iter()
        .map(|(test, said)| {
            let why = if suite.is_conformance() { of_a_case(&said)? } else { of_panics(&said)? };
            Some(Retry { test, why: why.trim().to_owned() })
        })
        .collect()
}

fn of_a_case(said: &[String]) -> Option<&String> {
    said.iter().find(|line| line.contains(CASE_TIMED_OUT) || line.contains(CASE_WAITED))
}

/// Returns the first time-out, if each panic has one: another thread's panic may be the cause.
/// Earlier output and expected values don't count.
fn of_panics(said: &[String]) -> Option<&String> {
    let is_beginning = |line: &String| line.contains(PANICKED);
    let first = said.iter().position(is_beginning)?;
    let mut why = None;
    for panic in said[first + 1..].split(is_beginning) {
        let is_expected =
            |line: &str| line.starts_with(" right: ") || line.starts_with("assertion failed: ");
        why = panic.iter().find(|line| {
            !is_expected(line) && TIMEOUT_WORDS.iter().any(|word| line.contains(word))
        });
        why?;
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtest::Reader;

    fn retries(text: &str) -> Option<Vec<Retry>> {
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
    fn tests_that_report_a_timeout_are_retried() {
        let retries =
            retries(&SUITE.replace("WHY", "it goes on: it was not done after 120s")).unwrap();
        let [one, two] = retries.as_slice() else { panic!("{retries:?}") };
        assert_eq!((one.test.as_str(), two.test.as_str()), ("a::b", "a::c"));
        assert!(one.why.contains("(Unavailable)") && two.why.ends_with("after 120s"));
    }

    #[test]
    fn one_wrong_test_prevents_all_retries() {
        assert_eq!(retries(&SUITE.replace("WHY", "two at once held \"x\"")), None);
        assert_eq!(retries(&SUITE.replace("WHY", "")), None, "it says nothing");
        let other = "a break is told: it ended as Lost(Expired) (a.rs:1)";
        assert_eq!(
            retries(&SUITE.replace("WHY", other)),
            None,
            "for another reason than it should"
        );
        assert!(retries(&SUITE.replace("WHY", "it goes on: late: it took 7s (a.rs:1)")).is_some());
    }

    fn printed(text: &str) -> String {
        format!(
            "running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n{text}\n\n\
             failures:\n    a\n\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"
        )
    }

    /// The last line is the backtrace's.
    fn panic(said: &str) -> String {
        format!(
            "\nthread 'a' (7) panicked at tests/a.rs:1:1:\n{said}\nstack backtrace:\n   \
             0: <tokio::time::timeout::Elapsed as Future>::poll\n"
        )
    }

    const NO_ANSWER: &str = "called `Result::unwrap()` on an `Err` value: Elapsed(())";

    #[test]
    fn backtrace_is_not_a_message() {
        assert_eq!(retries(&printed(&panic("assertion failed: held == 1"))), None);
        assert!(retries(&printed(&panic(NO_ANSWER))).is_some());
    }

    #[test]
    fn expected_values_and_output_are_ignored() {
        let answers = |left, right| {
            panic(&format!("assertion `left == right` failed\n  left: {left}\n right: {right}"))
        };
        assert_eq!(retries(&printed(&answers("Renewed", "Indeterminate"))), None);
        assert!(retries(&printed(&answers("Indeterminate", "Renewed"))).is_some());
        let expected = "assertion failed: matches!(error.kind(), ErrorKind::Unavailable)";
        assert_eq!(retries(&printed(&panic(expected))), None);
        let fences = panic("assertion failed: next > fence");
        assert_eq!(retries(&printed(&format!("it was Lost(SessionEnded)\n{fences}"))), None);
    }

    #[test]
    fn each_threads_panic_counts() {
        let other = panic("two held it");
        assert_eq!(retries(&printed(&format!("{other}{}", panic(NO_ANSWER)))), None);
        assert_eq!(retries(&printed(&format!("{}{other}", panic(NO_ANSWER)))), None);
        assert!(retries(&printed(&format!("{}{}", panic(NO_ANSWER), panic(NO_ANSWER)))).is_some());
    }

    #[test]
    fn abort_or_silent_failure_is_not_a_timeout() {
        assert_eq!(retries("running 1 test\ntest a ... "), None);
        assert_eq!(retries("test result: ok. 3 passed; 0 failed; 0 ignored"), None);
        assert_eq!(retries("test result: FAILED. 3 passed; 1 failed; 0 ignored"), None);
    }
}
