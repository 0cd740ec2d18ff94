use std::sync::Arc;
use std::time::Duration;

use lockwright_core::validity::Rules;
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, ErrorKind, Guard, HoldState, Locks, Reason,
    RenewalOutcome, Wait,
};

use crate::case::{Case, cases};
use crate::context::{
    Context, break_hold, close, fails, is_free, is_lost, not_renewed, refused, release, renew,
    renewed, take,
};
use crate::failure::{Failure, Verdict, ensure, in_time};
use crate::faults::Op;

pub(super) const CASES: &[Case] = cases! { Breaking:
    a_break_spares_the_next_holder [Breakable]
        "a break ends the inspected hold, never a later one";
    a_break_of_a_free_name_changes_nothing [Breakable]
        "breaking a free name succeeds and changes nothing";
    a_broken_hold_runs_out [Breakable]
        "a broken hold can't be renewed, blocks others until its end, and is then free";
    a_broken_hold_is_not_rearmed [Breakable]
        "a repeated acquire doesn't re-arm a broken hold";
    a_break_says_who_and_why [Breakable]
        "inspect shows the note until the broken hold ends";
    a_hold_can_be_freed_at_once [Breakable]
        "the name is free, the old hold can't be renewed, and the result reports the possible overlap";
    a_break_is_reported_to_the_holder [Breakable]
        "the holder's guard is lost, with the reason";
    present_holder_can_be_broken [Breakable]
        "a break without a preceding inspect ends the current hold";
    a_break_is_refused_if_unsupported []
        "a backend without breaks returns Unsupported, and other backends break the hold";
    an_immediate_break_is_reported_to_the_holder [Breakable]
        "the holder is notified before the reported overlap ends, and its release reports the loss";
    a_break_can_be_hastened [Breakable]
        "a hold that was broken to expire can be freed at once, and its note is removed";
    a_break_names_whom_it_was_passed_on_to [Breakable]
        "after a hand-over, the waiter's token breaks the hold, and the previous token doesn't";
    a_moved_hold_is_broken_by_its_new_token [Breakable, Tickets]
        "after a transfer, the new token breaks the hold, and the original token doesn't";
};

async fn a_break_spares_the_next_holder(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &first).await?;
    release(&*backend, &first).await?;
    take(&context, &*backend, &second).await?;
    let seen = BreakTarget::Token(first.token);
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let broken = backend.break_lock(&first.name, seen, how, "the suite", "to see").await?;
        ensure!(broken == Broken::NotHeld, "the break hit the next hold: {broken:?}");
    }
    refused(&*backend, &context.claim("x")).await?;
    renewed(&*backend, &second).await?;
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
    renewed(&*backend, &claim).await?;
    release(&*backend, &claim).await
}

async fn a_broken_hold_runs_out(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.claim("x"), context.claim("x"));
    let entry = take(&context, &*backend, &claim).await?;
    let broken = break_hold(&*backend, &claim, BreakMode::RunOut).await?;
    let Broken::RunsOut(left) = broken else {
        return Err(Failure::new(format!("the break was answered {broken:?}")));
    };
    // Servers round the TTL up to their time unit, at most the backend's shortest TTL. The extra
    // second is tolerance.
    let spare = *context.profile.ttl.start() + Duration::from_secs(1);
    ensure!(left <= context.ttl + spare, "the break reports {left:?} as the remaining time");
    let outcome = renew(&*backend, &claim).await?;
    let is_broken = outcome == RenewalOutcome::NotHeld(Reason::Broken);
    ensure!(is_broken, "the renewal of a broken hold was answered {outcome:?}");
    refused(&*backend, &next).await?;
    let end =
        context.granted_within(&*backend, &next, context.patience(), context.ttl / 100).await?;
    let early = (entry.sent + context.ttl).saturating_since(end.answered);
    ensure!(early.is_zero(), "the name was free {early:?} before the hold's end");
    renewed(&*backend, &next).await?;
    release(&*backend, &next).await
}

