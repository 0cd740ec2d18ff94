use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Claim, HoldState, Reason, RenewalMode, Token, Wait};
use tokio::time::timeout;

use crate::cancel::after_polls;
use crate::case::{Case, cases};
use crate::context::{Context, is_lost, soon};
use crate::failure::{Failure, Verdict, ensure, given, in_time};
use crate::faults::{Fate, Op};

pub(super) const CASES: &[Case] = cases! { Expiry:
    a_hold_is_free_after_its_ttl []
        "without a renewal, the name is free one TTL after the grant";
    a_hold_is_not_free_before_its_ttl []
        "the server's TTL is rounded up, never down";
    a_fixed_hold_ends_too []
        "a hold without automatic renewal ends after its TTL, and not before";
    each_hold_has_its_own_ttl []
        "two holds of one connection expire after their own TTLs";
    an_expired_hold_is_not_shown []
        "inspect shows an expired hold's name as free without another claim";
    a_client_that_dies_while_asking_leaves_an_expiry []
        "a request that is dropped at any point never leaves a hold without an expiry";
    the_shortest_ttl_works []
        "the profile's shortest TTL is accepted, and the hold expires";
    the_longest_ttl_works []
        "the profile's longest TTL is accepted, and the hold can be released";
    a_deadline_is_reckoned_from_the_send []
        "after a slow answer, the client's deadline isn't later than the server's expiry";
    a_grant_after_its_deadline_is_none []
        "a grant that arrives after its deadline is not used";
    a_fixed_guard_says_that_it_ended []
        "a guard without renewal is lost by its deadline, with the reason";
    at_least_keeps_a_released_lock [KeepsAfterRelease]
        "with at_least, a released lock stays held without its client, and a waiter then gets it";
};
const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns how late a hold may end: servers round a TTL up by at most a second.
fn late(context: &Context) -> Duration {
    Duration::from_secs(1) + context.ttl / 10 + context.moment()
}

async fn a_hold_is_free_after_its_ttl(context: Context) -> Verdict {
    let two = context.another().await?;
    context.take(&context.claim("x")).await?;
    two.are_free_within(&["x"], context.ttl + late(&context)).await
}

async fn lasts(context: &Context, claim: Claim) -> Verdict {
    let until = context.take(&claim).await?.sent + claim.ttl;
    let next = Claim { token: Token::random(), ..claim };
    context.clock.sleep_until(until - next.ttl / 3).await;
    let refused = context.refused(&next).await;
    in_time!(refused.is_ok() || context.clock.now() < until, "the claim was sent after the expiry");
    refused?;
    context.clock.sleep_until(until - 8 * MILLISECOND).await;
    let end = context.granted_every(MILLISECOND, &next, late(context), Wait::No).await?;
    let (ttl, early) = (next.ttl, until.saturating_since(end.answered));
    ensure!(early.is_zero(), "with a TTL of {ttl:?}, the name was free {early:?} early");
    context.release(&next).await
}

async fn a_hold_is_not_free_before_its_ttl(context: Context) -> Verdict {
    // Servers may round these up to milliseconds or seconds, but not down.
    for (name, micros) in [("x0", 900), ("x1", 499_000), ("x2", 1_000)] {
        let ttl = context.ttl + Duration::from_micros(micros);
        lasts(&context, Claim { ttl, ..context.claim(name) }).await?;
    }
    Ok(())
}

async fn a_fixed_hold_ends_too(context: Context) -> Verdict {
    lasts(&context, Claim { renewal_mode: RenewalMode::Off, ..context.claim("x") }).await
}

async fn each_hold_has_its_own_ttl(context: Context) -> Verdict {
    let long = Claim { ttl: context.ttl * 4, ..context.claim("long") };
    let begun = context.take(&long).await?.sent;
    context.take(&context.claim("short")).await?;
    context.are_free_within(&["short"], context.ttl + late(&context)).await?;
    if context.clock.now() < begun + long.ttl {
        context.is_held("long").await?;
    }
    context.release(&long).await
}

async fn an_expired_hold_is_not_shown(context: Context) -> Verdict {
    let claim = context.claim("x");
    let entry = context.take(&claim).await?;
    let listed = context.held().await?;
    ensure!(listed == [claim.name], "the name is held but not listed");
    let give_up = entry.sent + context.ttl + late(&context);
    loop {
        let (holders, listed) = (context.holders("x").await?, context.held().await?);
        if holders.is_empty() && listed.is_empty() {
            return Ok(());
        }
        let is_in_time = context.clock.now() < give_up;
        in_time!(is_in_time, "after its TTL, the hold is still shown: {holders:?}, {listed:?}");
        context.clock.sleep(context.ttl / 50).await;
    }
}

async fn a_client_that_dies_while_asking_leaves_an_expiry(context: Context) -> Verdict {
    for polls in 1..40 {
        let dying = context.another().await?;
        let name = format!("x{polls}");
        let answer = after_polls(polls, dying.backend.try_acquire(&context.claim(&name))).await;
        drop(dying);
        let free = context.are_free_within(&[&name], context.ttl + late(&context)).await;
        if let Err(failure) = free {
            return Err(Failure::new(format!("dropped after {polls} polls, and {failure}")));
        }
        if answer.is_some() {
            return Ok(());
        }
    }
    Err(Failure::new("an acquire was not done after 40 polls"))
}

