use std::time::Duration;

use crate::case::{Case, cases};
use crate::child::{Child, What};
use crate::context::{Context, Waiters};
use crate::failure::{Verdict, ensure, in_time};
use crate::history::holds;
use crate::history::journal::Event;
use crate::register::Register;
use crate::test_helpers::FOR_EVER;

pub(super) const CASES: &[Case] = cases! { Order:
    a_newcomer_overtakes_nobody [Fifo]
        "a new claim waits even if the name is free and the first waiter hasn't taken it yet";
    a_withdrawn_waiter_is_passed_over [Fifo]
        "a waiter that is dropped leaves the queue, and the others keep their order";
    silent_waiters_are_passed_over [Fifo]
        "several silent waiters don't delay the next one by a TTL each";
    processes_are_served_in_order [Fifo, Processes]
        "twenty waiters of four processes are granted in the order of their arrival";
    dead_processes_are_passed_over [Fifo, Processes]
        "killed and stopped waiters delay the others for a bounded time";
};
/// How long a backend may offer the lock to a silent waiter.
const OFFER: Duration = Duration::from_secs(2);
const SILENCE: Duration = Duration::from_secs(60);

async fn waiting(context: &Context, count: usize, within: Duration) -> Verdict {
    let give_up = context.clock.now() + within;
    loop {
        let waiters = context.backend.inspect(&context.name("x")).await?.waiters;
        if waiters == Some(count as u64) {
            return Ok(());
        }
        let is_in_time = context.clock.now() < give_up;
        in_time!(is_in_time, "{count} waiters were expected, but inspect shows {waiters:?}");
        context.clock.sleep(context.ttl / 100).await;
    }
}

async fn a_newcomer_overtakes_nobody(context: Context) -> Verdict {
    let other = context.another().await?;
    let holder = context.taken(context.long_claim("x")).await?;
    let waiter = context.long_claim("x");
    other.queued(&waiter, FOR_EVER).await?;
    context.release(&holder).await?;
    for _ in 0..5 {
        context.is_held("x").await?;
    }
    other.take(&waiter).await?;
    other.release(&waiter).await?;
    context.is_free("x").await
}

async fn a_withdrawn_waiter_is_passed_over(context: Context) -> Verdict {
    let holder = context.taken(context.long_claim("x")).await?;
    let mut waiters = Waiters::default();
    for number in 0..4 {
        let locks = context.client().await?;
        waiters.start(async move { locks.mutex("x").no_limit().acquire().await });
        waiting(&context, number + 1, SILENCE).await?;
    }
    for gone in [0, 2] {
        waiters.tasks[gone].abort();
    }
    waiting(&context, 2, context.moment() * 2).await?;
    context.release(&holder).await?;
    waiters.are_served(&[1, 3]).await
}

async fn silent_waiters_are_passed_over(context: Context) -> Verdict {
    const SILENT: u32 = 3;
    let silent = context.another().await?;
    let patience = context.profile.slow_poll * 10;
    let ttl = patience.max(OFFER * 10);
    let holder = context.taken(context.claim_for("x", ttl)).await?;
    for _ in 0..SILENT {
        silent.queued(&context.claim_for("x", ttl), FOR_EVER).await?;
    }
    context.release(&holder).await?;
    // Some backends remove a silent waiter one TTL after its request. All requests came at about
    // the same time, so one TTL is enough.
    let bound = holder.ttl + patience + OFFER * SILENT + context.moment();
    let next = context.claim_for("x", ttl);
    context.granted_within(&next, bound).await?;
    context.release(&next).await
}

async fn processes_are_served_in_order(context: Context) -> Verdict {
    const PROCESSES: usize = 4;
    const EACH: usize = 5;
    let register = Register::default();
    let holder = context.taken(context.claim_for("x", SILENCE)).await?;
    let mut children = Vec::new();
    for _ in 0..PROCESSES {
        children.push(Child::start(&context, What::Wait, context.ttl, &register)?);
    }
    for queued in 0..PROCESSES * EACH {
        children[queued % PROCESSES].cue()?;
        waiting(&context, queued + 1, SILENCE).await?;
    }
    context.release(&holder).await?;
    let mut entries = Vec::new();
    for child in &mut children {
        let is_released = |event: &Event| matches!(event, Event::Releasing { .. });
        entries.extend(child.until(EACH, is_released).await?);
    }
    let mut grants: Vec<_> =
        holds(entries).into_iter().map(|hold| (hold.granted, hold.asked)).collect();
    grants.sort_unstable();
    ensure!(
        grants.is_sorted_by_key(|(_, asked)| *asked),
        "the grants aren't in the order of the requests (granted at, requested at): {grants:?}"
    );
    ensure!(grants.len() == PROCESSES * EACH, "{} waiters were granted", grants.len());
    Ok(())
}

#[cfg(not(unix))]
async fn dead_processes_are_passed_over(_: Context) -> Verdict {
    Ok(())
}

#[cfg(unix)]
async fn dead_processes_are_passed_over(context: Context) -> Verdict {
    const STOPPED: u32 = 3;
    let register = Register::default();
    // The TTL exceeds `OFFER`, so that a TTL per suspended waiter fails the case.
    let ttl = (OFFER * 3).clamp(*context.profile.ttl.start(), *context.profile.ttl.end());
    let holder = context.taken(context.claim_for("x", SILENCE)).await?;
    let mut children = Vec::new();
    for number in 0..=STOPPED as usize + 1 {
        let mut child = Child::start(&context, What::Wait, ttl, &register)?;
        child.cue()?;
        waiting(&context, number + 1, SILENCE).await?;
        children.push(child);
    }
    let mut last = children.pop().expect("there are some");
    children[0].kill()?;
    for stopped in &children[1..] {
        stopped.freeze()?;
    }
    let released = context.clock.now();
    context.release(&holder).await?;
    let granted = last.until_granted().await?.last().map_or(released, |entry| entry.at);
    let took = granted.saturating_since(released);
    let bound = ttl + OFFER * STOPPED + context.moment();
    in_time!(took <= bound, "the next waiter was granted after {took:?}; the bound is {bound:?}");
    for child in &children[1..] {
        child.thaw()?;
    }
    let mut entries = Vec::new();
    for child in &mut children[1..] {
        let is_over = |event: &Event| matches!(event, Event::Releasing { .. } | Event::Lost { .. });
        entries.extend(child.until(1, is_over).await?);
    }
    let mut holds = holds(entries);
    ensure!(holds.len() == STOPPED as usize, "{} of the stopped processes held", holds.len());
    holds.sort_unstable_by_key(|hold| hold.granted);
    let overlap = holds.windows(2).find(|two| two[1].granted < two[0].until);
    ensure!(overlap.is_none(), "two holds were valid at once: {overlap:?}");
    Ok(())
}
