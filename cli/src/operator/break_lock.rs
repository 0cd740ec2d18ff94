use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use lockwright::operator::{BreakMode, BreakTarget, Broken, Inspection};
use lockwright::{Error, LockName, Locks, Token};
use serde_json::json;

use super::show::describe;
use super::{print, print_result};
use crate::args::Break;
use crate::json::inspection;
use crate::{Failure, duration, exit, millis};

pub(super) fn check(what: &Break, json: bool) -> Result<(), Failure> {
    LockName::new(&what.name)?;
    token(what)?;
    if !what.yes && (json || !io::stdin().is_terminal()) {
        return Err(Failure::usage("there is no terminal to confirm the break; add --yes"));
    }
    Ok(())
}

fn token(what: &Break) -> Result<Option<Token>, Failure> {
    let parse = |token: &String| {
        token.parse().map_err(|error| Failure::usage(format!("--token {token:?}: {error}")))
    };
    what.token.as_ref().map(parse).transpose()
}

pub(super) async fn break_lock(locks: &Locks, what: &Break, json: bool) -> Result<u8, Failure> {
    let seen = locks.inspect(&what.name).await?;
    if !json {
        print(&describe(&seen))?;
    }
    let target = match token(what)? {
        Some(token) => Some(BreakTarget::Token(token)),
        None => only_holder(&seen)?,
    };
    let broken = match target {
        None => Broken::NotHeld,
        Some(_) if !what.yes && !confirmed(what)? => {
            return Err(Failure::new(exit::HELD, "not_confirmed", "nothing was changed"));
        }
        // Without a token, the server would also break a later hold.
        Some(BreakTarget::Any) if !still_holds(locks, what, &seen).await? => Broken::NotHeld,
        Some(target) => {
            let how = if what.now { BreakMode::Now } else { BreakMode::RunOut };
            locks
                .break_lock(&what.name, target, how, &what.reason)
                .await
                .map_err(|error| refused(error, what.now))?
        }
    };
    let code = if broken == Broken::NotHeld { exit::HELD } else { 0 };
    let (outcome, within) = match broken {
        Broken::NotHeld => ("not_held", None),
        Broken::RunsOut(left) => ("runs_out", Some(left)),
        Broken::Freed(left) => ("freed", (left < Duration::MAX).then_some(left)),
    };
    let value = json!({
        "name": what.name,
        "outcome": outcome,
        "within_ms": within.map(millis),
        "seen": inspection(&seen),
    });
    print_result(json, &value, &sentence(broken))?;
    Ok(code)
}

fn only_holder(seen: &Inspection) -> Result<Option<BreakTarget>, Failure> {
    match seen.holders.as_slice() {
        [] => Ok(None),
        [holder] => Ok(Some(holder.token.map_or(BreakTarget::Any, BreakTarget::Token))),
        several => Err(Failure::usage(format!(
            "the lock has {} holders; choose one by --token, from `lockwright show`",
            several.len()
        ))),
    }
}

async fn still_holds(locks: &Locks, what: &Break, seen: &Inspection) -> Result<bool, Failure> {
    let now = locks.inspect(&what.name).await?;
    let constant_fields = |seen: &Inspection| -> Vec<_> {
        let holders = seen.holders.iter();
        holders.map(|by| (by.token, by.identity.clone(), by.mode, by.fence)).collect()
    };
    Ok(constant_fields(&now) == constant_fields(seen))
}

/// Adds the hint `--now`: another library's hold can only be freed at once.
fn refused(error: Error, now: bool) -> Failure {
    let mut failure = Failure::from(error);
    if failure.code == exit::CONFLICT && !now {
        failure.message += "; --now frees it at once, although its holder may still be working";
    }
    failure
}

fn confirmed(what: &Break) -> Result<bool, Failure> {
    let question = if what.now {
        "Free it at once? Its holder may still be working when the next one starts. [y/N] "
    } else {
        "Break it? It can no longer be renewed and is free when it expires. [y/N] "
    };
    let mut answer = String::new();
    write!(io::stderr(), "{question}")
        .and_then(|()| io::stderr().flush())
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(|error| Failure::os("cannot ask", error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn sentence(broken: Broken) -> String {
    match broken {
        Broken::NotHeld => "not held: nothing was changed\n".to_owned(),
        Broken::RunsOut(left) => format!(
            "broken: it can no longer be renewed and is free in at most {}\n",
            duration::show_at_most(left)
        ),
        Broken::Freed(left) if left.is_zero() => "freed\n".to_owned(),
        Broken::Freed(Duration::MAX) => {
            "freed: its holder may continue until it checks the lock, which may take any time\n"
                .to_owned()
        }
        Broken::Freed(left) => format!(
            "freed: its holder may continue for up to {}; its writes can be rejected by their \
             fence\n",
            duration::show_at_most(left)
        ),
    }
}
