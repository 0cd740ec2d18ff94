//! What a step says when it is over.

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything in it passed.
    Passed,
    /// Something in it failed.
    Failed,
    /// It wasn't run, and why.
    LeftOut(String),
}

/// How a step ended, and the tests that it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) tests: Counts,
    /// What wasn't run within it.
    pub(crate) left_out: Vec<String>,
    /// The tests that were late at first and passed when they were run by themselves, each with why.
    pub(crate) late: Vec<String>,
}

/// Results of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Not run, because of what the command line chose.
    pub(crate) filtered: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.filtered += other.filtered;
    }
}

impl Report {
    pub(crate) fn of(ok: bool) -> Self {
        let outcome = if ok { Outcome::Passed } else { Outcome::Failed };
        Self { outcome, tests: Counts::default(), left_out: Vec::new(), late: Vec::new() }
    }

    /// Takes in what another part of the step says.
    pub(crate) fn add(&mut self, other: Self) {
        if other.outcome == Outcome::Failed {
            self.outcome = Outcome::Failed;
        }
        self.tests.add(other.tests);
        self.left_out.extend(other.left_out);
        self.late.extend(other.late);
    }

    /// The step failed, for a reason that is said here because no command said it.
    pub(crate) fn failed(reason: &str) -> Self {
        for line in reason.lines() {
            println!("     {line}");
        }
        Self::of(false)
    }

    pub(crate) fn left_out(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::LeftOut(reason.into()), ..Self::of(true) }
    }
}
