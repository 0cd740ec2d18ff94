use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, DistributedLock, ErrorKind, Locks, ReleaseMode, Step,
    Wait,
};

use crate::case::{Case, cases};
use crate::context::{Context, close, fails, is_free, refused, release, take};
use crate::failure::{Failure, Verdict, ensure, in_time};
use crate::faults::{Faulty, Op};

pub(super) const CASES: &[Case] = cases! { Waiting:
    one_attempt_never_blocks []
        "a claim without a wait is answered at once";
    a_withdrawn_claim_is_never_granted []
        "a released waiter doesn't block later claims";
    a_waiter_that_vanished_is_passed_over []
        "a waiter that vanished delays the next one for a bounded time";
    a_limit_is_kept []
        "a request times out at its limit, names its step, and leaves no hold";
    a_limit_of_zero_is_one_try []
        "a limit of zero grants a free name, and times out on a held name";
    a_try_says_none []
        "a try doesn't wait, neither for a holder nor for a local turn";
    tries_are_counted []
        "a request with a number of tries makes that many";
    a_release_wakes_the_waiter [Push]
        "another client's waiter is granted long before its next poll";
    a_break_wakes_the_waiter [Push, Breakable]
        "a waiter is granted long before its next poll after a break";
    a_lost_wake_up_is_made_up_for []
        "without a wake-up, the waiter is granted at its slow poll";
    an_expiry_lets_the_waiter_in []
        "a waiter is granted after an expiry, without a notification";
    clients_are_served_in_order [Fifo]
        "waiting clients are served in the order of their arrival";
    tasks_are_served_in_order []
        "waiting tasks of one client are served in the order of their arrival, on all backends";
};

async fn one_attempt_never_blocks(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let mut holder = context.claim("x");
    holder.ttl = (context.ttl * 30).min(*context.profile.ttl.end());
    take(&context, &*backend, &holder).await?;
    for backend in [&*backend, &*other] {
        let within = context.moment() + context.ttl / 2;
        let answer = tokio::time::timeout(within, refused(backend, &context.claim("x"))).await;
        let message = format!("a claim without a wait wasn't answered within {within:?}");
        answer.map_err(|_| Failure::late(message))??;
    }
    release(&*backend, &holder).await
}

async fn a_withdrawn_claim_is_never_granted(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let (holder, waiter) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &holder).await?;
    let limit = context.clock.now() + context.ttl / 10;
    let answer = other.acquire(&waiter, Wait::Until(limit)).await?;
    ensure!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "a waiter was granted while another client held the name"
    );
    other.release(&waiter, ReleaseMode::Plain).await?;
    release(&*backend, &holder).await?;
    is_free(&context, &*backend, "x").await
}

async fn a_waiter_that_vanished_is_passed_over(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let (holder, waiter, next) = (context.claim("x"), context.claim("x"), context.claim("x"));
    take(&context, &*backend, &holder).await?;
    let limit = context.clock.now() + context.ttl / 10;
    let answer = other.acquire(&waiter, Wait::Until(limit)).await?;
    ensure!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "a waiter was granted while another client held the name"
    );
    drop(other);
    release(&*backend, &holder).await?;
    // Within `bound`, the server removes the vanished waiter, or grants it the lock and the hold
    // expires.
    let bound = context.ttl * 2 + context.profile.slow_poll * 10 + context.moment();
    context.granted_within(&*backend, &next, bound, context.ttl / 20).await?;
    release(&*backend, &next).await
}

async fn a_limit_is_kept(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let guard = one.mutex("x").acquire().await?;
    for (locks, step) in [(&two, Step::Holder), (&one, Step::LocalTurn)] {
        // Counts attempts that a busy server didn't answer within `limit`.
        let mut unanswered = 0;
        loop {
            let begun = context.clock.now();
            let limit = context.ttl / 2;
            let error = match locks.mutex("x").wait_for(limit).acquire().await {
                Ok(guard) => {
                    return Err(Failure::new(format!("the held lock was granted: {guard:?}")));
                }
                Err(error) => error,
            };
            if error.kind() == ErrorKind::TimedOut(Step::Answer) {
                unanswered += 1;
                in_time!(unanswered <= 3, "no answer of the server within {limit:?}");
                continue;
            }
            let at_its_step = error.kind() == ErrorKind::TimedOut(step);
            ensure!(at_its_step, "the request was answered {error:?}, not {step:?}");
            let took = context.clock.now().saturating_since(begun);
            let most = limit + context.moment();
            ensure!(took >= limit, "the limit of {limit:?} was reached after {took:?}");
            in_time!(took < most, "the limit of {limit:?} was reached after {took:?}");
            break;
        }
    }
    two.close().await;
    guard.check()?;
    guard.release().await?;
    let backend = context.backend().await?;
    is_free(&context, &*backend, "x").await
}