async fn a_broken_hold_is_not_rearmed(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.claim("x"), context.claim("x"));
    let entry = take(&context, &*backend, &claim).await?;
    break_hold(&*backend, &claim, BreakMode::RunOut).await?;
    context.clock.sleep(context.ttl / 2).await;
    let sent = context.clock.now();
    let mut valid_until = entry.sent;
    if let Ok(AcquireOutcome::Granted(granted)) = backend.acquire(&claim, Wait::No).await {
        valid_until = sent + granted.valid.unwrap_or(context.ttl).min(context.ttl);
    }
    let bound = context.ttl / 2 + Duration::from_secs(1) + context.moment();
    let end = context.granted_within(&*backend, &next, bound, context.ttl / 100).await?;
    ensure!(end.answered >= valid_until, "the hold ended before the repeat's reported validity");
    release(&*backend, &next).await
}

async fn a_break_says_who_and_why(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.claim("x");
    take(&context, &*backend, &claim).await?;
    let (seen, how) = (BreakTarget::Token(claim.token), BreakMode::RunOut);
    backend.break_lock(&claim.name, seen, how, "ada@example:1", "stuck \"job\" 7").await?;
    let holders = backend.inspect(&claim.name).await?.holders;
    let note = holders.first().and_then(|holder| holder.broken.clone());
    ensure!(note.as_deref() == Some("ada@example:1: stuck \"job\" 7"), "the note is {note:?}");
    release(&*backend, &claim).await?;
    let next = context.claim("x");
    take(&context, &*backend, &next).await?;
    let holders = backend.inspect(&claim.name).await?.holders;
    let has_note = holders.iter().any(|holder| holder.broken.is_some());
    ensure!(!has_note, "the next hold has the note of the broken one");
    release(&*backend, &next).await
}

async fn a_hold_can_be_freed_at_once(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.claim("x"), context.claim("x"));
    let entry = take(&context, &*backend, &claim).await?;
    let broken = break_hold(&*backend, &claim, BreakMode::Now).await?;
    let Broken::Freed(overlap) = broken else {
        return Err(Failure::new(format!("the break was answered {broken:?}")));
    };
    let passed = context.clock.now().saturating_since(entry.sent);
    // The client deducts an allowance for clock drift from the TTL.
    let least = Rules::default().validity(context.ttl).saturating_sub(passed);
    ensure!(
        overlap >= least,
        "the reported overlap is {overlap:?}, but the hold may be valid for {least:?}"
    );
    take(&context, &*backend, &next).await?;
    not_renewed(&*backend, &claim).await?;
    renewed(&*backend, &next).await?;
    release(&*backend, &next).await
}

async fn a_break_is_reported_to_the_holder(context: Arc<Context>) -> Verdict {
    let (locks, operator) = (context.client().await?, context.client().await?);
    let guard = locks.mutex("x").acquire().await?;
    let (broken, ended) = ends_in_time(&context, &operator, BreakMode::RunOut, &guard).await?;
    ensure!(matches!(broken, Broken::RunsOut(_)), "the break was answered {broken:?}");
    ensure!(ended == HoldState::Lost(Reason::Broken), "the guard ended as {ended:?}");
    fails(guard.release().await, ErrorKind::Lost(Reason::Broken))?;
    close(&[&locks, &operator]).await
}

async fn present_holder_can_be_broken(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.long_claim("x");
    take(&context, &*backend, &claim).await?;
    let how = BreakMode::Now;
    let broken = backend.break_lock(&claim.name, BreakTarget::Any, how, "the suite", "any").await?;
    ensure!(matches!(broken, Broken::Freed(_)), "the break was answered {broken:?}");
    is_free(&context, &*backend, "x").await
}

async fn a_break_is_refused_if_unsupported(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    match locks.break_lock("x", BreakTarget::Any, BreakMode::RunOut, "to see").await {
        Ok(Broken::NotHeld) if context.profile.breakable => Ok(()),
        Err(error) if !context.profile.breakable && error.kind() == ErrorKind::Unsupported => {
            Ok(())
        }
        other => Err(Failure::new(format!("the request was answered {other:?}"))),
    }
}

