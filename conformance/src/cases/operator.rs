//! What operators see and do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::validity::Rules;
use lockwright_core::{
    Attempt, BreakHow, Broken, ErrorKind, HoldState, Reason, RenewalOutcome, Seen, Wait,
};

use crate::case::{Case, Failure, Verdict, case, ensure};
use crate::context::{Context, refused, release, renew, take};

pub(super) const CASES: &[Case] = &[
    case!(Operator, a_holder_is_shown, [], "token, who it is, how it holds, and how long yet"),
    case!(Operator, a_free_name_is_no_error, [], "a name that was never locked is free"),
    case!(
        Operator,
        a_listing_has_each_name_once,
        [],
        "over as many pages as it takes, and nothing else"
    ),
    case!(
        Operator,
        a_break_spares_the_next_holder,
        [Breakable],
        "the hold that was seen is broken, and never the next one"
    ),
    case!(
        Operator,
        a_break_of_a_free_name_changes_nothing,
        [Breakable],
        "nothing to break is not an error"
    ),
    case!(
        Operator,
        a_broken_hold_runs_out,
        [Breakable],
        "it can't be renewed any more, keeps others out till its end, and is free then"
    ),
    case!(
        Operator,
        a_broken_hold_is_not_rearmed,
        [Breakable],
        "nor by asking for it again with its token"
    ),
    case!(
        Operator,
        a_break_says_who_and_why,
        [Breakable],
        "while the broken hold is there, so is the note"
    ),
    case!(
        Operator,
        a_hold_can_be_freed_at_once,
        [Breakable],
        "the name is free, the old one can't be renewed, and how long belief may overlap is said"
    ),
    case!(Operator, a_broken_client_is_told, [Breakable], "its guard is lost, with the reason"),
    case!(Operator, whoever_holds_can_be_broken, [Breakable], "also without having been looked at"),
    case!(
        Operator,
        a_break_is_refused_if_unsupported,
        [],
        "a backend that can't break says so, and one that can does"
    ),
    case!(
        Operator,
        a_doctor_has_something_to_say,
        [],
        "it answers, and each finding says what, why and how to mend it"
    ),
];

async fn a_holder_is_shown(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.claim("x");
    take(&context, &*backend, &claim).await?;
    let inspection = backend.inspect(&claim.name).await?;
    ensure!(inspection.name == claim.name, "it is shown as {}", inspection.name);
    ensure!(inspection.holders.len() == 1, "it has {} holders", inspection.holders.len());
    let holder = &inspection.holders[0];
    ensure!(holder.token == Some(claim.token), "its token is shown as {:?}", holder.token);
    ensure!(holder.mode == claim.mode, "it is shown as {}", holder.mode);
    ensure!(holder.broken.is_none(), "it is shown as broken");
    if let Some(identity) = &holder.identity {
        ensure!(*identity == *claim.identity, "it is shown to be {identity}");
    }
    if let Some(remaining) = holder.remaining {
        let most = context.ttl + Duration::from_secs(1);
        ensure!(!remaining.is_zero() && remaining <= most, "{remaining:?} are left");
    }
    release(&*backend, &claim).await
}

async fn a_free_name_is_no_error(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let inspection = backend.inspect(&context.name("never")).await?;
    ensure!(inspection.holders.is_empty(), "it is held by {:?}", inspection.holders);
    ensure!(inspection.waiters.is_none_or(|waiters| waiters == 0), "somebody waits for it");
    let claim = context.claim("once");
    take(&context, &*backend, &claim).await?;
    release(&*backend, &claim).await?;
    let inspection = backend.inspect(&claim.name).await?;
    ensure!(inspection.holders.is_empty(), "released, it is held by {:?}", inspection.holders);
    Ok(())
}

async fn a_listing_has_each_name_once(context: Arc<Context>) -> Verdict {
    const NAMES: usize = 230;
    let backend = context.backend().await?;
    let mut claims = Vec::new();
    for number in 0..NAMES {
        let mut claim = context.claim(&format!("x{number}"));
        // Taking so many takes its time.
        claim.ttl = (context.ttl * 30).min(*context.profile.ttl.end());
        take(&context, &*backend, &claim).await?;
        claims.push(claim);
    }
    let mut listed: HashMap<String, usize> = HashMap::new();
    for name in context.held(&*backend).await? {
        *listed.entry(name.to_string()).or_default() += 1;
    }
    for claim in &claims {
        let times = listed.remove(claim.name.as_str()).unwrap_or_default();
        ensure!(times == 1, "{} is listed {times} times", claim.name);
    }
    ensure!(listed.is_empty(), "nobody holds {listed:?}");
    for claim in &claims {
        release(&*backend, claim).await?;
    }
    Ok(())
}

