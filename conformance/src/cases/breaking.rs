use std::time::Duration;

use lockwright_core::validity::Rules;
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, ErrorKind, Guard, HoldState, Locks, Reason,
    RenewalOutcome, Wait,
};
use tokio::time::timeout;

use crate::case::{Case, cases};
use crate::context::{Context, Grant, fails, is_lost};
use crate::failure::{Failure, Verdict, ensure, given, in_time};
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
const BOTH: [BreakMode; 2] = [BreakMode::RunOut, BreakMode::Now];

fn freed(broken: Broken) -> Verdict<Duration> {
    match broken {
        Broken::Freed(overlap) => Ok(overlap),
        other => Err(Failure::new(format!("the break was answered {other:?}"))),
    }
}

async fn a_break_spares_the_next_holder(context: Context) -> Verdict {
    let first = context.taken(context.claim("x")).await?;
    context.release(&first).await?;
    let second = context.taken(context.claim("x")).await?;
    for how in BOTH {
        let broken = context.break_hold(&first, how).await?;
        ensure!(broken == Broken::NotHeld, "the break hit the next hold: {broken:?}");
    }
    context.is_held("x").await?;
    context.renewed(&second).await?;
    context.release(&second).await
}

async fn a_break_of_a_free_name_changes_nothing(context: Context) -> Verdict {
    let claim = context.claim("x");
    for seen in [BreakTarget::Any, BreakTarget::Token(claim.token)] {
        for how in BOTH {
            let broken = context.break_seen(&claim.name, seen, how).await?;
            ensure!(broken == Broken::NotHeld, "a free name was broken: {broken:?}");
        }
    }
    context.take(&claim).await?;
    context.renewed(&claim).await?;
    context.release(&claim).await
}

async fn a_broken_hold_runs_out(context: Context) -> Verdict {
    let (claim, next) = (context.claim("x"), context.claim("x"));
    let entry = context.take(&claim).await?;
    let broken = context.break_hold(&claim, BreakMode::RunOut).await?;
    let Broken::RunsOut(left) = broken else {
        return Err(Failure::new(format!("the break was answered {broken:?}")));
    };
    // Servers round the TTL up to their unit, at most the shortest TTL. The second is tolerance.
    let spare = *context.profile.ttl.start() + Duration::from_secs(1);
    ensure!(left <= context.ttl + spare, "the break reports {left:?} as the remaining time");
    let outcome = context.renew(&claim).await?;
    let is_broken = outcome == RenewalOutcome::NotHeld(Reason::Broken);
    ensure!(is_broken, "the renewal of a broken hold was answered {outcome:?}");
    context.refused(&next).await?;
    let end = context.granted_in_the_end(&next).await?;
    let early = (entry.sent + context.ttl).saturating_since(end.answered);
    ensure!(early.is_zero(), "the name was free {early:?} before the hold's end");
    context.renewed(&next).await?;
    context.release(&next).await
}

async fn a_broken_hold_is_not_rearmed(context: Context) -> Verdict {
    let (claim, next) = (context.claim("x"), context.claim("x"));
    let mut valid_until = context.take(&claim).await?.sent;
    context.break_hold(&claim, BreakMode::RunOut).await?;
    context.clock.sleep(context.ttl / 2).await;
    let left = async || {
        let holders = context.holders("x").await;
        holders.map(|holders| holders.first().and_then(|holder| holder.remaining))
    };
    let before = left().await?;
    let sent = context.clock.now();
    if let Ok(AcquireOutcome::Granted(granted)) = context.backend.acquire(&claim, Wait::No).await {
        valid_until = sent + granted.valid.unwrap_or(context.ttl).min(context.ttl);
    }
    if let (Some(before), Some(after)) = (before, left().await?) {
        // A session's hold may last for one TTL after the break, so a repeat may add the time
        // between grant and break. A renewal would add half of the TTL.
        let most = before + context.ttl / 4;
        ensure!(after <= most, "{before:?} were left, and {after:?} after the repeat");
    }
    let bound = context.ttl / 2 + Duration::from_secs(1) + context.moment();
    let end = context.granted_within(&next, bound).await?;
    ensure!(end.answered >= valid_until, "the hold ended before the repeat's reported validity");
    context.release(&next).await
}

