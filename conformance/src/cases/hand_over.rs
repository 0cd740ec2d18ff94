use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BreakMode, BreakTarget, Guard, Locks, Request};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::case::{Case, cases};
use crate::context::{Context, all_done, is_lost};
use crate::failure::{Verdict, ensure, in_time};

pub(super) const CASES: &[Case] = cases! { HandOver:
    local_turns_have_growing_fences [Fences]
        "the requests of one client get a lock in turn, with growing fences below the next client's";
    a_break_ends_the_local_turns [Breakable, Fences]
        "after a break, the client's next request gets a new hold with a larger fence";
    a_busy_client_lets_others_in [Fifo]
        "another client gets a lock for which many tasks of one client contend";
    a_warm_lock_is_taken_again [Recalls, Fences]
        "a client gets a lock again that it keeps warm, with a larger fence";
    a_warm_lock_is_recalled [Recalls]
        "another client's request gets a warm lock long before its time is over";
    a_try_recalls_a_warm_lock [Recalls]
        "tries get a warm lock long before its time is over";
    a_reader_recalls_a_warm_lock [Recalls, Shared]
        "a reader gets a warm lock long before its time is over";
    a_warm_lock_is_released_at_its_time [Recalls]
        "a warm lock that no client requests is released";
};
const LONG: Duration = Duration::from_secs(60);

fn warm(locks: &Locks) -> Request<Guard> {
    locks.mutex("x").ttl(LONG).keep_warm(LONG)
}

/// The limit for a recall. It ends before the first renewal, which notices waiters too.
fn soon(context: &Context) -> Duration {
    context.patience().min(LONG / 4)
}

async fn until_waiting(context: &Context, locks: &Locks, count: u64) {
    while locks.metrics().waited < count {
        context.clock.sleep(Duration::from_millis(1)).await;
    }
}

async fn local_turns_have_growing_fences(context: Context) -> Verdict {
    const TASKS: u64 = 5;
    let (one, two) = context.two_clients().await?;
    let first = one.mutex("x").acquire().await?;
    let fences = Arc::new(Mutex::new(vec![first.fence()]));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (locks, fences) = (one.clone(), Arc::clone(&fences));
        tasks.spawn(async move {
            let guard = locks.mutex("x").acquire().await?;
            guard.check()?;
            lock(&fences).push(guard.fence());
            guard.release().await?;
            Ok(())
        });
    }
    until_waiting(&context, &one, TASKS).await;
    first.release().await?;
    all_done(tasks).await?;
    let guard = two.mutex("x").acquire().await?;
    let mut fences = std::mem::take(&mut *lock(&fences));
    fences.push(guard.fence());
    ensure!(fences.is_sorted_by(|a, b| a < b), "the fences {fences:?} don't grow");
    guard.release().await?;
    Ok(())
}

async fn a_break_ends_the_local_turns(context: Context) -> Verdict {
    let locks = context.client().await?;
    let first = locks.mutex("x").acquire().await?;
    let request = |locks: &Locks| tokio::spawn(locks.mutex("x").acquire());
    let second = request(&locks);
    until_waiting(&context, &locks, 1).await;
    let third = request(&locks);
    until_waiting(&context, &locks, 2).await;
    first.release().await?;
    let second = second.await??;
    let (token, fence) = (second.token(), second.fence());
    context.break_seen(&context.name("x"), BreakTarget::Token(token), BreakMode::Now).await?;
    let ended = timeout(context.patience(), second.signal().ended()).await;
    in_time!(ended.is_ok(), "the break wasn't reported to the holder");
    is_lost(second.release().await)?;
    let third = third.await??;
    third.check()?;
    ensure!(third.token() != token, "a broken hold was handed over");
    ensure!(third.fence() > fence, "the fence {} came after {fence}", third.fence());
    third.release().await?;
    Ok(())
}

async fn a_busy_client_lets_others_in(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (locks, clock, is_over) = (one.clone(), context.clock.clone(), Arc::clone(&is_over));
        tasks.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let guard = locks.mutex("x").acquire().await?;
                clock.sleep(Duration::from_millis(1)).await;
                guard.release().await?;
            }
            Ok(())
        });
    }
    until_waiting(&context, &one, 3).await;
    let within = context.ttl * 2 + context.profile.slow_poll * 10 + context.moment();
    let guard = timeout(within, two.mutex("x").acquire()).await;
    is_over.store(true, Ordering::Relaxed);
    in_time!(guard.is_ok(), "the other client didn't get the lock within {within:?}");
    guard.expect("it was checked")?.release().await?;
    all_done(tasks).await
}

async fn a_warm_lock_is_taken_again(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let first = warm(&one).acquire().await?;
    let (token, mut fence) = (first.token(), first.fence());
    first.release().await?;
    for locks in [&one, &one, &two] {
        let next = warm(locks).acquire().await?;
        next.check()?;
        ensure!(next.fence() > fence, "the fence {} came after {fence}", next.fence());
        fence = next.fence();
        let (is_same, is_kept) = (next.token() == token, std::ptr::eq(locks, &one));
        ensure!(is_same == is_kept, "the hold is the same: {is_same}");
        next.release().await?;
    }
    one.close().await;
    two.close().await;
    Ok(())
}

async fn a_warm_lock_is_recalled(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    warm(&one).acquire().await?.release().await?;
    gets_it_soon(&context, two.mutex("x"), "another client's request").await
}

async fn gets_it_soon(context: &Context, request: Request<Guard>, who: &str) -> Verdict {
    let guard = timeout(soon(context), request.ttl(LONG).acquire()).await;
    in_time!(guard.is_ok(), "a warm lock wasn't released for {who}");
    guard.expect("it was checked")?.release().await?;
    Ok(())
}

async fn a_try_recalls_a_warm_lock(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    warm(&one).acquire().await?.release().await?;
    let tries = async {
        loop {
            if let Some(guard) = two.mutex("x").try_acquire().await? {
                return guard.release().await;
            }
            context.clock.sleep(Duration::from_millis(1)).await;
        }
    };
    let tried = timeout(soon(&context), tries).await;
    in_time!(tried.is_ok(), "a warm lock wasn't released for another client's tries");
    Ok(tried.expect("it was checked")?)
}

async fn a_reader_recalls_a_warm_lock(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    for locks in [&two, &one] {
        warm(&one).acquire().await?.release().await?;
        gets_it_soon(&context, locks.read("x"), "a reader").await?;
    }
    Ok(())
}

async fn a_warm_lock_is_released_at_its_time(context: Context) -> Verdict {
    let locks = context.client().await?;
    let time = Duration::from_millis(50);
    locks.mutex("x").ttl(LONG).keep_warm(time).acquire().await?.release().await?;
    let give_up = context.clock.now() + time + context.patience();
    while !context.holders("x").await?.is_empty() {
        in_time!(context.clock.now() < give_up, "a warm lock wasn't released");
        context.clock.sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