async fn a_break_spares_the_next_holder(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &first).await?;
    release(&*backend, &first).await?;
    take(&context, &*backend, &second).await?;
    let seen = Seen::Token(first.token);
    for how in [BreakHow::RunOut, BreakHow::Now] {
        let broken = backend.break_lock(&first.name, seen, how, "the suite", "to see").await?;
        ensure!(broken == Broken::NotHeld, "the next one's hold was broken: {broken:?}");
    }
    refused(&*backend, &context.claim("x")).await?;
    let outcome = renew(&*backend, &second).await?;
    ensure!(matches!(outcome, RenewalOutcome::Renewed { .. }), "the next one lost it: {outcome:?}");
    release(&*backend, &second).await
}

async fn a_break_of_a_free_name_changes_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.claim("x");
    for seen in [Seen::Any, Seen::Token(claim.token)] {
        for how in [BreakHow::RunOut, BreakHow::Now] {
            let broken = backend.break_lock(&claim.name, seen, how, "the suite", "to see").await?;
            ensure!(broken == Broken::NotHeld, "a free name was broken: {broken:?}");
        }
    }
    take(&context, &*backend, &claim).await?;
    let outcome = renew(&*backend, &claim).await?;
    ensure!(matches!(outcome, RenewalOutcome::Renewed { .. }), "an old break hit it: {outcome:?}");
    release(&*backend, &claim).await
}

async fn a_broken_hold_runs_out(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.claim("x"), context.claim("x"));
    let entry = take(&context, &*backend, &claim).await?;
    let seen = Seen::Token(claim.token);
    let how = BreakHow::RunOut;
    let broken = backend.break_lock(&claim.name, seen, how, "the suite", "to see").await?;
    let Broken::RunsOut(left) = broken else {
        return Err(Failure::new(format!("it was answered {broken:?}")));
    };
    ensure!(left <= context.ttl + Duration::from_secs(1), "it says that {left:?} are left");
    let outcome = renew(&*backend, &claim).await?;
    ensure!(outcome == RenewalOutcome::NotHeld(Reason::Broken), "its renewal: {outcome:?}");
    refused(&*backend, &next).await?;
    let end =
        context.granted_within(&*backend, &next, context.patience(), context.ttl / 100).await?;
    ensure!(
        end.answered >= entry.sent + context.ttl,
        "it was free {:?} before its end",
        (entry.sent + context.ttl).saturating_since(end.answered)
    );
    let outcome = renew(&*backend, &next).await?;
    ensure!(matches!(outcome, RenewalOutcome::Renewed { .. }), "the next one lost it: {outcome:?}");
    release(&*backend, &next).await
}

async fn a_broken_hold_is_not_rearmed(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.claim("x"), context.claim("x"));
    let entry = take(&context, &*backend, &claim).await?;
    let seen = Seen::Token(claim.token);
    backend.break_lock(&claim.name, seen, BreakHow::RunOut, "the suite", "to see").await?;
    context.clock.sleep(context.ttl / 2).await;
    let sent = context.clock.now();
    let mut believed_until = entry.sent;
    if let Ok(Attempt::Granted(granted)) = backend.acquire(&claim, Wait::No).await {
        believed_until = sent + granted.valid.unwrap_or(context.ttl).min(context.ttl);
    }
    let bound = context.ttl / 2 + Duration::from_secs(1) + context.moment();
    let end = context.granted_within(&*backend, &next, bound, context.ttl / 100).await?;
    ensure!(end.answered >= believed_until, "the repeat was said to be valid for longer");
    release(&*backend, &next).await
}

