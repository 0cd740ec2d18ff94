pub(crate) mod elect;
mod fallback_kill;
mod hold;
mod lock_holder;
mod nested;
pub(crate) mod process;
mod program;
pub(crate) mod signals;
mod waiting;

use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockwright::{Guard, Held, LockName, Locks, Mode};
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal::{SIGTTIN, SIGTTOU};
use rustix::process::Signal;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::args::{ConnectionOptions, Run};
use crate::{Failure, Output, block_on, config, exit, millis};
use hold::{NamedHold, RunHold};
use process::{Exit, descendants};
use signals::Signals;
pub(crate) use waiting::holder_name;

/// The limit for the release and for `close`. If the release fails, the hold expires.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The release's limit after a signal, or after a loss, when the server is usually unreachable.
const SHORT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends a request with the options of `run`.
macro_rules! send_request {
    ($request:expr, $run:expr) => {{
        let mut request = $request.ttl(ttl($run));
        if $run.fixed {
            request = request.fixed();
        }
        if let Some(longest) = $run.max_hold {
            request = request.max_hold(longest);
        }
        match $run.request.limit() {
            Some(limit) => request.wait_for(limit).acquire(),
            None => request.no_limit().acquire(),
        }
    }};
}

/// With `again`, requests the lock and runs the command again after a loss.
pub(crate) fn run(connection: &ConnectionOptions, run: &Run, again: bool) -> ExitCode {
    let output = Output::new(connection.json);
    match prepare_and_run(output, connection, run, again) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => output.fail(&failure),
    }
}

fn prepare_and_run(
    output: Output,
    connection: &ConnectionOptions,
    run: &Run,
    again: bool,
) -> Result<u8, Failure> {
    run.names().try_for_each(|name| LockName::new(name).map(drop))?;
    if again && run.mode() != Mode::Exclusive {
        let message = "elect runs the command on one machine; remove -s and --semaphore";
        return Err(Failure::usage(message));
    }
    let command = program::resolve(run)?;
    descendants::check()
        .map_err(|error| Failure::os(&format!("cannot use {}", descendants::SOURCE), error))?;
    let holds = nested::Holds::of_this_process()?;
    let config = config(connection)?;
    nested::become_if_held(output, &config, run, &holds, &command)?;
    let shortest_wait = run.names().filter_map(|name| config.options_of(name).wait).min();
    let run = &Run {
        ttl: run.ttl.or(config.options_of(&run.name).ttl),
        request: run.request.or_wait(shortest_wait),
        ..run.clone()
    };
    // These terminal signals would suspend this process.
    let _ = SigSet::from_iter([SIGTTIN, SIGTTOU]).thread_block();

    block_on(Builder::new_multi_thread().worker_threads(1), async {
        let mut signals = Signals::listen()?;
        let once = async |signals: &mut Signals| {
            let locks = tokio::select! {
                locks = config.connect() => locks?,
                signal = signals.next_ending() => return Ok(ended_by(signal)),
            };
            let context = RunContext {
                output,
                run,
                namespace: &config.namespace,
                holds: &holds,
                command: &command,
                locks: &locks,
            };
            let result = context.acquire_and_run(signals).await;
            close(&locks).await;
            result
        };
        match again {
            true => elect::campaign(output, &run.name, &mut signals, once).await,
            false => once(&mut signals).await,
        }
    })
}

struct RunContext<'a> {
    output: Output,
    run: &'a Run,
    namespace: &'a str,
    holds: &'a nested::Holds,
    command: &'a program::Resolved,
    locks: &'a Locks,
}

impl RunContext<'_> {
    async fn acquire_and_run(&self, signals: &mut Signals) -> Result<u8, Failure> {
        let Self { output, run, locks, .. } = *self;
        let Run { name, and, .. } = run;
        match run.mode() {
            Mode::Permits { count, of } => {
                let request = locks.semaphore(name, of).permits(count);
                self.run_under(wait(output, run, locks, send_request!(request, run)), signals).await
            }
            _ if and.is_empty() => self.run_under(acquire_lock(output, run, locks), signals).await,
            _ => {
                let request = locks.multi(run.names());
                self.run_under(wait(output, run, locks, send_request!(request, run)), signals).await
            }
        }
    }

    async fn run_under<H: RunHold>(
        &self,
        acquiring: impl Future<Output = Result<Option<H>, Failure>>,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        let since = Instant::now();
        let guard = tokio::select! {
            guard = acquiring => match guard? {
                Some(guard) => guard,
                None => return Ok(self.run.request.conflict_exit_code),
            },
            signal = signals.next_ending() => return Ok(ended_by(signal)),
        };
        let parts = self.parts(&guard);
        self.report_grants(&parts, &guard, since.elapsed());
        let since = Instant::now();
        let owner = self.locks.identity().to_string();
        let fenced: Vec<_> = parts.iter().filter_map(|part| part.fenced.as_ref()).collect();
        let variables = program::variables(self.run, &fenced, &owner);
        let holds = self.holds.and(self.namespace, &parts, &owner);
        let command = self.command.with_environment(variables.into_iter().chain([holds]));
        let ended = lock_holder::hold(self.output, &self.run.name, &guard, command, signals).await;
        finish(self.output, self.run, guard, ended, since, signals).await
    }

    fn parts<'a>(&self, guard: &'a impl RunHold) -> Vec<NamedHold<'a>> {
        let part = |name| guard.parts().into_iter().find(|part| part.name == name);
        self.run.names().filter_map(part).collect()
    }

    fn report_grants(&self, parts: &[NamedHold<'_>], guard: &impl Held, waited: Duration) {
        for part in parts {
            let granted = json!({
                "name": part.name,
                "fence": part.fenced.as_ref().map(|fenced| fenced.fence),
                "owner": self.locks.identity().to_string(),
                "mode": part.mode,
                "ttl_ms": millis(ttl(self.run)),
                "waited_ms": millis(waited),
                "deadline_ns": guard.deadline().as_nanos(),
            });
            self.output.event("granted", granted);
        }
    }
}

