//! Breaking a lock.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::validity::Rules;
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, ErrorKind, Guard, HoldState, Locks, Reason,
    RenewalOutcome, Wait,
};

use crate::case::{Case, Failure, Verdict, case, ensure, in_time};
use crate::context::{Context, refused, release, renew, take};
use crate::faults::Op;

pub(super) const CASES: &[Case] = &[
    case!(
        Breaking,
        a_break_spares_the_next_holder,
        [Breakable],
        "the hold that was seen is broken, and never the next one"
    ),
    case!(
        Breaking,
        a_break_of_a_free_name_changes_nothing,
        [Breakable],
        "nothing to break is not an error"
    ),
    case!(
        Breaking,
        a_broken_hold_runs_out,
        [Breakable],
        "it can't be renewed any more, keeps others out till its end, and is free then"
    ),
    case!(
        Breaking,
        a_broken_hold_is_not_rearmed,
        [Breakable],
        "nor by asking for it again with its token"
    ),
    case!(
        Breaking,
        a_break_says_who_and_why,
        [Breakable],
        "while the broken hold is there, so is the note"
    ),
    case!(
        Breaking,
        a_hold_can_be_freed_at_once,
        [Breakable],
        "the name is free, the old one can't be renewed, and how long belief may overlap is said"
    ),
    case!(Breaking, a_broken_client_is_told, [Breakable], "its guard is lost, with the reason"),
    case!(Breaking, whoever_holds_can_be_broken, [Breakable], "also without having been looked at"),
    case!(
        Breaking,
        a_break_is_refused_if_unsupported,
        [],
        "a backend that can't break says so, and one that can does"
    ),
    case!(
        Breaking,
        a_freed_client_is_told,
        [Breakable],
        "before the time is over for which two may believe, and its release says what became of it"
    ),
    case!(
        Breaking,
        a_break_can_be_hastened,
        [Breakable],
        "what was to run out can be freed at once, and its note is gone with it"
    ),
    case!(
        Breaking,
        a_break_names_whom_it_was_passed_on_to,
        [Breakable],
        "the token of who released it to a waiter breaks nothing; the waiter's own does"
    ),
    case!(
        Breaking,
        a_moved_hold_is_broken_by_its_new_token,
        [Breakable, Tickets],
        "and spared by the one with which it was taken"
    ),
];

