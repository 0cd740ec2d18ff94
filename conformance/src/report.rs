//! Runs the cases and reports their outcomes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lockwright_core::{Clock, Profile};
use serde::Serialize;

use crate::case::{Case, Group, Outcome};
use crate::cases;
use crate::context::Context;
use crate::factory::{Factory, Runtime};

const LIMIT: Duration = Duration::from_secs(120);

const AT_ONCE: usize = 8;

/// The outcomes of all cases.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The backend's name.
    pub backend: String,
    /// The backend's profile.
    pub profile: Profile,
    /// One row per case, in order.
    pub rows: Vec<Row>,
}

/// One case's outcome.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The case's group.
    pub group: Group,
    /// The case's name.
    pub case: &'static str,
    /// The property under test.
    pub about: &'static str,
    /// The case's outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The case's duration in seconds.
    pub seconds: f64,
}

/// Runs the cases whose `group::name` contains `filter`, some in parallel. Blocks the thread.
///
/// Random prefixes separate the lock names of runs. Only fence counters remain on the server.
///
/// # Errors
/// If the backend is unreachable.
pub fn run(factory: Arc<Factory>, filter: &str) -> lockwright_core::Result<Report> {
    run_telling(factory, filter, |_| {})
}

/// Like [`run`], and calls `on_row` for each completed case.
pub fn run_telling(
    factory: Arc<Factory>,
    filter: &str,
    on_row: impl Fn(&Row) + Sync,
) -> lockwright_core::Result<Report> {
    let profile = profile(&factory)?;
    let wanted: Vec<&'static Case> =
        cases::all().filter(|case| case.path().contains(filter)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut rows = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::SeqCst);
            let Some(case) = wanted.get(index) else { return rows };
            let begun = Instant::now();
            let outcome = run_case(case, Arc::clone(&factory));
            let (group, case, about) = (case.group, case.name, case.about);
            let row = Row { group, case, about, outcome, seconds: begun.elapsed().as_secs_f64() };
            on_row(&row);
            rows.push((index, row));
        }
    };
    let mut rows: Vec<(usize, Row)> = std::thread::scope(|scope| {
        let threads = [(); AT_ONCE].map(|()| scope.spawn(work));
        threads.into_iter().flat_map(|thread| thread.join().expect("cases don't panic")).collect()
    });
    rows.sort_by_key(|(index, _)| *index);
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    Ok(Report { backend: profile.backend.to_owned(), profile, rows })
}

/// Runs one case, with a time limit, on a new thread.
pub fn run_case(case: &'static Case, factory: Arc<Factory>) -> Outcome {
    let (sender, outcome) = mpsc::channel();
    let running = std::thread::Builder::new().name(case.path()).spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| run_here(case, factory)))
            .unwrap_or_else(|panic| Outcome::Failed(format!("it panicked: {}", text(&*panic))));
        let _ = sender.send(outcome);
    });
    if let Err(error) = running {
        return Outcome::Failed(format!("no thread to run it on: {error}"));
    }
    outcome
        .recv_timeout(LIMIT)
        .unwrap_or_else(|_| Outcome::Failed(format!("it was not done after {LIMIT:?}")))
}

fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("no message")
}

fn run_here(case: &'static Case, factory: Arc<Factory>) -> Outcome {
    let kind = factory.runtime;
    in_runtime(kind, async move {
        let clock = match kind {
            Runtime::Real => Clock::boot(),
            Runtime::Paused => Clock::tokio(),
        };
        let context = match Context::open(Arc::clone(&factory), clock).await {
            Ok(context) => context,
            Err(error) => {
                return Outcome::Failed(format!("the backend can't be reached: {error:?}"));
            }
        };
        let missing = case.needs.iter().find_map(|need| need.missing(&context.profile, &factory));
        if let Some(why) = missing {
            return Outcome::NotPromised(why.to_owned());
        }
        let passes = async {
            (case.body)(context.clone()).await?;
            context.nothing_left().await
        };
        match passes.await {
            Err(failure) => Outcome::Failed(failure.to_string()),
            Ok(()) => Outcome::Passed,
        }
    })
}

pub(crate) fn profile(factory: &Arc<Factory>) -> lockwright_core::Result<Profile> {
    let factory = Arc::clone(factory);
    let kind = factory.runtime;
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            in_runtime(kind, async move {
                let connect = (factory.open)(&Clock::boot());
                Ok(connect.connect().await?.profile().clone())
            })
        });
        asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn in_runtime<T>(kind: Runtime, work: impl Future<Output = T>) -> T {
    let mut builder = match kind {
        Runtime::Real => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        }
        Runtime::Paused => paused(),
    };
    let runtime = builder.enable_all().build().expect("the system has resources for a runtime");
    let output = runtime.block_on(work);
    // The backend's tasks may never end, so don't wait.
    runtime.shutdown_background();
    output
}

#[cfg(feature = "paused")]
fn paused() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.start_paused(true);
    builder
}

#[cfg(not(feature = "paused"))]
fn paused() -> tokio::runtime::Builder {
    panic!("Runtime::Paused needs the feature `paused` of lockwright-conformance")
}

impl Report {
    /// Returns whether no case failed.
    pub fn ok(&self) -> bool {
        self.failed() == 0
    }

    /// Returns the number of passed cases.
    pub fn passed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Passed))
    }

    /// Returns the number of failed cases.
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    /// Returns the number of cases not promised.
    pub fn not_promised(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::NotPromised(_)))
    }

    fn count(&self, of: impl Fn(&Outcome) -> bool) -> usize {
        self.rows.iter().filter(|row| of(&row.outcome)).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.case.len()).max().unwrap_or_default();
        for row in &self.rows {
            let (word, why) = match &row.outcome {
                Outcome::Passed => ("passed", String::new()),
                Outcome::Failed(why) => ("FAILED", format!("  {why}")),
                Outcome::NotPromised(why) => ("not promised", format!("  {why}")),
            };
            let line = format!(
                "{:12} {:width$}  {:6.2} s  {word}{why}",
                row.group.to_string(),
                row.case,
                row.seconds
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        write!(
            f,
            "{}: {} passed, {} failed, {} not promised",
            self.backend,
            self.passed(),
            self.failed(),
            self.not_promised()
        )
    }
}
