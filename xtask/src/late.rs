//! Tests that were late, not wrong.
//!
//! On a machine that shares its processors, a server is seen not to answer for seconds, and what a test
//! then says of it is true of the machine. Such a test is run once more, by itself, when all others are
//! over. The rule is strict: it holds for a test that says by its own words that something was *late*. One
//! that says that something was *wrong* (two holders, a fence that shrank, another answer than expected)
//! has failed, at once and for good: such a thing must not happen on a slow machine either. And nothing is
//! hidden: what was late is shown when it happens, and named in the summary.

use crate::libtest::Suite;

/// How a test says that it waited in vain: the word of the conformance suite's cases, and, of other tests,
/// the kinds of errors that tell of no answer, and the words of the testbed and of the standard library.
const WORDS: &[&str] = &[
    "late: ",
    "Unavailable",
    "Indeterminate",
    "Unreachable",
    "TimedOut(",
    "Elapsed",
    // What a client says that was itself kept from renewing.
    "Lost(Expired)",
    "Lost(SessionEnded)",
    "did not answer",
    "not done after",
    "did not happen within",
    "did not end within",
];

/// More than this is no matter of a busy moment, and would take too long.
const MOST: usize = 64;

/// A test that was late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    /// Its name, by which its binary runs it alone.
    pub(crate) test: String,
    /// The line in which it says so.
    pub(crate) why: String,
}

/// The tests of a binary that were late, if that is all that is to be said against it.
pub(crate) fn tests(suite: &Suite) -> Option<Vec<Late>> {
    let failures = suite.failures();
    let all = suite.finished && failures.len() as u64 == suite.counts.failed;
    if !all || failures.is_empty() || failures.len() > MOST {
        return None;
    }
    failures
        .into_iter()
        .map(|(test, said)| {
            let why = said.iter().find(|line| says_late(line))?;
            Some(Late { test, why: why.trim().to_owned() })
        })
        .collect()
}

fn says_late(line: &str) -> bool {
    WORDS.iter().any(|word| line.contains(word))
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
a name is free again: etcd: http://127.0.0.1:1 did not answer within 1s (Unavailable) (context.rs:145)

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
        assert!(late(&SUITE.replace("WHY", "it goes on: late: it took 7s (a.rs:1)")).is_some());
    }

    #[test]
    fn what_stands_in_a_backtrace_is_not_what_a_test_says() {
        let panic = |said: &str| {
            format!(
                "running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n\n\
                 thread 'a' (7) panicked at tests/a.rs:1:1:\n{said}\nstack backtrace:\n   \
                 0: <tokio::time::timeout::Elapsed as Future>::poll\n\n\nfailures:\n    a\n\n\
                 test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"
            )
        };
        assert_eq!(late(&panic("assertion failed: held == 1")), None);
        assert!(late(&panic("called `Result::unwrap()` on an `Err` value: Elapsed(())")).is_some());
    }

    #[test]
    fn what_aborts_or_fails_without_a_word_is_no_matter_of_time() {
        assert_eq!(late("running 1 test\ntest a ... "), None);
        assert_eq!(late("test result: ok. 3 passed; 0 failed; 0 ignored"), None);
        assert_eq!(late("test result: FAILED. 3 passed; 1 failed; 0 ignored"), None);
    }
}
