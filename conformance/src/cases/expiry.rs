use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Claim, DistributedLock, HoldState, Reason, RenewalMode};

use crate::cancel::after_polls;
use crate::case::{Case, cases};
use crate::context::{Context, close, is_free, is_lost, refused, release, release_all, soon, take};
use crate::failure::{Failure, Verdict, ensure, in_time};
use crate::faults::{Fate, Faulty, Op};

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
};

/// Servers round a TTL up by at most a second.
fn late(context: &Context) -> Duration {
    Duration::from_secs(1) + context.ttl / 10 + context.moment()
}

async fn a_hold_is_free_after_its_ttl(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.backend().await?, context.backend().await?);
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*one, &first).await?;
    let within = context.ttl + late(&context);
    context.granted_within(&*two, &second, within, context.ttl / 100).await?;
    release(&*two, &second).await
}

async fn lasts(context: &Context, backend: &dyn DistributedLock, claim: &Claim) -> Verdict {
    let entry = take(context, backend, claim).await?;
    let until = entry.sent + claim.ttl;
    let mut next = claim.clone();
    next.token = lockwright_core::Token::random();
    context.clock.sleep_until(until - claim.ttl / 3).await;
    refused(backend, &next).await?;
    context.clock.sleep_until(until - Duration::from_millis(8)).await;
    let end =
        context.granted_within(backend, &next, late(context), Duration::from_millis(1)).await?;
    let (ttl, early) = (claim.ttl, until.saturating_since(end.answered));
    ensure!(early.is_zero(), "with a TTL of {ttl:?}, the name was free {early:?} early");
    release(backend, &next).await
}

async fn a_hold_is_not_free_before_its_ttl(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    // Servers may round these TTLs up to milliseconds or seconds, but not down.
    let ttls = [
        context.ttl + Duration::from_micros(900),
        context.ttl + Duration::from_millis(499),
        context.ttl + Duration::from_millis(1),
    ];
    for (number, ttl) in ttls.into_iter().enumerate() {
        let mut claim = context.claim(&format!("x{number}"));
        claim.ttl = ttl;
        lasts(&context, &*backend, &claim).await?;
    }
    Ok(())
}

async fn a_fixed_hold_ends_too(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let mut claim = context.claim("x");
    claim.renewal_mode = RenewalMode::Off;
    lasts(&context, &*backend, &claim).await
}

async fn each_hold_has_its_own_ttl(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (short, mut long) = (context.claim("short"), context.claim("long"));
    long.ttl = context.ttl * 4;
    let begun = take(&context, &*backend, &long).await?.sent;
    take(&context, &*backend, &short).await?;
    let next = context.claim("short");
    let within = context.ttl + late(&context);
    context.granted_within(&*backend, &next, within, context.ttl / 100).await?;
    // On a slow machine, the long hold may have expired too.
    if context.clock.now() < begun + long.ttl {
        refused(&*backend, &context.claim("long")).await?;
    }
    release_all(&*backend, [&next, &long]).await
}

async fn an_expired_hold_is_not_shown(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.claim("x");
    let entry = take(&context, &*backend, &claim).await?;
    let listed = context.held(&*backend).await?;
    ensure!(listed == [claim.name.clone()], "the name is held but not listed");
    let give_up = entry.sent + context.ttl + late(&context);
    loop {
        let holders = backend.inspect(&claim.name).await?.holders;
        let listed = context.held(&*backend).await?;
        if holders.is_empty() && listed.is_empty() {
            return Ok(());
        }
        let is_in_time = context.clock.now() < give_up;
        in_time!(is_in_time, "after its TTL, the hold is still shown: {holders:?}, {listed:?}");
        context.clock.sleep(context.ttl / 50).await;
    }
}

