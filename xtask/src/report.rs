#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    #[default]
    Passed,
    Failed,
    LeftOut(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) tests: Counts,
    pub(crate) left_out: Vec<String>,
    pub(crate) retried: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
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
        Self { outcome, ..Self::default() }
    }

    /// An empty text means that the error was printed before.
    pub(crate) fn of_result(result: Result<Self, String>) -> Self {
        result.unwrap_or_else(|problem| {
            problem.lines().for_each(|line| println!("     {line}"));
            Self::of(false)
        })
    }

    pub(crate) fn unless(problems: String) -> Result<Self, String> {
        if problems.is_empty() { Ok(Self::of(true)) } else { Err(problems) }
    }

    pub(crate) fn add(&mut self, other: Self) {
        if other.outcome == Outcome::Failed {
            self.outcome = Outcome::Failed;
        }
        self.tests.add(other.tests);
        self.left_out.extend(other.left_out);
        self.retried.extend(other.retried);
    }

    pub(crate) fn left_out(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::LeftOut(reason.into()), ..Self::default() }
    }
}