async fn spared(context: &Context, operator: &Locks, by: BreakTarget, guard: &Guard) -> Verdict {
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let broken = operator.break_lock("x", by, how, "to see").await?;
        ensure!(broken == Broken::NotHeld, "an old token broke the hold: {broken:?}");
    }
    context.clock.sleep(context.ttl * 2).await;
    guard.check()?;
    ensure!(guard.verify().await?, "the hold was broken by an old token");
    Ok(())
}

async fn end(context: &Context, guard: &Guard) -> Verdict<HoldState> {
    let ended = tokio::time::timeout(context.ttl * 3, guard.signal().ended()).await;
    ended.map_err(|_| Failure::new("the break was never signalled to the holder"))
}

async fn ends_in_time(
    context: &Context,
    operator: &Locks,
    how: BreakMode,
    guard: &Guard,
) -> Verdict<(Broken, HoldState)> {
    let seen = BreakTarget::Token(guard.token());
    let begun = context.clock.now();
    let broken = operator.break_lock("x", seen, how, "to see").await?;
    ensure!(broken != Broken::NotHeld, "the break didn't find the hold");
    let ended = end(context, guard).await?;
    ensure!(matches!(ended, HoldState::Lost(_)), "the guard ended as {ended:?}");
    let took = context.clock.now().saturating_since(begun);
    let most = context.ttl / 2 + context.moment();
    in_time!(took <= most, "the guard ended after {took:?}, later than its next renewal");
    Ok((broken, ended))
}

async fn an_immediate_break_is_reported_to_the_holder(context: Arc<Context>) -> Verdict {
    let (locks, operator) = (context.client().await?, context.client().await?);
    let guard = locks.mutex("x").acquire().await?;
    let seen = BreakTarget::Token(guard.token());
    let begun = context.clock.now();
    let broken = operator.break_lock("x", seen, BreakMode::Now, "to see").await?;
    let Broken::Freed(overlap) = broken else {
        return Err(Failure::new(format!("the break was answered {broken:?}")));
    };
    let next = operator.mutex("x").try_acquire().await?;
    let Some(next) = next else { return Err(Failure::new("the freed name is still held")) };
    let ended = end(&context, &guard).await?;
    let took = context.clock.now().saturating_since(begun);
    ensure!(matches!(ended, HoldState::Lost(_)), "the guard ended as {ended:?}");
    ensure!(guard.check().is_err(), "the guard has ended, but its check succeeds");
    let most = overlap + context.moment();
    in_time!(took <= most, "the guard ended after {took:?}, later than the overlap of {overlap:?}");
    is_lost(guard.release().await)?;
    ensure!(next.verify().await?, "the release of the broken hold ended the next hold");
    next.release().await?;
    close(&[&locks, &operator]).await
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
    // The holder isn't notified, so it may use its hold until the deadline.
    let passed = context.clock.now().saturating_since(entry.sent);
    let granted = entry.granted.valid.unwrap_or(claim.ttl).min(claim.ttl);
    let least = Rules::default().validity(granted).saturating_sub(passed);
    ensure!(
        overlap >= least,
        "the reported overlap is {overlap:?}, but the hold may be valid for {least:?}"
    );
    take(&context, &*backend, &next).await?;
    let holders = backend.inspect(&next.name).await?.holders;
    let has_note = holders.iter().any(|holder| holder.broken.is_some());
    ensure!(!has_note, "the next hold has the note of the broken one");
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
    // A waiter's first request doesn't queue, so wait for its second.
    faulty.called(Op::Acquire, 2).await;
    first.release().await?;
    let second = waiter.await??;
    spared(&context, &operator, seen, &second).await?;
    ends_in_time(&context, &operator, BreakMode::RunOut, &second).await?;
    drop(second);
    close(&[&one, &two, &operator]).await
}

async fn a_moved_hold_is_broken_by_its_new_token(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let operator = context.client().await?;
    let first = one.mutex("x").acquire().await?;
    let seen = BreakTarget::Token(first.token());
    let moved = two.resume(&first.into_ticket()?).await?;
    spared(&context, &operator, seen, &moved).await?;
    ends_in_time(&context, &operator, BreakMode::Now, &moved).await?;
    drop(moved);
    close(&[&one, &two, &operator]).await
}