async fn a_client_that_dies_while_asking_leaves_an_expiry(context: Arc<Context>) -> Verdict {
    let watching = context.backend().await?;
    for polls in 1..40 {
        let backend = context.backend().await?;
        let name = format!("x{polls}");
        let claim = context.claim(&name);
        let answer = after_polls(polls, backend.try_acquire(&claim)).await;
        drop(backend);
        let next = context.claim(&name);
        let within = context.ttl + late(&context);
        let entry = context.granted_within(&*watching, &next, within, context.ttl / 20).await;
        if let Err(failure) = entry {
            return Err(Failure::new(format!("dropped after {polls} polls, and {failure}")));
        }
        release(&*watching, &next).await?;
        if answer.is_some() {
            return Ok(());
        }
    }
    Err(Failure::new("an acquire was not done after 40 polls"))
}

async fn the_shortest_ttl_works(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    // A connection's first request may take longer than the shortest TTL, so send one first.
    is_free(&context, &*backend, "first").await?;
    soon(|name| shortest(&context, &*backend, name)).await
}

async fn shortest(context: &Context, backend: &dyn DistributedLock, name: String) -> Verdict {
    let (mut claim, next) = (context.claim(&name), context.claim(&name));
    claim.ttl = *context.profile.ttl.start();
    take(context, backend, &claim).await?;
    let within = claim.ttl + late(context);
    context.granted_within(backend, &next, within, context.ttl / 100).await?;
    release(backend, &next).await
}

async fn the_longest_ttl_works(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let mut claim = context.claim("x");
    claim.ttl = *context.profile.ttl.end();
    take(&context, &*backend, &claim).await?;
    refused(&*backend, &context.claim("x")).await?;
    let inspection = backend.inspect(&claim.name).await?;
    ensure!(!inspection.holders.is_empty(), "the name is held, but inspect shows no holder");
    for holder in &inspection.holders {
        let nearly = claim.ttl - Duration::from_secs(60).min(claim.ttl / 2);
        let left = holder.remaining;
        let (ttl, is_enough) = (claim.ttl, left.is_none_or(|left| left >= nearly));
        ensure!(is_enough, "the TTL is {ttl:?}, but only {left:?} are left");
    }
    release(&*backend, &claim).await
}

async fn slow_answer(context: &Context, delay: Duration) -> Verdict {
    let faulty = Faulty::new(context.backend().await?, context.clock.clone());
    let tested = context.tested_client(Arc::new(faulty.clone()))?;
    faulty.next(Op::Acquire, [Fate::DelayAnswer(delay)]);
    let (watching, next) = (context.backend().await?, context.claim("x"));
    let racing = async {
        faulty.called(Op::Acquire, 1).await;
        context.clock.sleep(context.ttl / 10).await;
        let within = context.ttl + delay + late(context);
        context.granted_within(&*watching, &next, within, Duration::from_millis(1)).await
    };
    let holding = async {
        let hold = tested.try_acquire(&context.name("x"), true).await;
        let (answered, mut last) = (context.clock.now(), None);
        if let Ok(Some(hold)) = &hold {
            while hold.is_valid() && context.clock.now() <= answered + context.ttl * 4 {
                last = Some(context.clock.now());
                context.clock.sleep(Duration::from_millis(1)).await;
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
    refused(&*watching, &context.claim("x")).await?;
    release(&*watching, &next).await
}

async fn a_deadline_is_reckoned_from_the_send(context: Arc<Context>) -> Verdict {
    slow_answer(&context, context.ttl / 2).await
}

async fn a_grant_after_its_deadline_is_none(context: Arc<Context>) -> Verdict {
    slow_answer(&context, context.ttl * 3 / 2).await
}

async fn a_fixed_guard_says_that_it_ended(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").fixed().acquire().await?;
    let deadline = guard.deadline();
    let ended = guard.signal().ended().await;
    ensure!(ended == HoldState::Lost(Reason::Expired), "the guard ended as {ended:?}");
    let now = context.clock.now();
    let (most, late) = (deadline + context.moment(), now.saturating_since(deadline));
    in_time!(now <= most, "the loss was signalled {late:?} late");
    ensure!(guard.check().is_err(), "the guard is lost, but its check succeeds");
    is_lost(guard.release().await)?;
    close(&[&locks]).await
}