async fn finish(
    output: Output,
    run: &Run,
    guard: impl Held,
    ended: lock_holder::Conclusion,
    since: Instant,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let lock_holder::Conclusion { outcome, all_gone } = ended;
    if !all_gone {
        output.report(
            "not_released",
            json!({ "name": run.name, "message": "processes of the command may be left" }),
            &format!(
                "did not release {:?}, because processes of the command may be left, which can't \
                 be distinguished from processes that started before it; the lock is free when its \
                 TTL expires",
                run.name
            ),
        );
        // The lock must expire. Dropping the guard would release it.
        std::mem::forget(guard);
        let left = |failure| Failure { kind: "leftovers", ..failure };
        return outcome.map(Exit::shell_code).map_err(left);
    }
    if let (Some(least), Ok(exit), None) = (run.at_least, &outcome, signals.termination()) {
        let left = least.saturating_sub(since.elapsed());
        let is_kept = tokio::select! {
            kept = guard.run(sleep(left)) => kept.is_ok(),
            _ = signals.next_ending() => true,
        };
        if !is_kept {
            let message = "the hold was lost before the time of --at-least had passed";
            let event = json!({ "name": run.name, "message": message });
            output.report("not_released", event, message);
            return Ok(exit.shell_code());
        }
    }
    let has_succeeded = matches!(&outcome, Ok(exit) if exit.shell_code() == 0);
    if run.once_per.is_some() && !has_succeeded {
        let exit = outcome?.shell_code();
        guard.check()?;
        // A dropped guard ignores the period. `close` waits for its release.
        drop(guard);
        return Ok(exit);
    }
    let patience = if outcome.is_ok() { SHUTDOWN_TIMEOUT } else { SHORT_SHUTDOWN_TIMEOUT };
    let released = release(output, &run.name, guard, signals, patience).await;
    let exit = outcome?;
    if released? {
        let held_ms = millis(since.elapsed());
        output.event("released", json!({ "name": run.name, "held_ms": held_ms }));
    }
    Ok(exit.shell_code())
}

fn ttl(run: &Run) -> Duration {
    run.ttl.unwrap_or(Duration::from_secs(30))
}

pub(crate) async fn acquire_lock(
    output: Output,
    run: &Run,
    locks: &Locks,
) -> Result<Option<Guard>, Failure> {
    let mut request =
        if run.request.shared { locks.read(&run.name) } else { locks.mutex(&run.name) };
    if let Some(period) = run.once_per {
        request = request.once_per(period);
    }
    wait(output, run, locks, send_request!(request, run)).await
}

async fn wait<H>(
    output: Output,
    run: &Run,
    locks: &Locks,
    acquiring: impl Future<Output = lockwright::Result<H>>,
) -> Result<Option<H>, Failure> {
    let (event, acquired) = match run.request.limit() {
        Some(Duration::ZERO) => ("busy", acquiring.await),
        _ => ("timed_out", waiting::show_holder_until(output, run, locks, acquiring).await),
    };
    match acquired.map_err(Failure::from) {
        Err(failure) if failure.code == exit::HELD => {
            waiting::report_given_up(event, output, run, locks).await;
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Returns whether the server confirmed the release. If not, reports the failure.
async fn release(
    output: Output,
    name: &str,
    guard: impl Held,
    signals: &mut Signals,
    patience: Duration,
) -> Result<bool, Failure> {
    let mut releasing = pin!(guard.release());
    let answer = tokio::select! {
        answer = timeout(patience, &mut releasing) => answer,
        _ = signals.next_ending() => timeout(SHORT_SHUTDOWN_TIMEOUT, releasing).await,
    };
    let failure = match answer {
        Ok(Ok(())) => return Ok(true),
        Ok(Err(error)) => Failure::from(error),
        Err(_) => Failure::new(exit::UNAVAILABLE, "indeterminate", "the server doesn't answer"),
    };
    if failure.code == exit::LOST {
        return Err(failure);
    }
    output.report(
        "not_released",
        json!({ "name": name, "message": failure.message }),
        &format!(
            "could not release {name:?}: {}; the lock is free when its TTL expires",
            failure.message
        ),
    );
    Ok(false)
}

/// Waits until the server has received a cancelled request's release.
pub(crate) async fn close(locks: &Locks) {
    let _ = timeout(SHUTDOWN_TIMEOUT, locks.close()).await;
}

pub(crate) fn ended_by(signal: Signal) -> u8 {
    128 + signal.as_raw() as u8
}
