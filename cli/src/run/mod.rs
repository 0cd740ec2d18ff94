//! `lockwright run`: holds the lock while CMD runs.

mod children;
mod command;
mod held;
mod nested;
mod signals;
mod waiting;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockwright::{Guard, Identity, LockName, Locks};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::timeout;

use crate::args::{Place, Run};
use crate::connect::config;
use crate::exit::{self, Failure};
use crate::json::millis;
use crate::voice::Voice;
use signals::Signals;
pub(crate) use waiting::who;

/// How long the end waits for a server that doesn't answer. What it was to be told then happens by
/// itself, one TTL later.
const FAREWELL: Duration = Duration::from_secs(3);

/// The same after a loss, when the server has mostly gone, and the hold runs out in a moment.
const FAREWELL_WHEN_LOST: Duration = Duration::from_secs(1);

/// Runs the command under the lock and answers the exit code.
pub(crate) fn run(place: &Place, run: &Run) -> ExitCode {
    let voice = Voice::new(place.json);
    match prepare_and_run(voice, place, run) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => voice.fail(&failure),
    }
}

fn prepare_and_run(voice: Voice, place: &Place, run: &Run) -> Result<u8, Failure> {
    // What can't work is said before anybody is kept from the lock.
    LockName::new(&run.name)?;
    let command = command::resolve(run)?;
    let holds = nested::Holds::of_this_process()?;
    nested::become_if_held(voice, place, run, &holds, &command)?;
    let config = config(place)?;
    let key = format!("{}{}", config.namespace, run.name);
    let run = &Run {
        ttl: run.ttl.or(config.ttl),
        timeout: run.timeout.or(config.wait.filter(|_| !run.nonblock)),
        ..run.clone()
    };
    // Writing to a terminal that belongs to CMD mustn't stop us; all threads inherit this.
    let mut stopped_by_writing = nix::sys::signal::SigSet::empty();
    stopped_by_writing.add(nix::sys::signal::Signal::SIGTTOU);
    let _ = stopped_by_writing.thread_block();

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::os("cannot start", error))?;
    let result = runtime.block_on(async {
        let mut signals =
            Signals::listen().map_err(|error| Failure::os("cannot listen for signals", error))?;
        let locks = tokio::select! {
            locks = config.connect() => locks?,
            signal = signals.next_ending() => return Ok(ended_by(signal)),
        };
        let around = Around { holds, key };
        let result = hold_and_run(voice, place, run, around, &command, &locks, &mut signals).await;
        // A cancelled wait is taken back in the background; that should reach the server.
        let _ = timeout(FAREWELL, locks.close()).await;
        result
    });
    // A name lookup that hangs in a thread of its own must not keep us.
    runtime.shutdown_background();
    result
}

/// What stands around the command: the outer holds, and under which name this one joins them.
struct Around {
    holds: nested::Holds,
    key: String,
}

