use std::time::Duration;

use lockwright_core::{BreakMode, Claim, ErrorKind, Locks, ReleaseMode, Step, Wait};
use tokio::time::timeout;

use crate::cancel::after_polls;
use crate::case::{Case, cases};
use crate::context::{Context, Waiters, fails};
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
async fn one_attempt_never_blocks(context: Context) -> Verdict {
    let other = context.another().await?;
    let holder = context.taken(context.long_claim("x")).await?;
    for connection in [&context, &other] {
        let within = context.moment() + context.ttl / 2;
        let answer = timeout(within, connection.is_held("x")).await;
        let message = format!("a claim without a wait wasn't answered within {within:?}");
        answer.map_err(|_| Failure::late(message))??;
    }
    context.release(&holder).await
}

async fn a_withdrawn_claim_is_never_granted(context: Context) -> Verdict {
    let (other, waiter) = (context.another().await?, context.claim("x"));
    let holder = context.taken(context.claim("x")).await?;
    other.queued(&waiter, Wait::Until(context.clock.now() + context.ttl / 10)).await?;
    other.backend.release(&waiter, ReleaseMode::Plain).await?;
    context.release(&holder).await?;
    context.is_free("x").await
}

async fn a_waiter_that_vanished_is_passed_over(context: Context) -> Verdict {
    let other = context.another().await?;
    let holder = context.taken(context.claim("x")).await?;
    let limit = Wait::Until(context.clock.now() + context.ttl / 10);
    other.queued(&context.claim("x"), limit).await?;
    drop(other);
    context.release(&holder).await?;
    // Within `bound`, the server removes the vanished waiter, or its hold expires.
    let bound = context.ttl * 2 + context.profile.slow_poll * 10 + context.moment();
    context.are_free_within(&["x"], bound).await
}

async fn a_limit_is_kept(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let guard = one.mutex("x").acquire().await?;
    for (locks, step) in [(&two, Step::Holder), (&one, Step::LocalTurn)] {
        // Attempts that a busy server didn't answer within `limit`.
        let (mut unanswered, limit) = (0, context.ttl / 2);
        loop {
            let begun = context.clock.now();
            let answer = locks.mutex("x").wait_for(limit).acquire().await;
            let kind = answer.as_ref().err().map(|error| error.kind());
            if kind == Some(ErrorKind::TimedOut(Step::Answer)) {
                unanswered += 1;
                in_time!(unanswered <= 3, "no answer of the server within {limit:?}");
                continue;
            }
            let at_its_step = kind == Some(ErrorKind::TimedOut(step));
            ensure!(at_its_step, "the request was answered {answer:?}, not {step:?}");
            context.took_its_limit(begun, limit)?;
            break;
        }
    }
    two.close().await;
    guard.check()?;
    guard.release().await?;
    context.is_free("x").await
}

async fn a_limit_of_zero_is_one_try(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let once = |locks: &Locks| locks.mutex("x").wait_for(Duration::ZERO).acquire();
    let guard = once(&one).await?;
    fails(once(&two).await, ErrorKind::TimedOut(Step::Holder))?;
    guard.release().await?;
    Ok(once(&two).await?.release().await?)
}

