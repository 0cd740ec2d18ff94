//! `lockwright run` inside the command of an outer `lockwright run` for the same name.
//!
//! The inner run verifies the outer run's hold, and then becomes its command by `exec`. After a
//! loss, the outer run ends all descendants, including this command.

use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::process::Command;

use lockwright::fencing::Fenced;
use lockwright::operator::Holder;
use lockwright::{Config, Fence, Guard, LockName, Locks, Mode, Token};
use rustix::process::{Pid, getpid};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Builder;

use super::program;
use crate::args::Run;
use crate::run::process::descendants;
use crate::{Failure, Output, block_on, exit};

const VARIABLE: &str = "LOCKWRIGHT_HOLDS";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Outer {
    name: String,
    token: Token,
    fence: Fence,
    mode: Mode,
    owner: String,
    pid: i32,
    started: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Holds(Vec<Outer>);

impl Holds {
    pub(crate) fn of_this_process() -> Result<Self, Failure> {
        let Some(text) = std::env::var_os(VARIABLE) else { return Ok(Self(Vec::new())) };
        let holds = text.to_str().and_then(|text| serde_json::from_str(text).ok());
        holds.map(Self).ok_or_else(|| {
            Failure::usage(format!(
                "{VARIABLE} was not set by lockwright; unset it to acquire the lock again"
            ))
        })
    }

    pub(crate) fn and(mut self, key: &str, guard: &Guard, owner: &str) -> (&'static str, String) {
        let us = descendants::process(getpid());
        // Without `/proc`, an inner run couldn't check its ancestors.
        if let Some(us) = us {
            self.0.push(Outer {
                name: key.to_owned(),
                token: guard.token(),
                fence: guard.fence(),
                mode: guard.mode(),
                owner: owner.to_owned(),
                pid: us.pid.as_raw_nonzero().get(),
                started: us.started,
            });
        }
        (VARIABLE, json!(self.0).to_string())
    }
}

pub(crate) fn become_if_held(
    output: Output,
    config: &Config,
    key: &str,
    run: &Run,
    holds: &Holds,
    command: &program::Resolved,
) -> Result<(), Failure> {
    let outer = holds.0.iter().rev().find(|outer| outer.name == key);
    let Some(outer) = outer else { return Ok(()) };
    let wanted = if run.request.shared { Mode::Shared } else { Mode::Exclusive };
    if outer.mode != wanted {
        let message = format!(
            "an outer run holds {:?} {}, and this run requests it {wanted}; use the same mode",
            run.name, outer.mode
        );
        return Err(Failure::new(exit::CONFLICT, "conflict", message));
    }
    for (option, time) in
        [("--max-hold", run.max_hold), ("--at-least", run.at_least), ("--once-per", run.once_per)]
    {
        if time.is_some() {
            return Err(Failure::usage(format!(
                "{option} is for the outer run, which holds {:?} already",
                run.name
            )));
        }
    }
    if !is_descendant_of(outer) {
        return Err(refused(run, outer, "that run is not an ancestor of this process"));
    }
    let fence = block_on(&mut Builder::new_current_thread(), async {
        let locks = config.connect().await?;
        let fence = verify_hold(&locks, run, outer).await;
        locks.close().await;
        fence
    })?;
    let fenced = Fenced { name: LockName::new(key)?, fence };
    let granted = json!({
        "name": run.name,
        "fence": fence,
        "owner": outer.owner,
        "mode": outer.mode,
        "nested": true,
    });
    output.event("granted", granted);
    let mut command: Command = command.itself();
    let error = command
        .env("LOCKWRIGHT_NAME", &run.name)
        .env("LOCKWRIGHT_FENCE", fence.to_string())
        .env("LOCKWRIGHT_FENCED", fenced.to_string())
        .env("LOCKWRIGHT_OWNER", &outer.owner)
        .exec();
    let program = command.get_program().to_string_lossy().into_owned();
    let code = exit::not_executed(&error);
    Err(Failure::new(code, "not_executable", format!("{program}: {error}")))
}

async fn verify_hold(locks: &Locks, run: &Run, outer: &Outer) -> Result<Fence, Failure> {
    let inspection = locks.inspect(&run.name).await?;
    let ours = |holder: &&Holder| holder.token == Some(outer.token);
    let Some(holder) = inspection.holders.iter().find(ours) else {
        return Err(refused(run, outer, "the server has no such hold"));
    };
    if holder.broken.is_some() {
        return Err(refused(run, outer, "that hold was broken and expires"));
    }
    if holder.fence.is_some_and(|fence| fence != outer.fence) {
        return Err(refused(run, outer, "the server has another fence for that hold"));
    }
    Ok(outer.fence)
}

fn is_descendant_of(outer: &Outer) -> bool {
    Pid::from_raw(outer.pid).is_some_and(|pid| {
        descendants::ancestors().any(|above| above.pid == pid && above.started == outer.started)
            && descendants::may_end_us(pid)
    })
}

fn refused(run: &Run, outer: &Outer, why: impl Display) -> Failure {
    let message = format!(
        "{VARIABLE} names an outer hold of {:?} with fence {}, but {why}; unset it to acquire the \
         lock again",
        run.name, outer.fence
    );
    Failure::new(exit::LOST, "lost", message)
}