async fn a_break_says_who_and_why(context: Context) -> Verdict {
    let claim = context.taken(context.claim("x")).await?;
    let (seen, how) = (BreakTarget::Token(claim.token), BreakMode::RunOut);
    context.backend.break_lock(&claim.name, seen, how, "ada@example:1", "stuck \"job\" 7").await?;
    let holders = context.holders("x").await?;
    let note = holders.first().and_then(|holder| holder.broken.clone());
    ensure!(note.as_deref() == Some("ada@example:1: stuck \"job\" 7"), "the note is {note:?}");
    context.release(&claim).await?;
    let next = context.taken(context.claim("x")).await?;
    has_no_note(&context).await?;
    context.release(&next).await
}

async fn has_no_note(context: &Context) -> Verdict {
    let has_note = context.holders("x").await?.iter().any(|holder| holder.broken.is_some());
    ensure!(!has_note, "the next hold has the note of the broken one");
    Ok(())
}

/// `overlap` must last until the deadline: the holder may not notice the break earlier.
fn admits(overlap: Duration, context: &Context, entry: &Grant, ttl: Duration) -> Verdict {
    let passed = context.clock.now().saturating_since(entry.sent);
    let granted = entry.granted.valid.unwrap_or(ttl).min(ttl);
    let least = Rules::default().validity(granted).saturating_sub(passed);
    ensure!(
        overlap >= least,
        "the reported overlap is {overlap:?}, but the hold may be valid for {least:?}"
    );
    Ok(())
}

async fn a_hold_can_be_freed_at_once(context: Context) -> Verdict {
    let claim = context.claim("x");
    let entry = context.take(&claim).await?;
    let overlap = freed(context.break_hold(&claim, BreakMode::Now).await?)?;
    admits(overlap, &context, &entry, claim.ttl)?;
    let next = context.taken(context.claim("x")).await?;
    context.not_renewed(&claim).await?;
    context.renewed(&next).await?;
    context.release(&next).await
}

async fn a_break_is_reported_to_the_holder(context: Context) -> Verdict {
    let guard = context.guard().await?;
    let (broken, ended) = ends_in_time(&context, BreakMode::RunOut, &guard).await?;
    ensure!(matches!(broken, Broken::RunsOut(_)), "the break was answered {broken:?}");
    ensure!(ended == HoldState::Lost(Reason::Broken), "the guard ended as {ended:?}");
    fails(guard.release().await, ErrorKind::Lost(Reason::Broken))
}

async fn present_holder_can_be_broken(context: Context) -> Verdict {
    let claim = context.taken(context.long_claim("x")).await?;
    freed(context.break_seen(&claim.name, BreakTarget::Any, BreakMode::Now).await?)?;
    context.is_free("x").await
}

async fn a_break_is_refused_if_unsupported(context: Context) -> Verdict {
    let locks = context.client().await?;
    match locks.break_lock("x", BreakTarget::Any, BreakMode::RunOut, "to see").await {
        Ok(Broken::NotHeld) if context.profile.breakable => Ok(()),
        answer if context.profile.breakable => {
            Err(Failure::new(format!("the request was answered {answer:?}")))
        }
        answer => fails(answer, ErrorKind::Unsupported),
    }
}

async fn spared(context: &Context, operator: &Locks, by: BreakTarget, guard: &Guard) -> Verdict {
    for how in BOTH {
        let broken = operator.break_lock("x", by, how, "to see").await?;
        ensure!(broken == Broken::NotHeld, "an old token broke the hold: {broken:?}");
    }
    context.clock.sleep(context.ttl * 2).await;
    guard.check()?;
    ensure!(guard.verify().await?, "the hold was broken by an old token");
    Ok(())
}

