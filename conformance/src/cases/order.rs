use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{AcquireOutcome, Claim, DistributedLock};

use crate::case::{Case, cases};
use crate::child::{Child, Message, What};
use crate::context::{Context, is_free, refused, release, take};
use crate::failure::{Failure, Verdict, ensure, in_time};
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

async fn queue(backend: &dyn DistributedLock, claim: &Claim) -> Verdict {
    match backend.acquire(claim, FOR_EVER).await? {
        AcquireOutcome::Busy(_) => Ok(()),
        AcquireOutcome::Granted(_) => {
            Err(Failure::new("a waiter was granted while another client held the name"))
        }
    }
}

async fn waiting(context: &Context, backend: &dyn DistributedLock, count: u64) -> Verdict {
    waiting_within(context, backend, count, SILENCE).await
}

async fn waiting_within(
    context: &Context,
    backend: &dyn DistributedLock,
    count: u64,
    within: Duration,
) -> Verdict {
    let give_up = context.clock.now() + within;
    loop {
        let waiters = backend.inspect(&context.name("x")).await?.waiters;
        if waiters == Some(count) {
            return Ok(());
        }
        if context.clock.now() >= give_up {
            return Err(Failure::late(format!(
                "{count} waiters were expected, but inspect shows {waiters:?}"
            )));
        }
        context.clock.sleep(context.ttl / 100).await;
    }
}

async fn a_newcomer_overtakes_nobody(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let (holder, waiter) = (context.long_claim("x"), context.long_claim("x"));
    take(&context, &*backend, &holder).await?;
    queue(&*other, &waiter).await?;
    release(&*backend, &holder).await?;
    for _ in 0..5 {
        refused(&*backend, &context.long_claim("x")).await?;
    }
    take(&context, &*other, &waiter).await?;
    release(&*other, &waiter).await?;
    is_free(&context, &*backend, "x").await
}

async fn a_withdrawn_waiter_is_passed_over(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let holder = context.long_claim("x");
    take(&context, &*backend, &holder).await?;
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for number in 0..4_u64 {
        let (locks, sender) = (context.client().await?, sender.clone());
        tasks.push(tokio::spawn(async move {
            let guard = locks.mutex("x").no_limit().acquire().await?;
            let _ = sender.send(number);
            guard.release().await?;
            locks.close().await;
            Ok::<(), Failure>(())
        }));
        waiting(&context, &*backend, number + 1).await?;
    }
    drop(sender);
    for gone in [0, 2] {
        tasks[gone].abort();
    }
    // Aborted waiters leave the queue at once. Silent waiters stay longer.
    waiting_within(&context, &*backend, 2, context.moment() * 2).await?;
    release(&*backend, &holder).await?;
    let mut served = Vec::new();
    while let Some(number) = order.recv().await {
        served.push(number);
    }
    ensure!(served == [1, 3], "the waiters were served in the order {served:?}");
    for (number, task) in tasks.into_iter().enumerate() {
        if number % 2 == 1 {
            task.await??;
        }
    }
    context.nothing_left().await
}

async fn silent_waiters_are_passed_over(context: Arc<Context>) -> Verdict {
    const SILENT: u32 = 3;
    let (backend, silent) = (context.backend().await?, context.backend().await?);
    let patience = context.profile.slow_poll * 10;
    let ttl = patience.max(OFFER * 10).min(*context.profile.ttl.end());
    let long = || Claim { ttl, ..context.claim("x") };
    let (holder, next) = (long(), long());
    take(&context, &*backend, &holder).await?;
    for _ in 0..SILENT {
        queue(&*silent, &long()).await?;
    }
    release(&*backend, &holder).await?;
    // Some backends remove a silent waiter one TTL after its request. For these waiters, that is
    // about the same time.
    let bound = ttl + patience + OFFER * SILENT + context.moment();
    context.granted_within(&*backend, &next, bound, context.ttl / 20).await?;
    release(&*backend, &next).await
}

