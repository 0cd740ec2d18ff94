//! `lockwright run` inside a command that `lockwright run` started, for a name that the outer one holds.
//!
//! It would wait for itself. Instead it proves to the server, by the token, that the outer hold is there,
//! and becomes CMD: what ends the outer run's command when the hold is lost ends this one too, as it
//! descends from it.

use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::process::Command;

use lockwright::fencing::Fenced;
use lockwright::{Fence, Guard, Holder, LockName, Locks, Mode, Token};
use rustix::process::{Pid, getpid};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::command;
use crate::args::{Place, Run};
use crate::connect::config;
use crate::exit::{self, Failure};
use crate::process::descendants;
use crate::voice::Voice;

/// What is held around a command, from the outermost run to the innermost.
const VARIABLE: &str = "LOCKWRIGHT_HOLDS";

/// A hold, as it is told to what runs under it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Outer {
    /// With the namespace.
    name: String,
    token: Token,
    fence: Fence,
    mode: Mode,
    owner: String,
    /// The process that holds it, and when that started.
    pid: i32,
    started: u64,
}

/// What this process runs under: all that an outer run has told.
#[derive(Debug, Clone)]
pub(crate) struct Holds(Vec<Outer>);

impl Holds {
    /// # Errors
    /// If the variable isn't what a run has put there.
    pub(crate) fn of_this_process() -> Result<Self, Failure> {
        let Some(text) = std::env::var_os(VARIABLE) else { return Ok(Self(Vec::new())) };
        let holds = text.to_str().and_then(|text| serde_json::from_str(text).ok());
        holds.map(Self).ok_or_else(|| {
            Failure::usage(format!(
                "{VARIABLE} isn't what lockwright puts there; unset it to take the lock anew"
            ))
        })
    }

    /// The variable for a command that runs under one hold more.
    pub(crate) fn and(mut self, key: &str, guard: &Guard, owner: &str) -> (&'static str, String) {
        let us = descendants::process(getpid());
        // Without /proc nobody could look whether it descends from us: then nothing nests.
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

    /// The innermost hold of this name.
    fn find(&self, key: &str) -> Option<&Outer> {
        self.0.iter().rev().find(|outer| outer.name == key)
    }
}

/// Becomes the command if an outer run holds the name, and comes back if none does.
pub(crate) fn become_if_held(
    voice: Voice,
    place: &Place,
    run: &Run,
    holds: &Holds,
    command: &command::Resolved,
) -> Result<(), Failure> {
    let config = config(place)?;
    let key = format!("{}{}", config.namespace, run.name);
    let Some(outer) = holds.find(&key) else { return Ok(()) };
    let wanted = if run.shared { Mode::Shared } else { Mode::Exclusive };
    if outer.mode != wanted {
        let message = format!(
            "an outer run holds {:?} {}, and this one wants it {wanted}; ask for the same there",
            run.name, outer.mode
        );
        return Err(Failure::new(exit::CONFLICT, "conflict", message));
    }
    if run.max_hold.is_some() {
        return Err(Failure::usage(format!(
            "--max-hold is for the outer run, which holds {:?} already",
            run.name
        )));
    }
    if !is_around_us(outer) {
        return Err(refused(run, outer, "the run that took it isn't one that this is a part of"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::os("cannot start", error))?;
    let fence = runtime.block_on(async {
        let locks = config.connect().await?;
        let fence = proved(&locks, run, outer).await;
        locks.close().await;
        fence
    });
    runtime.shutdown_background();
    let fence = fence?;
    let fenced = Fenced { name: LockName::new(key)?, fence };
    voice.event(
        "granted",
        json!({
            "name": run.name,
            "fence": fence,
            "owner": outer.owner,
            "mode": outer.mode,
            "nested": true,
        }),
    );
    let mut command: Command = command.itself();
    let error = command
        .env("LOCKWRIGHT_NAME", &run.name)
        .env("LOCKWRIGHT_FENCE", fence.to_string())
        .env("LOCKWRIGHT_FENCED", fenced.to_string())
        .env("LOCKWRIGHT_OWNER", &outer.owner)
        .exec();
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    };
    let program = command.get_program().to_string_lossy().into_owned();
    Err(Failure::new(code, "not_executable", format!("{program}: {error}")))
}

/// Asks the server whether the outer hold is there. Answers its fence.
async fn proved(locks: &Locks, run: &Run, outer: &Outer) -> Result<Fence, Failure> {
    let inspection = locks.inspect(&run.name).await?;
    let ours = |holder: &&Holder| holder.token == Some(outer.token);
    let Some(holder) = inspection.holders.iter().find(ours) else {
        return Err(refused(run, outer, "the server doesn't know that hold"));
    };
    if holder.broken.is_some() {
        return Err(refused(run, outer, "that hold was broken, and runs out"));
    }
    if holder.fence.is_some_and(|fence| fence != outer.fence) {
        return Err(refused(run, outer, "the server knows that hold by another fence"));
    }
    Ok(outer.fence)
}

/// Whether what holds is alive, and this process descends from it, so that it can be ended by it.
fn is_around_us(outer: &Outer) -> bool {
    Pid::from_raw(outer.pid).is_some_and(|pid| {
        descendants::ancestors().any(|above| above.pid == pid && above.started == outer.started)
            && descendants::may_end_us(pid)
    })
}

fn refused(run: &Run, outer: &Outer, why: impl Display) -> Failure {
    let message = format!(
        "{VARIABLE} says that {:?} is held around this, with fence {}, but {why}; unset it to take the \
         lock anew",
        run.name, outer.fence
    );
    Failure::new(exit::LOST, "lost", message)
}
