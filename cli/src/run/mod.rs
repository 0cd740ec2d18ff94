pub(crate) mod elect;
mod fallback_kill;
mod lock_holder;
mod nested;
pub(crate) mod process;
mod program;
pub(crate) mod signals;
mod waiting;

use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockwright::{Guard, LockName, Locks};
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal::{SIGTTIN, SIGTTOU};
use rustix::process::Signal;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::args::{ConnectionOptions, Run};
use crate::{Failure, Output, block_on, config, exit, millis};
use process::{Exit, descendants};
use signals::Signals;
pub(crate) use waiting::holder_name;

/// The limit for the release and for `close`. If the release fails, the hold expires.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The release's limit after a signal, or after a loss, when the server is usually unreachable.
const SHORT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

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
    LockName::new(&run.name)?;
    if again && run.request.shared {
        return Err(Failure::usage("elect -s would run the command on each machine; remove -s"));
    }
    let command = program::resolve(run)?;
    descendants::check_proc().map_err(|error| Failure::os("cannot use /proc", error))?;
    let holds = nested::Holds::of_this_process()?;
    let config = config(connection)?;
    let key = format!("{}{}", config.namespace, run.name);
    nested::become_if_held(output, &config, &key, run, &holds, &command)?;
    let run = &Run {
        ttl: run.ttl.or(config.ttl),
        request: run.request.or_wait(config.wait),
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
            let holds = holds.clone();
            let result = hold_and_run(output, run, holds, &key, &command, &locks, signals).await;
            close(&locks).await;
            result
        };
        match again {
            true => elect::campaign(output, &run.name, &mut signals, once).await,
            false => once(&mut signals).await,
        }
    })
}

async fn hold_and_run(
    output: Output,
    run: &Run,
    holds: nested::Holds,
    key: &str,
    command: &program::Resolved,
    locks: &Locks,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let since = Instant::now();
    let guard = tokio::select! {
        guard = acquire(output, run, locks) => match guard? {
            Some(guard) => guard,
            None => return Ok(run.request.conflict_exit_code),
        },
        signal = signals.next_ending() => return Ok(ended_by(signal)),
    };
    let owner = locks.identity().to_string();
    let granted = json!({
        "name": run.name,
        "fence": guard.fence(),
        "owner": owner,
        "mode": guard.mode(),
        "ttl_ms": millis(ttl(run)),
        "waited_ms": millis(since.elapsed()),
        "deadline_ns": guard.deadline().as_nanos(),
    });
    output.event("granted", granted);
    let since = Instant::now();
    let command = command.with_environment([
        ("LOCKWRIGHT_NAME", run.name.clone()),
        ("LOCKWRIGHT_FENCE", guard.fence().to_string()),
        ("LOCKWRIGHT_FENCED", guard.fenced().to_string()),
        holds.and(key, &guard, &owner),
        ("LOCKWRIGHT_OWNER", owner),
    ]);
    let lock_holder::Conclusion { outcome, all_gone } =
        lock_holder::hold(output, &guard, command, signals).await;
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
    if let (Some(least), Ok(exit)) = (run.at_least, &outcome) {
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
    if let (Some(_), Ok(exit)) = (run.once_per, &outcome)
        && exit.shell_code() != 0
    {
        guard.check()?;
        // A dropped guard ignores the period. `close` waits for its release.
        drop(guard);
        return Ok(exit.shell_code());
    }
    let patience = if outcome.is_ok() { SHUTDOWN_TIMEOUT } else { SHORT_SHUTDOWN_TIMEOUT };
    let released = release(output, guard, signals, patience).await;
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

pub(crate) async fn acquire(
    output: Output,
    run: &Run,
    locks: &Locks,
) -> Result<Option<Guard>, Failure> {
    let mut request =
        if run.request.shared { locks.read(&run.name) } else { locks.mutex(&run.name) };
    request = request.ttl(ttl(run));
    if run.fixed {
        request = request.fixed();
    }
    if let Some(longest) = run.max_hold {
        request = request.max_hold(longest);
    }
    if let Some(period) = run.once_per {
        request = request.once_per(period);
    }
    if run.request.nonblock || run.request.timeout.is_some_and(|limit| limit.is_zero()) {
        let guard = request.try_acquire().await?;
        if guard.is_none() {
            waiting::report_given_up("busy", output, run, locks).await;
        }
        return Ok(guard);
    }
    request = match run.request.timeout {
        Some(limit) => request.wait_for(limit),
        None => request.no_limit(),
    };
    let acquired = waiting::show_holder_until(output, run, locks, request.acquire()).await;
    match acquired.map_err(Failure::from) {
        Err(failure) if failure.code == exit::HELD => {
            waiting::report_given_up("timed_out", output, run, locks).await;
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Returns whether the server confirmed the release. If not, reports the failure.
async fn release(
    output: Output,
    guard: Guard,
    signals: &mut Signals,
    patience: Duration,
) -> Result<bool, Failure> {
    let name = guard.name().to_owned();
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