async fn a_limit_of_zero_is_one_try(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let guard = one.mutex("x").wait_for(Duration::ZERO).acquire().await?;
    fails(
        two.mutex("x").wait_for(Duration::ZERO).acquire().await,
        ErrorKind::TimedOut(Step::Holder),
    )?;
    guard.release().await?;
    two.mutex("x").wait_for(Duration::ZERO).acquire().await?.release().await?;
    context.nothing_left().await
}

async fn a_try_says_none(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let guard = one.mutex("x").acquire().await?;
    for locks in [&one, &two] {
        let begun = context.clock.now();
        let tried = locks.mutex("x").try_acquire().await?;
        ensure!(tried.is_none(), "the lock was granted while it was held");
        let took = context.clock.now().saturating_since(begun);
        in_time!(took < context.moment() + context.ttl / 4, "a try took {took:?}");
    }
    Ok(guard.release().await?)
}

async fn tries_are_counted(context: Arc<Context>) -> Verdict {
    let one = context.client().await?;
    let (two, faulty) = context.faulty_client().await?;
    let guard = one.mutex("x").acquire().await?;
    match two.mutex("x").retry(3, context.ttl / 20).acquire().await {
        Err(error) if error.is_timed_out() => {}
        other => return Err(Failure::new(format!("the request was answered {other:?}"))),
    }
    let tries = faulty.calls(Op::Acquire).len();
    ensure!(tries == 3, "the request made {tries} tries instead of 3");
    guard.release().await?;
    two.mutex("x").retry(1, context.ttl).acquire().await?.release().await?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Going {
    Released,
    Broken,
}

async fn woken(context: &Context, going: Going) -> Verdict {
    let slow = context.profile.slow_poll;
    let backend = context.backend().await?;
    let (locks, faulty) = context.faulty_client().await?;
    // A wake-up must reach each client of a backend, so two clients share it and wait in turns.
    let clients = [locks, context.client_on(faulty.clone())?];
    // Without a wake-up, the next poll is at least three quarters of `slow` later.
    let soon = slow * 6 / 10;
    let (mut in_time, mut late) = (0, Vec::new());
    // A busy machine may delay two grants.
    while in_time < 3 {
        // Each round has its own name, because for a recently busy name even the first request
        // queues.
        let round = in_time + late.len();
        let (name, locks) = (format!("x{round}"), &clients[round % 2]);
        let took = let_in_after(context, &*backend, &name, locks, &faulty, going).await?;
        if took < soon {
            in_time += 1;
        } else {
            late.push(took);
            in_time!(
                late.len() < 3,
                "the waiter was granted after {late:?}; the poll interval is {slow:?}"
            );
        }
    }
    close(&clients.each_ref()).await
}

async fn let_in_after(
    context: &Context,
    backend: &dyn DistributedLock,
    name: &str,
    locks: &Locks,
    faulty: &Faulty,
    going: Going,
) -> Verdict<Duration> {
    let slow = context.profile.slow_poll;
    let mut holder = context.claim(name);
    holder.ttl = (slow * 20).max(context.ttl).min(*context.profile.ttl.end());
    take(context, backend, &holder).await?;
    let asked = faulty.calls(Op::Acquire).len();
    let waiter = {
        let (locks, name, clock) = (locks.clone(), name.to_owned(), context.clock.clone());
        tokio::spawn(async move {
            let guard = locks.mutex(name).no_limit().acquire().await;
            (guard, clock.now())
        })
    };
    // A waiter's first request doesn't queue, so wait for its second.
    faulty.called(Op::Acquire, asked + 2).await;
    context.clock.sleep((slow / 10).min(Duration::from_millis(200))).await;
    let gone = context.clock.now();
    match going {
        Going::Released => release(backend, &holder).await?,
        Going::Broken => {
            let seen = BreakTarget::Token(holder.token);
            let name = &holder.name;
            backend.break_lock(name, seen, BreakMode::Now, "the suite", "to see").await?;
        }
    }
    let (guard, granted) = waiter.await?;
    guard?.release().await?;
    Ok(granted.saturating_since(gone))
}

async fn a_release_wakes_the_waiter(context: Arc<Context>) -> Verdict {
    woken(&context, Going::Released).await
}

async fn a_break_wakes_the_waiter(context: Arc<Context>) -> Verdict {
    woken(&context, Going::Broken).await
}

async fn a_lost_wake_up_is_made_up_for(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (locks, faulty) = context.faulty_client().await?;
    faulty.drop_wakes(true);
    let mut holder = context.claim("x");
    let slow = context.profile.slow_poll;
    holder.ttl = (slow * 20).max(context.ttl).min(*context.profile.ttl.end());
    take(&context, &*backend, &holder).await?;
    let waiter = {
        let (locks, clock) = (locks.clone(), context.clock.clone());
        tokio::spawn(async move { (locks.mutex("x").no_limit().acquire().await, clock.now()) })
    };
    faulty.called(Op::Acquire, 2).await;
    let released = context.clock.now();
    release(&*backend, &holder).await?;
    let (guard, granted) = waiter.await?;
    guard?.release().await?;
    let took = granted.saturating_since(released);
    let most = slow * 3 / 2 + context.moment();
    in_time!(took <= most, "the grant took {took:?}, with a slow poll of {slow:?}");
    close(&[&locks]).await
}

async fn an_expiry_lets_the_waiter_in(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let locks = context.client().await?;
    let entry = take(&context, &*backend, &context.claim("x")).await?;
    let guard = locks.mutex("x").wait_for(context.patience()).acquire().await?;
    let took = context.clock.now().saturating_since(entry.sent);
    let slow = context.profile.slow_poll;
    let most = context.ttl + slow * 3 / 2 + Duration::from_secs(1) + context.moment();
    in_time!(took <= most, "the next grant took {took:?} with a TTL of {:?}", context.ttl);
    guard.release().await?;
    close(&[&locks]).await
}

async fn clients_are_served_in_order(context: Arc<Context>) -> Verdict {
    let holder = context.client().await?;
    let guard = holder.mutex("x").acquire().await?;
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..5 {
        let (locks, faulty) = context.faulty_client().await?;
        let sender = sender.clone();
        waiting.spawn(async move {
            let guard = locks.mutex("x").no_limit().acquire().await?;
            let _ = sender.send(number);
            guard.release().await?;
            locks.close().await;
            Ok::<(), Failure>(())
        });
        faulty.called(Op::Acquire, 2).await;
        context.clock.sleep(context.ttl / 50).await;
    }
    guard.release().await?;
    while let Some(done) = waiting.join_next().await {
        done??;
    }
    drop(sender);
    let mut served = Vec::new();
    while let Some(number) = order.recv().await {
        served.push(number);
    }
    ensure!(served == [0, 1, 2, 3, 4], "the waiters were served in the order {served:?}");
    Ok(())
}

async fn tasks_are_served_in_order(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = Vec::new();
    for number in 0..5 {
        let mut acquiring = Box::pin(locks.mutex("x").no_limit().acquire());
        let polled = crate::cancel::after_polls(1, acquiring.as_mut()).await;
        ensure!(polled.is_none(), "the lock was granted while it was held");
        let sender = sender.clone();
        waiting.push(tokio::spawn(async move {
            let guard = acquiring.await?;
            let _ = sender.send(number);
            guard.release().await?;
            Ok::<(), Failure>(())
        }));
    }
    guard.release().await?;
    for waiting in waiting {
        waiting.await??;
    }
    drop(sender);
    let mut served = Vec::new();
    while let Some(number) = order.recv().await {
        served.push(number);
    }
    ensure!(served == [0, 1, 2, 3, 4], "the waiters were served in the order {served:?}");
    close(&[&locks]).await
}
