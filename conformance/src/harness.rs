//! Runs the cases in a test binary with `harness = false`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use lockwright_core::DistributedLock;

use crate::case::Outcome;
use crate::cases;
use crate::child;
use crate::factory::{Factory, Runtime};
use crate::report::{profile, run_case};

/// Runs the cases with the arguments of `cargo test`. A case with an unmet requirement is ignored,
/// and fails if run anyway. Call [`child::main`] first if cases start this program as a child.
pub fn main(factory: Factory) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if factory.runtime == Runtime::Real && arguments.test_threads.is_none() {
        arguments.test_threads = Some(factory.at_a_time);
    }
    let factory = Arc::new(factory);
    let profile = match profile(&factory) {
        Ok(profile) => profile,
        Err(error) => {
            eprintln!("the backend can't be reached: {error:?}");
            return ExitCode::FAILURE;
        }
    };
    if !arguments.list {
        println!("suite: {}", factory.label.as_deref().unwrap_or(profile.backend));
    }
    let trials = cases::all()
        .map(|case| {
            let mine = Arc::clone(&factory);
            let missing = case.needs.iter().find_map(|need| need.missing(&profile, &factory));
            let trial = Trial::test(case.path(), move || match run_case(case, mine) {
                Outcome::Failed(why) => Err(Failed::from(format!("{}: {why}", case.about))),
                Outcome::NotPromised(why) => Err(Failed::from(format!("not promised: {why}"))),
                Outcome::Passed => Ok(()),
            });
            match missing {
                Some(_) => trial.with_kind("not promised").with_ignored_flag(true),
                None => trial,
            }
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Starts a server and runs the cases on it, or performs a child process's job.
pub fn serve<S, F, B>(
    connect: fn(String) -> F,
    start: impl FnOnce() -> Result<(S, Factory), Box<dyn Error>>,
) -> ExitCode
where
    F: Future<Output = lockwright_core::Result<B>>,
    B: DistributedLock,
{
    if let Some(code) = child::main(connect) {
        return code;
    }
    match start() {
        // `_running` stops the server on drop.
        Ok((_running, server)) => main(server),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