async fn a_break_says_who_and_why(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.claim("x");
    take(&context, &*backend, &claim).await?;
    let seen = Seen::Token(claim.token);
    let how = BreakHow::RunOut;
    backend.break_lock(&claim.name, seen, how, "ada@example:1", "stuck \"job\" 7").await?;
    let holders = backend.inspect(&claim.name).await?.holders;
    let note = holders.first().and_then(|holder| holder.broken.clone());
    // The same words everywhere, whichever backend it is.
    ensure!(note.as_deref() == Some("ada@example:1: stuck \"job\" 7"), "the note is {note:?}");
    release(&*backend, &claim).await?;
    // The name bears no trace of it.
    let next = context.claim("x");
    take(&context, &*backend, &next).await?;
    let holders = backend.inspect(&claim.name).await?.holders;
    ensure!(holders.iter().all(|holder| holder.broken.is_none()), "the next one bears the note");
    release(&*backend, &next).await
}

async fn a_hold_can_be_freed_at_once(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.claim("x"), context.claim("x"));
    let entry = take(&context, &*backend, &claim).await?;
    let seen = Seen::Token(claim.token);
    let broken = backend.break_lock(&claim.name, seen, BreakHow::Now, "the suite", "now").await?;
    let Broken::Freed(overlap) = broken else {
        return Err(Failure::new(format!("it was answered {broken:?}")));
    };
    let passed = context.clock.now().saturating_since(entry.sent);
    // The holder's belief ends a drift before the server's expiry.
    let least = Rules::default().validity(context.ttl).saturating_sub(passed);
    ensure!(overlap >= least, "it admits {overlap:?}, and its holder may believe for {least:?}");
    take(&context, &*backend, &next).await?;
    let outcome = renew(&*backend, &claim).await?;
    ensure!(matches!(outcome, RenewalOutcome::NotHeld(_)), "the old one was renewed: {outcome:?}");
    let outcome = renew(&*backend, &next).await?;
    ensure!(matches!(outcome, RenewalOutcome::Renewed { .. }), "the next one lost it: {outcome:?}");
    release(&*backend, &next).await
}

async fn a_broken_client_is_told(context: Arc<Context>) -> Verdict {
    let (locks, operator) = (context.client().await?, context.client().await?);
    let guard = locks.mutex("x").acquire().await?;
    let begun = context.clock.now();
    let broken =
        operator.break_lock("x", Seen::Token(guard.token()), BreakHow::RunOut, "to see").await?;
    ensure!(matches!(broken, Broken::RunsOut(_)), "it was answered {broken:?}");
    let told = guard.signal().ended().await;
    ensure!(told == HoldState::Lost(Reason::Broken), "it ended as {told:?}");
    let took = context.clock.now().saturating_since(begun);
    let most = context.ttl / 2 + context.moment();
    ensure!(took <= most, "it was told after {took:?}, and not by its next renewal");
    match guard.release().await {
        Err(error) if error.kind() == ErrorKind::Lost(Reason::Broken) => {}
        other => return Err(Failure::new(format!("its release answered {other:?}"))),
    }
    locks.close().await;
    operator.close().await;
    Ok(())
}

async fn whoever_holds_can_be_broken(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &claim).await?;
    let how = BreakHow::Now;
    let broken = backend.break_lock(&claim.name, Seen::Any, how, "the suite", "any").await?;
    ensure!(matches!(broken, Broken::Freed(_)), "it was answered {broken:?}");
    take(&context, &*backend, &next).await?;
    release(&*backend, &next).await
}

async fn a_break_is_refused_if_unsupported(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    match locks.break_lock("x", Seen::Any, BreakHow::RunOut, "to see").await {
        Ok(Broken::NotHeld) if context.profile.breakable => Ok(()),
        Err(error) if !context.profile.breakable && error.kind() == ErrorKind::Unsupported => {
            Ok(())
        }
        other => Err(Failure::new(format!("it was answered {other:?}"))),
    }
}

async fn a_doctor_has_something_to_say(context: Arc<Context>) -> Verdict {
    for finding in context.backend().await?.doctor().await? {
        let complete = [finding.code, &finding.what, &finding.why, &finding.fix];
        ensure!(complete.iter().all(|text| !text.is_empty()), "incomplete: {finding:?}");
        let kebab =
            finding.code.bytes().all(|b| b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit());
        ensure!(kebab, "its code is {:?}", finding.code);
    }
    Ok(())
}