async fn a_break_spares_the_next_holder(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &first).await?;
    release(&*backend, &first).await?;
    take(&context, &*backend, &second).await?;
    let seen = BreakTarget::Token(first.token);
    for how in [BreakMode::RunOut, BreakMode::Now] {
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
    for seen in [BreakTarget::Any, BreakTarget::Token(claim.token)] {
        for how in [BreakMode::RunOut, BreakMode::Now] {
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
    let seen = BreakTarget::Token(claim.token);
    let how = BreakMode::RunOut;
    let broken = backend.break_lock(&claim.name, seen, how, "the suite", "to see").await?;
    let Broken::RunsOut(left) = broken else {
        return Err(Failure::new(format!("it was answered {broken:?}")));
    };
    // Servers that count in steps may keep the hold longer, at most for the shortest TTL.
    let spare = *context.profile.ttl.start() + Duration::from_secs(1);
    ensure!(left <= context.ttl + spare, "it says that {left:?} are left");
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
    let seen = BreakTarget::Token(claim.token);
    backend.break_lock(&claim.name, seen, BreakMode::RunOut, "the suite", "to see").await?;
    context.clock.sleep(context.ttl / 2).await;
    let sent = context.clock.now();
    let mut believed_until = entry.sent;
    if let Ok(AcquireOutcome::Granted(granted)) = backend.acquire(&claim, Wait::No).await {
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
    let seen = BreakTarget::Token(claim.token);
    let how = BreakMode::RunOut;
    backend.break_lock(&claim.name, seen, how, "ada@example:1", "stuck \"job\" 7").await?;
    let holders = backend.inspect(&claim.name).await?.holders;
    let note = holders.first().and_then(|holder| holder.broken.clone());
    // The note is the same on every backend.
    ensure!(note.as_deref() == Some("ada@example:1: stuck \"job\" 7"), "the note is {note:?}");
    release(&*backend, &claim).await?;
    // The next hold has no note.
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
    let seen = BreakTarget::Token(claim.token);
    let broken = backend.break_lock(&claim.name, seen, BreakMode::Now, "the suite", "now").await?;
    let Broken::Freed(overlap) = broken else {
        return Err(Failure::new(format!("it was answered {broken:?}")));
    };
    let passed = context.clock.now().saturating_since(entry.sent);
    // The holder's deadline precedes the server's expiry by the allowance for drift.
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
    let broken = operator
        .break_lock("x", BreakTarget::Token(guard.token()), BreakMode::RunOut, "to see")
        .await?;
    ensure!(matches!(broken, Broken::RunsOut(_)), "it was answered {broken:?}");
    let told = guard.signal().ended().await;
    ensure!(told == HoldState::Lost(Reason::Broken), "it ended as {told:?}");
    let took = context.clock.now().saturating_since(begun);
    let most = context.ttl / 2 + context.moment();
    in_time!(took <= most, "it was told after {took:?}, and not by its next renewal");
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
    let (claim, next) = (context.long_claim("x"), context.long_claim("x"));
    take(&context, &*backend, &claim).await?;
    let how = BreakMode::Now;
    let broken = backend.break_lock(&claim.name, BreakTarget::Any, how, "the suite", "any").await?;
    ensure!(matches!(broken, Broken::Freed(_)), "it was answered {broken:?}");
    take(&context, &*backend, &next).await?;
    release(&*backend, &next).await
}

async fn a_break_is_refused_if_unsupported(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    match locks.break_lock("x", BreakTarget::Any, BreakMode::RunOut, "to see").await {
        Ok(Broken::NotHeld) if context.profile.breakable => Ok(()),
        Err(error) if !context.profile.breakable && error.kind() == ErrorKind::Unsupported => {
            Ok(())
        }
        other => Err(Failure::new(format!("it was answered {other:?}"))),
    }
}

/// Checks that a break by this token finds nothing.
async fn spared(context: &Context, operator: &Locks, by: BreakTarget, guard: &Guard) -> Verdict {
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let broken = operator.break_lock("x", by, how, "to see").await?;
        ensure!(broken == Broken::NotHeld, "an old token broke it: {broken:?}");
    }
    // Longer than a run-out or a notification takes.
    context.clock.sleep(context.ttl * 2).await;
    guard.check()?;
    ensure!(guard.verify().await?, "it was broken all the same");
    Ok(())
}

/// Waits for the end of the hold. Fails after three TTLs.
async fn end(context: &Context, guard: &Guard) -> Verdict<HoldState> {
    let told = tokio::time::timeout(context.ttl * 3, guard.signal().ended()).await;
    told.map_err(|_| Failure::new("its holder was never told"))
}

/// Checks that the guard is lost soon after this break.
async fn told(context: &Context, operator: &Locks, how: BreakMode, guard: &Guard) -> Verdict {
    let seen = BreakTarget::Token(guard.token());
    let begun = context.clock.now();
    let broken = operator.break_lock("x", seen, how, "to see").await?;
    ensure!(broken != Broken::NotHeld, "what is held wasn't there to break");
    let told = end(context, guard).await?;
    ensure!(matches!(told, HoldState::Lost(_)), "it ended as {told:?}");
    let took = context.clock.now().saturating_since(begun);
    let most = context.ttl / 2 + context.moment();
    in_time!(took <= most, "it was told after {took:?}, and not by its next renewal");
    Ok(())
}

async fn a_freed_client_is_told(context: Arc<Context>) -> Verdict {
    let (locks, operator) = (context.client().await?, context.client().await?);
    let guard = locks.mutex("x").acquire().await?;
    let seen = BreakTarget::Token(guard.token());
    let begun = context.clock.now();
    let broken = operator.break_lock("x", seen, BreakMode::Now, "to see").await?;
    let Broken::Freed(overlap) = broken else {
        return Err(Failure::new(format!("it was answered {broken:?}")));
    };
    // The next acquire needn't wait for the notification of the previous holder.
    let next = operator.mutex("x").try_acquire().await?;
    let Some(next) = next else { return Err(Failure::new("what was freed is still taken")) };
    let told = end(&context, &guard).await?;
    let took = context.clock.now().saturating_since(begun);
    ensure!(matches!(told, HoldState::Lost(_)), "it ended as {told:?}");
    ensure!(guard.check().is_err(), "it was told, and its guard still believes");
    in_time!(took <= overlap + context.moment(), "it was told after {took:?} of {overlap:?}");
    match guard.release().await {
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => {}
        other => return Err(Failure::new(format!("its release answered {other:?}"))),
    }
    ensure!(next.verify().await?, "the next one's hold was freed too");
    next.release().await?;
    locks.close().await;
    operator.close().await;
    Ok(())
}

async fn a_break_can_be_hastened(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.long_claim("x"), context.long_claim("x"));
    let entry = take(&context, &*backend, &claim).await?;
    let seen = BreakTarget::Token(claim.token);
    let ask = async |how| backend.break_lock(&claim.name, seen, how, "the suite", "to see").await;
    let first = ask(BreakMode::RunOut).await?;
    ensure!(matches!(first, Broken::RunsOut(_)), "the first was answered {first:?}");
    refused(&*backend, &next).await?;
    let second = ask(BreakMode::Now).await?;
    let Broken::Freed(overlap) = second else {
        return Err(Failure::new(format!("the second was answered {second:?}")));
    };
    // The holder isn't notified, and considers its hold valid until its deadline.
    let passed = context.clock.now().saturating_since(entry.sent);
    let granted = entry.granted.valid.unwrap_or(claim.ttl).min(claim.ttl);
    let least = Rules::default().validity(granted).saturating_sub(passed);
    ensure!(overlap >= least, "it admits {overlap:?}, and its holder may believe for {least:?}");
    take(&context, &*backend, &next).await?;
    let holders = backend.inspect(&next.name).await?.holders;
    ensure!(holders.iter().all(|holder| holder.broken.is_none()), "the next one bears the note");
    let third = ask(BreakMode::Now).await?;
    ensure!(third == Broken::NotHeld, "the third was answered {third:?}");
    release(&*backend, &next).await
}

async fn a_break_names_whom_it_was_passed_on_to(context: Arc<Context>) -> Verdict {
    let (one, operator) = (context.client().await?, context.client().await?);
    let (two, faulty) = context.faulty_client().await?;
    let first = one.mutex("x").acquire().await?;
    let seen = BreakTarget::Token(first.token());
    let waiter = {
        let two = two.clone();
        tokio::spawn(async move { two.mutex("x").no_limit().acquire().await })
    };
    // The second request queues with an address for notifications.
    faulty.called(Op::Acquire, 2).await;
    first.release().await?;
    let second = waiter.await??;
    spared(&context, &operator, seen, &second).await?;
    told(&context, &operator, BreakMode::RunOut, &second).await?;
    drop(second);
    for locks in [one, two, operator] {
        locks.close().await;
    }
    Ok(())
}

async fn a_moved_hold_is_broken_by_its_new_token(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let operator = context.client().await?;
    let first = one.mutex("x").acquire().await?;
    let seen = BreakTarget::Token(first.token());
    let moved = two.resume(&first.into_ticket()?).await?;
    spared(&context, &operator, seen, &moved).await?;
    told(&context, &operator, BreakMode::Now, &moved).await?;
    drop(moved);
    for locks in [one, two, operator] {
        locks.close().await;
    }
    Ok(())
}