async fn the_shortest_ttl_works(context: Context) -> Verdict {
    // A connection's first request may take longer than the shortest TTL.
    context.is_free("first").await?;
    let ttl = *context.profile.ttl.start();
    soon(async |name| {
        context.take(&Claim { ttl, ..context.claim(name) }).await?;
        context.are_free_within(&[name], ttl + late(&context)).await
    })
    .await
}

async fn the_longest_ttl_works(context: Context) -> Verdict {
    let ttl = *context.profile.ttl.end();
    let claim = context.taken(Claim { ttl, ..context.claim("x") }).await?;
    context.is_held("x").await?;
    let holders = context.holders("x").await?;
    ensure!(!holders.is_empty(), "the name is held, but inspect shows no holder");
    for holder in holders {
        let nearly = ttl - Duration::from_secs(60).min(ttl / 2);
        let left = holder.remaining;
        let is_enough = left.is_none_or(|left| left >= nearly);
        ensure!(is_enough, "the TTL is {ttl:?}, but only {left:?} are left");
    }
    context.release(&claim).await
}

async fn slow_answer(context: &Context, delay: Duration) -> Verdict {
    let faulty = context.faulty().await?;
    let tested = context.tested_client(Arc::new(faulty.clone()))?;
    faulty.next(Op::Acquire, [Fate::DelayAnswer(delay)]);
    let next = context.claim("x");
    let racing = async {
        faulty.called(Op::Acquire, 1).await;
        context.clock.sleep(context.ttl / 10).await;
        let within = context.ttl + delay + late(context);
        context.granted_every(MILLISECOND, &next, within, Wait::No).await
    };
    let holding = async {
        let hold = tested.try_acquire(&context.name("x"), true).await;
        let (answered, mut last) = (context.clock.now(), None);
        if let Ok(Some(hold)) = &hold {
            while hold.is_valid() && context.clock.now() <= answered + context.ttl * 4 {
                last = Some(context.clock.now());
                context.clock.sleep(MILLISECOND).await;
            }
        }
        (hold, answered, last)
    };
    let ((hold, answered, last), entry) = tokio::join!(holding, racing);
    let entry = entry?;
    in_time!(delay > context.ttl || last.is_some(), "inconclusive: the hold was never valid");
    if let Some(last) = last {
        let late = last.saturating_since(entry.answered);
        ensure!(late.is_zero(), "the client's hold was valid for {late:?} after the next grant");
    }
    let began_before = answered < entry.answered || last.is_none();
    ensure!(began_before, "the client's hold became valid after the next grant");
    if let Ok(Some(hold)) = hold {
        let _ = hold.release().await;
    }
    context.is_held("x").await?;
    context.release(&next).await
}

async fn a_deadline_is_reckoned_from_the_send(context: Context) -> Verdict {
    slow_answer(&context, context.ttl / 2).await
}

async fn a_grant_after_its_deadline_is_none(context: Context) -> Verdict {
    slow_answer(&context, context.ttl * 3 / 2).await
}

async fn a_fixed_guard_says_that_it_ended(context: Context) -> Verdict {
    let guard = context.client().await?.mutex("x").fixed().acquire().await?;
    let deadline = guard.deadline();
    let ended = guard.signal().ended().await;
    ensure!(ended == HoldState::Lost(Reason::Expired), "the guard ended as {ended:?}");
    let late = context.clock.now().saturating_since(deadline);
    in_time!(late <= context.moment(), "the loss was signalled {late:?} late");
    ensure!(guard.check().is_err(), "the guard is lost, but its check succeeds");
    is_lost(guard.release().await)
}

async fn at_least_keeps_a_released_lock(context: Context) -> Verdict {
    let (range, ttl) = (context.profile.ttl.clone(), context.ttl);
    for (ttl, time) in [(ttl, ttl * 2), (ttl * 10, ttl / 2)] {
        let [ttl, time] = [ttl, time].map(|time| time.clamp(*range.start(), *range.end()));
        let (one, two) = context.two_clients().await?;
        let begun = context.clock.now();
        one.mutex("x").ttl(ttl).at_least(time).acquire().await?.release().await?;
        one.close().await;
        drop(one);
        let holder = given(context.holders("x").await?.pop(), "the released lock is free at once")?;
        let left = holder.remaining.unwrap_or_default();
        ensure!(left <= time + late(&context), "the released lock is shown with {left:?} left");
        let within = time + context.profile.slow_poll + late(&context);
        let next = timeout(within, two.mutex("x").acquire()).await;
        in_time!(next.is_ok(), "a lock with at_least {time:?} was not free within {within:?}");
        let took = context.clock.now().saturating_since(begun);
        ensure!(took >= time, "the lock was free after {took:?}, not {time:?}");
        next.expect("it was checked")?.release().await?;
    }
    Ok(())
}