async fn end(context: &Context, guard: &Guard) -> Verdict<HoldState> {
    let ended = timeout(context.ttl * 3, guard.signal().ended()).await;
    let ended = ended.map_err(|_| Failure::new("the break was never signalled to the holder"))?;
    ensure!(matches!(ended, HoldState::Lost(_)), "the guard ended as {ended:?}");
    Ok(ended)
}

async fn ends_in_time(
    context: &Context,
    how: BreakMode,
    guard: &Guard,
) -> Verdict<(Broken, HoldState)> {
    let (operator, seen) = (context.client().await?, BreakTarget::Token(guard.token()));
    let begun = context.clock.now();
    let broken = operator.break_lock("x", seen, how, "to see").await?;
    ensure!(broken != Broken::NotHeld, "the break didn't find the hold");
    let ended = end(context, guard).await?;
    let took = context.clock.now().saturating_since(begun);
    let most = context.ttl / 2 + context.moment();
    in_time!(took <= most, "the guard ended after {took:?}, later than its next renewal");
    Ok((broken, ended))
}

async fn an_immediate_break_is_reported_to_the_holder(context: Context) -> Verdict {
    let (guard, operator) = (context.guard().await?, context.client().await?);
    let seen = BreakTarget::Token(guard.token());
    let begun = context.clock.now();
    let overlap = freed(operator.break_lock("x", seen, BreakMode::Now, "to see").await?)?;
    let next = operator.mutex("x").try_acquire().await?;
    let next = given(next, "the freed name is still held")?;
    end(&context, &guard).await?;
    let took = context.clock.now().saturating_since(begun);
    ensure!(guard.check().is_err(), "the guard has ended, but its check succeeds");
    let most = overlap + context.moment();
    in_time!(took <= most, "the guard ended after {took:?}, later than the overlap of {overlap:?}");
    is_lost(guard.release().await)?;
    ensure!(next.verify().await?, "the release of the broken hold ended the next hold");
    Ok(next.release().await?)
}

async fn a_break_can_be_hastened(context: Context) -> Verdict {
    let claim = context.long_claim("x");
    let entry = context.take(&claim).await?;
    let first = context.break_hold(&claim, BreakMode::RunOut).await?;
    ensure!(matches!(first, Broken::RunsOut(_)), "the first was answered {first:?}");
    context.is_held("x").await?;
    let second = context.break_hold(&claim, BreakMode::Now).await?;
    let Broken::Freed(overlap) = second else {
        return Err(Failure::new(format!("the second was answered {second:?}")));
    };
    admits(overlap, &context, &entry, claim.ttl)?;
    let next = context.taken(context.long_claim("x")).await?;
    has_no_note(&context).await?;
    let third = context.break_hold(&claim, BreakMode::Now).await?;
    ensure!(third == Broken::NotHeld, "the third was answered {third:?}");
    context.release(&next).await
}

async fn a_break_names_whom_it_was_passed_on_to(context: Context) -> Verdict {
    let (first, operator) = (context.guard().await?, context.client().await?);
    let (two, faulty) = context.faulty_client().await?;
    let seen = BreakTarget::Token(first.token());
    let waiter = tokio::spawn(two.mutex("x").no_limit().acquire());
    // A waiter's first request doesn't queue.
    faulty.called(Op::Acquire, 2).await;
    first.release().await?;
    let second = waiter.await??;
    spared(&context, &operator, seen, &second).await?;
    ends_in_time(&context, BreakMode::RunOut, &second).await?;
    Ok(())
}

async fn a_moved_hold_is_broken_by_its_new_token(context: Context) -> Verdict {
    let (first, two) = (context.guard().await?, context.client().await?);
    let operator = context.client().await?;
    let seen = BreakTarget::Token(first.token());
    let moved = two.resume(&first.into_ticket()?).await?;
    spared(&context, &operator, seen, &moved).await?;
    ends_in_time(&context, BreakMode::Now, &moved).await?;
    Ok(())
}