async fn hold_and_run(
    voice: Voice,
    place: &Place,
    run: &Run,
    around: Around,
    command: &command::Resolved,
    locks: &Locks,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let since = Instant::now();
    let guard = tokio::select! {
        guard = acquire(voice, run, locks) => match guard? {
            Some(guard) => guard,
            None => return Ok(run.conflict_exit_code),
        },
        signal = signals.next_ending() => return Ok(ended_by(signal)),
    };
    let owner = Identity::of_this_process(place.label.as_deref()).to_string();
    voice.event(
        "granted",
        json!({
            "name": run.name,
            "fence": guard.fence(),
            "owner": owner,
            "mode": guard.mode(),
            "ttl_ms": millis(ttl(run)),
            "waited_ms": millis(since.elapsed()),
            "deadline_ns": guard.deadline().as_nanos(),
        }),
    );
    let since = Instant::now();
    let command = command.with_environment([
        ("LOCKWRIGHT_NAME", run.name.clone()),
        ("LOCKWRIGHT_FENCE", guard.fence().to_string()),
        ("LOCKWRIGHT_FENCED", guard.fenced().to_string()),
        around.holds.and(&around.key, &guard, &owner),
        ("LOCKWRIGHT_OWNER", owner),
    ]);
    let held::Conclusion { outcome, all_gone } = held::hold(voice, &guard, command, signals).await;
    if !all_gone {
        voice.tell(
            "not_released",
            json!({ "name": run.name, "message": "something of the command may be left" }),
            &format!(
                "did not release {:?}, as processes were there before the command, and what is \
                 left of it can't be told from theirs for certain; it is free when its TTL has \
                 run out",
                run.name
            ),
        );
        // A guard that is dropped releases. This process ends next, and with it the renewals.
        std::mem::forget(guard);
        return match outcome? {
            held::Outcome::Ended(exit) => Ok(exit.shell_code()),
            held::Outcome::Lost(failure) => Err(failure),
        };
    }
    let patience = match &outcome {
        Ok(held::Outcome::Ended(_)) => FAREWELL,
        _ => FAREWELL_WHEN_LOST,
    };
    let released = release(voice, guard, signals, patience).await;
    let code = match (outcome?, released) {
        (held::Outcome::Ended(exit), Ok(())) => {
            voice
                .event("released", json!({ "name": run.name, "held_ms": millis(since.elapsed()) }));
            exit.shell_code()
        }
        (held::Outcome::Ended(_), Err(failure)) => return Err(failure),
        (held::Outcome::Lost(failure), _) => return Err(failure),
    };
    Ok(code)
}

fn ttl(run: &Run) -> Duration {
    run.ttl.unwrap_or(Duration::from_secs(30))
}

/// `None` when somebody else holds the lock.
async fn acquire(voice: Voice, run: &Run, locks: &Locks) -> Result<Option<Guard>, Failure> {
    let mut request = if run.shared { locks.read(&run.name) } else { locks.mutex(&run.name) };
    request = request.ttl(ttl(run));
    if run.fixed {
        request = request.fixed();
    }
    if let Some(longest) = run.max_hold {
        request = request.max_hold(longest);
    }
    let not_at_all = run.nonblock || run.timeout.is_some_and(|limit| limit.is_zero());
    if not_at_all {
        let guard = request.try_acquire().await?;
        if guard.is_none() {
            voice.event("busy", json!({ "name": run.name, "exit_code": run.conflict_exit_code }));
        }
        return Ok(guard);
    }
    request = match run.timeout {
        Some(limit) => request.wait_for(limit),
        None => request.no_limit(),
    };
    match waiting::show_meanwhile(voice, locks, &run.name, request.acquire()).await {
        Ok(guard) => Ok(Some(guard)),
        Err(error) => {
            let failure = Failure::from(error);
            if failure.code != exit::HELD {
                return Err(failure);
            }
            voice.event(
                "timed_out",
                json!({ "name": run.name, "exit_code": run.conflict_exit_code }),
            );
            Ok(None)
        }
    }
}

/// Gives the lock back. An answer that doesn't come is no failure: it runs out by itself.
async fn release(
    voice: Voice,
    guard: Guard,
    signals: &mut Signals,
    patience: Duration,
) -> Result<(), Failure> {
    let name = guard.name().to_owned();
    let answer = tokio::select! {
        answer = timeout(patience, guard.release()) => answer,
        _ = signals.next_ending() => return Ok(()),
    };
    let failure = match answer {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => Failure::from(error),
        Err(_) => Failure::new(exit::UNAVAILABLE, "indeterminate", "the server doesn't answer"),
    };
    if failure.code == exit::LOST {
        return Err(failure);
    }
    voice.tell(
        "not_released",
        json!({ "name": name, "message": failure.message }),
        &format!(
            "could not release {name:?}: {}; it is free when its TTL has run out",
            failure.message
        ),
    );
    Ok(())
}

fn ended_by(signal: Signal) -> u8 {
    128 + signal.as_raw() as u8
}