async fn a_try_says_none(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
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

async fn tries_are_counted(context: Context) -> Verdict {
    let (two, faulty) = context.faulty_client().await?;
    let guard = context.guard().await?;
    match two.mutex("x").retry(3, context.ttl / 20).acquire().await {
        Err(error) if error.is_timed_out() => {}
        other => return Err(Failure::new(format!("the request was answered {other:?}"))),
    }
    let tries = faulty.calls(Op::Acquire).len();
    ensure!(tries == 3, "the request made {tries} tries instead of 3");
    guard.release().await?;
    Ok(two.mutex("x").retry(1, context.ttl).acquire().await?.release().await?)
}

#[derive(Clone, Copy)]
enum Going {
    Released,
    Broken,
}

async fn woken(context: &Context, going: Going) -> Verdict {
    let slow = context.profile.slow_poll;
    let (locks, faulty) = context.faulty_client().await?;
    // Two clients share the backend and wait in turn: a wake-up must reach each.
    let clients = [locks, context.client_on(faulty.clone())?];
    // Without a wake-up, the next poll is at least three quarters of `slow` later.
    let soon = slow * 6 / 10;
    let (mut in_time, mut late) = (0, Vec::new());
    // Up to two grants may be late on a busy machine.
    while in_time < 3 {
        // For a recently busy name, even the first request queues.
        let round = in_time + late.len();
        let name = format!("x{round}");
        let took = let_in_after(context, &name, &clients[round % 2], &faulty, going).await?;
        if took < soon {
            in_time += 1;
        } else {
            late.push(took);
            let few = late.len() < 3;
            in_time!(few, "the waiter was granted after {late:?}; the poll interval is {slow:?}");
        }
    }
    Ok(())
}

/// Returns a waiter's wait after the hold's end.
async fn let_in_after(
    context: &Context,
    name: &str,
    locks: &Locks,
    faulty: &Faulty,
    going: Going,
) -> Verdict<Duration> {
    let slow = context.profile.slow_poll;
    let holder = context.taken(outlasting_polls(context, name)).await?;
    let asked = faulty.calls(Op::Acquire).len();
    let (acquiring, clock) = (locks.mutex(name).no_limit().acquire(), context.clock.clone());
    let waiter = tokio::spawn(async move { (acquiring.await, clock.now()) });
    // A waiter's first request doesn't queue.
    faulty.called(Op::Acquire, asked + 2).await;
    context.clock.sleep((slow / 10).min(Duration::from_millis(200))).await;
    let gone = context.clock.now();
    match going {
        Going::Released => context.release(&holder).await?,
        Going::Broken => drop(context.break_hold(&holder, BreakMode::Now).await?),
    }
    let (guard, granted) = waiter.await?;
    guard?.release().await?;
    Ok(granted.saturating_since(gone))
}

fn outlasting_polls(context: &Context, name: &str) -> Claim {
    context.claim_for(name, (context.profile.slow_poll * 20).max(context.ttl))
}

async fn a_release_wakes_the_waiter(context: Context) -> Verdict {
    woken(&context, Going::Released).await
}

async fn a_break_wakes_the_waiter(context: Context) -> Verdict {
    woken(&context, Going::Broken).await
}

async fn a_lost_wake_up_is_made_up_for(context: Context) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    faulty.drop_wakes(true);
    let slow = context.profile.slow_poll;
    let took = let_in_after(&context, "x", &locks, &faulty, Going::Released).await?;
    let most = slow * 3 / 2 + context.moment();
    in_time!(took <= most, "the grant took {took:?}, with a slow poll of {slow:?}");
    Ok(())
}

async fn an_expiry_lets_the_waiter_in(context: Context) -> Verdict {
    let locks = context.client().await?;
    let entry = context.take(&context.claim("x")).await?;
    let guard = locks.mutex("x").wait_for(context.patience()).acquire().await?;
    let took = context.clock.now().saturating_since(entry.sent);
    let slow = context.profile.slow_poll;
    let most = context.ttl + slow * 3 / 2 + Duration::from_secs(1) + context.moment();
    in_time!(took <= most, "the next grant took {took:?} with a TTL of {:?}", context.ttl);
    Ok(guard.release().await?)
}

async fn clients_are_served_in_order(context: Context) -> Verdict {
    let (guard, mut waiters) = (context.guard().await?, Waiters::default());
    for _ in 0..5 {
        let (locks, faulty) = context.faulty_client().await?;
        waiters.start(async move { locks.mutex("x").no_limit().acquire().await });
        faulty.called(Op::Acquire, 2).await;
        context.clock.sleep(context.ttl / 50).await;
    }
    guard.release().await?;
    waiters.are_served(&[0, 1, 2, 3, 4]).await
}

async fn tasks_are_served_in_order(context: Context) -> Verdict {
    let (locks, mut waiters) = (context.client().await?, Waiters::default());
    let guard = locks.mutex("x").acquire().await?;
    for _ in 0..5 {
        let mut acquiring = Box::pin(locks.mutex("x").no_limit().acquire());
        let polled = after_polls(1, acquiring.as_mut()).await;
        ensure!(polled.is_none(), "the lock was granted while it was held");
        waiters.start(acquiring);
    }
    guard.release().await?;
    waiters.are_served(&[0, 1, 2, 3, 4]).await
}
