//! Selects failed tests to retry: see "Late tests" in `CONTRIBUTING.md`. A shared machine may stall
//! for seconds.

use crate::libtest::{PANICKED, Suite};

const LATE: &str = "late: ";
const CASE_WAITED: &str = "it was not done after ";

/// Texts that report a time-out, from errors, the testbed and the standard library.
const TIMEOUT_WORDS: &[&str] = &[
    LATE,
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
    let why = if suite.is_conformance() { of_a_case } else { of_panics };
    let retry = |(test, said): (&str, Vec<&str>)| {
        Some(Retry { test: test.to_owned(), why: why(&said)?.trim().to_owned() })
    };
    failures.into_iter().map(retry).collect()
}

fn of_a_case<'a>(said: &[&'a str]) -> Option<&'a str> {
    said.iter().copied().find(|line| line.contains(LATE) || line.contains(CASE_WAITED))
}

/// Returns the first panic's line about a time-out, or `None` if any panic lacks one: it may report
/// a wrong result.
fn of_panics<'a>(said: &[&'a str]) -> Option<&'a str> {
    let mut panics = said.split(|line| line.contains(PANICKED)).skip(1);
    let why = |panic: &[&'a str]| {
        panic.iter().copied().find(|line| {
            !line.starts_with(" right: ")
                && !line.starts_with("assertion failed: ")
                && TIMEOUT_WORDS.iter().any(|word| line.contains(word))
        })
    };
    let first = why(panics.next()?)?;
    panics.all(|panic| why(panic).is_some()).then_some(first)
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

    fn of_cases(said: &str) -> Option<Vec<Retry>> {
        retries(&format!(
            "suite: etcd-3.4\nrunning 2 tests\ntest a::b ... FAILED\ntest a::c ... FAILED\n\n\
             ---- a::b ----\na name is free again: late: etcd did not answer (Unavailable)\n\n\
             ---- a::c ----\n{said}\n\nfailures:\n    a::b\n    a::c\n\n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored\n"
        ))
    }

    #[test]
    fn cases_that_report_a_timeout_are_retried() {
        let retries = of_cases("it goes on: it was not done after 120s").unwrap();
        let [one, two] = retries.as_slice() else { panic!("{retries:?}") };
        assert_eq!((one.test.as_str(), two.test.as_str()), ("a::b", "a::c"));
        assert!(one.why.contains("(Unavailable)") && two.why.ends_with("after 120s"));
        assert!(of_cases("it goes on: late: it took 7s (a.rs:1)").is_some());
    }

    #[test]
    fn one_wrong_case_prevents_all_retries() {
        for said in ["two at once held \"x\"", "", "a break is told: it ended as Lost(Expired)"] {
            assert_eq!(of_cases(said), None, "{said}");
        }
    }

    fn of_test(said: &[&str]) -> Option<Vec<Retry>> {
        retries(&format!(
            "running 1 test\ntest a ... FAILED\n\n---- a stdout ----\n{}\n\nfailures:\n    a\n\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored\n",
            said.join("\n")
        ))
    }

    fn panic(said: &str) -> String {
        format!(
            "\nthread 'a' (7) panicked at tests/a.rs:1:1:\n{said}\nstack backtrace:\n   \
             0: <tokio::time::timeout::Elapsed as Future>::poll"
        )
    }

    const ANSWERS: &str = "assertion `left == right` failed\n  left: A\n right: B";

    #[test]
    fn each_panic_must_report_a_timeout() {
        let timeout = panic("called `Result::unwrap()` on an `Err` value: Elapsed(())");
        let lost = panic("TTL 1s: x: the hold was lost (Lost(Unreachable)) after 541ms");
        let answers = |a, b| panic(&ANSWERS.replace('A', a).replace('B', b));
        let wrong = panic("two held it");
        let answered = answers("Indeterminate", "x");
        for said in [&[&*timeout][..], &[&timeout, &lost], &[&answered]] {
            assert!(of_test(said).is_some(), "{said:?}");
        }
        for said in [
            &[&*panic("assertion failed: held == 1")][..],
            &[&answers("Renewed", "Indeterminate")],
            &[&panic("assertion failed: matches!(error.kind(), ErrorKind::Unavailable)")],
            &["it was Lost(SessionEnded)", &panic("assertion failed: next > fence")],
            &[&wrong, &timeout],
            &[&timeout, &wrong],
        ] {
            assert_eq!(of_test(said), None, "{said:?}");
        }
    }

    #[test]
    fn abort_or_silent_failure_is_not_a_timeout() {
        assert_eq!(retries("running 1 test\ntest a ... "), None);
        assert_eq!(retries("test result: ok. 3 passed; 0 failed; 0 ignored"), None);
        assert_eq!(retries("test result: FAILED. 3 passed; 1 failed; 0 ignored"), None);
    }
}