async fn processes_are_served_in_order(context: Arc<Context>) -> Verdict {
    const PROCESSES: usize = 4;
    const EACH: usize = 5;
    let (backend, register) = (context.backend().await?, Register::default());
    let holder = Claim { ttl: SILENCE, ..context.claim("x") };
    let holder = Claim { ttl: holder.ttl.min(*context.profile.ttl.end()), ..holder };
    take(&context, &*backend, &holder).await?;
    let mut children = Vec::new();
    for _ in 0..PROCESSES {
        children.push(Child::start(&context, What::Wait, context.ttl, &register)?);
    }
    let mut queued = 0;
    for _ in 0..EACH {
        for child in &mut children {
            child.cue()?;
            queued += 1;
            waiting(&context, &*backend, queued).await?;
        }
    }
    release(&*backend, &holder).await?;
    let mut grants = Vec::new();
    for child in &mut children {
        let mut done = 0;
        while done < EACH {
            match child.next(SILENCE).await? {
                Message::Granted { invoked, granted, .. } => grants.push((granted, invoked)),
                Message::Released(_) => done += 1,
                _ => {}
            }
        }
    }
    grants.sort_unstable();
    let in_order = grants.is_sorted_by_key(|(_, invoked)| *invoked);
    ensure!(
        in_order,
        "the grants aren't in the order of the requests (granted at, requested at): {grants:?}"
    );
    ensure!(grants.len() == PROCESSES * EACH, "{} waiters were granted", grants.len());
    Ok(())
}

#[cfg(not(unix))]
async fn dead_processes_are_passed_over(_: Arc<Context>) -> Verdict {
    Ok(())
}

#[cfg(unix)]
async fn dead_processes_are_passed_over(context: Arc<Context>) -> Verdict {
    const STOPPED: u32 = 3;
    let (backend, register) = (context.backend().await?, Register::default());
    // The TTL exceeds `OFFER`, so the bound fails if each suspended waiter costs a TTL.
    let ttl = (OFFER * 3).clamp(*context.profile.ttl.start(), *context.profile.ttl.end());
    let holder = Claim { ttl: SILENCE, ..context.claim("x") };
    let holder = Claim { ttl: holder.ttl.min(*context.profile.ttl.end()), ..holder };
    take(&context, &*backend, &holder).await?;
    let mut children = Vec::new();
    for number in 0..=STOPPED + 1 {
        let mut child = Child::start(&context, What::Wait, ttl, &register)?;
        child.cue()?;
        waiting(&context, &*backend, u64::from(number) + 1).await?;
        children.push(child);
    }
    let mut last = children.pop().expect("there are some");
    children[0].kill()?;
    for stopped in &children[1..] {
        stopped.freeze()?;
    }
    let released = context.clock.now();
    release(&*backend, &holder).await?;
    let granted = loop {
        if let Message::Granted { granted, .. } = last.next(SILENCE).await? {
            break granted;
        }
    };
    let took = granted.saturating_since(released);
    let bound = ttl + OFFER * STOPPED + context.moment();
    in_time!(took <= bound, "the next waiter was granted after {took:?}; the bound is {bound:?}");
    for child in &mut children[1..] {
        child.thaw()?;
    }
    let mut holds = Vec::new();
    for child in &mut children[1..] {
        let mut messages = Vec::new();
        loop {
            let next = child.next(SILENCE).await?;
            let is_last = matches!(next, Message::Released(_) | Message::Lost(_));
            messages.push(next);
            if is_last {
                break;
            }
        }
        holds.extend(crate::child::holds_of("a stopped one", &messages));
    }
    ensure!(holds.len() == STOPPED as usize, "{} of the stopped processes held", holds.len());
    holds.sort_unstable_by_key(|hold| hold.granted);
    let overlap = holds.windows(2).find(|two| two[1].granted < two[0].until);
    ensure!(overlap.is_none(), "two holds were valid at once: {overlap:?}");
    Ok(())
}
