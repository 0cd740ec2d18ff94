use lockwright_core::{Locks, Result};
use tokio::time::timeout;

use crate::cancel::after_polls;
use crate::case::{Case, cases};
use crate::context::Context;
use crate::failure::{Failure, Verdict, ensure};
use crate::faults::{Faulty, Op};

pub(super) const CASES: &[Case] = cases! { Cancellation:
    an_acquire_can_be_dropped_anywhere []
        "a dropped acquire leaves no hold, and the next acquire succeeds, in this client and in another";
    a_try_can_be_dropped_anywhere []
        "a dropped try leaves no hold, and the next acquire succeeds";
    a_waiting_acquire_can_be_dropped_anywhere []
        "a dropped waiter leaves no hold, also if it is dropped while the holder releases";
    a_dropped_waiter_lets_the_next_one_in []
        "a local waiter behind a dropped waiter is granted";
    a_release_can_be_dropped_anywhere []
        "a dropped release completes in the background";
    a_renewal_can_be_dropped_anywhere []
        "a dropped renewal doesn't end the hold";
    a_dropped_guard_is_released []
        "a dropped guard is released long before its TTL ends";
    a_dropped_client_leaves_nothing []
        "guards that are dropped together with their client are released";
};
const MOST_POLLS: usize = 60;

async fn yielding_client(context: &Context) -> Result<(Locks, Faulty)> {
    let (locks, faulty) = context.faulty_client().await?;
    faulty.yields(true);
    Ok((locks, faulty))
}

/// Checks that the name becomes free before a forgotten hold would expire, and closes the client.
async fn all_clear(context: &Context, locks: &Locks, polls: usize) -> Verdict {
    let clear = async {
        context.are_free_within(&["x"], context.ttl * 4 / 5).await?;
        locks.mutex("x").wait_for(context.patience()).acquire().await?.release().await?;
        let held = context.held().await?;
        ensure!(held.is_empty(), "still held: {held:?}");
        Ok(())
    };
    after(polls, clear.await)?;
    locks.close().await;
    Ok(())
}

#[track_caller]
fn after(polls: usize, verdict: Verdict) -> Verdict {
    verdict.map_err(|failure| Failure::new(format!("dropped after {polls} polls: {failure}")))
}

/// Calls `attempt` with new clients for 0, 1, 2, … polls, until a call completes. Each time, no
/// hold may be left.
async fn at_each_poll(
    context: &Context,
    attempt: impl AsyncFn(usize, &Locks, &Faulty) -> Verdict<bool>,
) -> Verdict {
    for polls in 0..MOST_POLLS {
        let (locks, faulty) = yielding_client(context).await?;
        let done = attempt(polls, &locks, &faulty).await?;
        all_clear(context, &locks, polls).await?;
        if done {
            ensure!(polls > 1, "inconclusive: the call has no await point");
            return Ok(());
        }
    }
    Err(Failure::new("the call did not complete within the maximum number of polls"))
}

async fn is_done<T>(polls: usize, request: impl Future<Output = Result<T>>) -> Verdict<bool> {
    let done = after_polls(polls, request).await.transpose()?;
    Ok(done.is_some())
}

async fn an_acquire_can_be_dropped_anywhere(context: Context) -> Verdict {
    at_each_poll(&context, async |polls, locks, _| is_done(polls, locks.mutex("x").acquire()).await)
        .await
}

async fn a_try_can_be_dropped_anywhere(context: Context) -> Verdict {
    at_each_poll(&context, async |polls, locks, _| {
        is_done(polls, locks.mutex("x").try_acquire()).await
    })
    .await
}

async fn a_waiting_acquire_can_be_dropped_anywhere(context: Context) -> Verdict {
    let holding = context.client().await?;
    at_each_poll(&context, async |polls, locks, faulty| {
        let guard = holding.mutex("x").acquire().await?;
        let waiting = is_done(polls, locks.mutex("x").no_limit().acquire());
        let letting_go = async {
            tokio::select! {
                () = faulty.called(Op::Acquire, 2) => {}
                () = context.clock.sleep(context.ttl / 20) => {}
            }
            Ok(guard.release().await?)
        };
        let (done, ()) = tokio::try_join!(waiting, letting_go)?;
        ensure!(!done || polls > 2, "inconclusive: the request never waited");
        Ok(done)
    })
    .await
}

async fn a_dropped_waiter_lets_the_next_one_in(context: Context) -> Verdict {
    for polls in 1..12 {
        let (locks, _) = yielding_client(&context).await?;
        let guard = context.guard().await?;
        let mut first = Box::pin(locks.mutex("x").no_limit().acquire());
        let granted = after_polls(1, first.as_mut()).await;
        ensure!(granted.is_none(), "the lock was granted while it was held");
        let second = tokio::spawn(locks.mutex("x").wait_for(context.patience()).acquire());
        tokio::task::yield_now().await;
        let _ = timeout(context.ttl / 10, after_polls(polls, first)).await;
        guard.release().await?;
        after(polls, second.await?.map(drop).map_err(Failure::from))?;
        all_clear(&context, &locks, polls).await?;
    }
    Ok(())
}

async fn a_release_can_be_dropped_anywhere(context: Context) -> Verdict {
    at_each_poll(&context, async |polls, locks, _| {
        let guard = locks.mutex("x").acquire().await?;
        is_done(polls, guard.release()).await
    })
    .await
}

async fn a_renewal_can_be_dropped_anywhere(context: Context) -> Verdict {
    at_each_poll(&context, async |polls, locks, _| {
        let guard = locks.mutex("x").acquire().await?;
        let done = is_done(polls, guard.renew()).await?;
        guard.check()?;
        guard.release().await?;
        Ok(done)
    })
    .await?;
    let (locks, _) = yielding_client(&context).await?;
    let guard = locks.mutex("x").acquire().await?;
    drop(locks);
    let _ = after_polls(1, guard.renew()).await;
    context.clock.sleep(context.ttl * 2).await;
    guard.check()?;
    Ok(guard.release().await?)
}

async fn a_dropped_guard_is_released(context: Context) -> Verdict {
    let locks = context.client().await?;
    drop(locks.mutex("x").acquire().await?);
    context.are_free_within(&["x"], context.ttl * 4 / 5).await
}

async fn a_dropped_client_leaves_nothing(context: Context) -> Verdict {
    let locks = context.client().await?;
    let one = locks.mutex("x").acquire().await?;
    let two = locks.mutex("y").acquire().await?;
    drop((locks, one, two));
    context.are_free_within(&["x", "y"], context.ttl * 4 / 5).await
}
