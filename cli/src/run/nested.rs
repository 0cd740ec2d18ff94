//! A run in a run: see `docs/src/cli.md`. The inner run verifies the outer run's hold, and then
//! becomes its command by `exec`.

use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::process::Command;

use lockwright::fencing::Fenced;
use lockwright::operator::Holder;
use lockwright::{Config, Fence, LockName, Locks, Mode, Token};
use rustix::process::{Pid, getpid};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Builder;

use super::hold::NamedHold;
use super::program;
use crate::args::Run;
use crate::run::process::descendants;
use crate::{Failure, Output, block_on, exit};

const VARIABLE: &str = "LOCKWRIGHT_HOLDS";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Outer {
    name: String,
    token: Token,
    /// `None` for permits.
    fence: Option<Fence>,
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

    pub(crate) fn and(
        &self,
        namespace: &str,
        parts: &[NamedHold<'_>],
        owner: &str,
    ) -> (&'static str, String) {
        let mut holds = self.0.clone();
        // Without `/proc`, an inner run couldn't check its ancestors.
        if let Some(us) = descendants::process(getpid()) {
            holds.extend(parts.iter().map(|part| Outer {
                name: format!("{namespace}{}", part.name),
                token: part.token,
                fence: part.fenced.as_ref().map(|fenced| fenced.fence),
                mode: part.mode,
                owner: owner.to_owned(),
                pid: us.pid.as_raw_nonzero().get(),
                started: us.started,
            }));
        }
        (VARIABLE, json!(holds).to_string())
    }

    fn of(&self, config: &Config, name: &str) -> Option<&Outer> {
        let key = format!("{}{name}", config.namespace);
        self.0.iter().rev().find(|outer| outer.name == key)
    }
}

pub(crate) fn become_if_held(
    output: Output,
    config: &Config,
    run: &Run,
    holds: &Holds,
    command: &program::Resolved,
) -> Result<(), Failure> {
    let outers: Vec<_> =
        run.names().filter_map(|name| Some((name, holds.of(config, name)?))).collect();
    let Some((name, first)) = outers.first() else { return Ok(()) };
    if let Some(other) = run.names().find(|name| holds.of(config, name).is_none()) {
        let message = format!(
            "an outer run holds {name:?} but not {other:?}; request both in the outer run, or \
             only {other:?} in this one"
        );
        return Err(Failure::new(exit::CONFLICT, "conflict", message));
    }
    outers.iter().try_for_each(|(name, outer)| check(run, name, outer))?;
    block_on(&mut Builder::new_current_thread(), async {
        let locks = config.connect().await?;
        let verified = verify_holds(&locks, &outers).await;
        locks.close().await;
        verified
    })?;
    let mut fenced = Vec::new();
    for (name, outer) in &outers {
        if let Some(fence) = outer.fence {
            fenced.push(Fenced { name: LockName::new(&outer.name)?, fence });
        }
        let granted = json!({
            "name": name,
            "fence": outer.fence,
            "owner": outer.owner,
            "mode": outer.mode,
            "nested": true,
        });
        output.event("granted", granted);
    }
    let mut command: Command = command.itself();
    let error = command.envs(program::variables(run, &fenced, &first.owner)).exec();
    let program = command.get_program().to_string_lossy().into_owned();
    let code = exit::not_executed(&error);
    Err(Failure::new(code, "not_executable", format!("{program}: {error}")))
}

fn check(run: &Run, name: &str, outer: &Outer) -> Result<(), Failure> {
    let wanted = run.mode();
    if outer.mode != wanted {
        let message = format!(
            "an outer run holds {name:?} {}, and this run requests it {wanted}; use the same mode",
            outer.mode
        );
        return Err(Failure::new(exit::CONFLICT, "conflict", message));
    }
    for (option, time) in
        [("--max-hold", run.max_hold), ("--at-least", run.at_least), ("--once-per", run.once_per)]
    {
        if time.is_some() {
            return Err(Failure::usage(format!(
                "{option} is for the outer run, which holds {name:?} already"
            )));
        }
    }
    if !is_descendant_of(outer) {
        return Err(refused(name, outer, "that run is not an ancestor of this process"));
    }
    Ok(())
}

async fn verify_holds(locks: &Locks, outers: &[(&String, &Outer)]) -> Result<(), Failure> {
    for (name, outer) in outers {
        verify_hold(locks, name, outer).await?;
    }
    Ok(())
}

async fn verify_hold(locks: &Locks, name: &str, outer: &Outer) -> Result<(), Failure> {
    let inspection = locks.inspect(name).await?;
    let ours = |holder: &&Holder| holder.token == Some(outer.token);
    let Some(holder) = inspection.holders.iter().find(ours) else {
        return Err(refused(name, outer, "the server has no such hold"));
    };
    if holder.broken.is_some() {
        return Err(refused(name, outer, "that hold was broken and expires"));
    }
    if holder.fence.is_some() && holder.fence != outer.fence {
        return Err(refused(name, outer, "the server has another fence for that hold"));
    }
    Ok(())
}

fn is_descendant_of(outer: &Outer) -> bool {
    Pid::from_raw(outer.pid).is_some_and(|pid| {
        descendants::ancestors().any(|above| above.pid == pid && above.started == outer.started)
            && descendants::may_end_us(pid)
    })
}

fn refused(name: &str, outer: &Outer, why: impl Display) -> Failure {
    let fence = outer.fence.map_or_else(String::new, |fence| format!(" with fence {fence}"));
    let message = format!(
        "{VARIABLE} names an outer hold of {name:?}{fence}, but {why}; unset it to acquire the \
         lock again"
    );
    Failure::new(exit::LOST, "lost", message)
}
