use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, DistributedLock, ErrorKind, ReleaseMode, Renew, Wait,
};

use crate::support::{LONG, Place, claim_for, grant, hold, ms, refused, sql};

async fn drop_after<T>(polls: u32, future: impl Future<Output = T>) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if future.as_mut().poll(&mut context).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
        if polls > 5 {
            tokio::time::sleep(std::time::Duration::from_micros(100)).await;
        }
    }
}

async fn nothing_is_left_behind(threads: &str) {
    let place = Place::new();
    let backend = place.open().await;
    let held = hold(&backend, "held").await;
    let mut dropped = Vec::new();
    for i in 0..300 {
        let polls = i % 9;
        let mine = claim_for(&format!("n{}", i % 40), LONG);
        match i % 5 {
            0 | 1 => drop_after(polls, backend.acquire(&mine, Wait::No)).await,
            2 => {
                drop_after(polls, backend.renew(&[Renew::of(&held)])).await;
            }
            3 => drop_after(polls, backend.release(&mine, ReleaseMode::Reconcile)).await,
            _ => {
                let x = &mine.name;
                drop_after(polls, backend.break_lock(x, BreakTarget::Any, BreakMode::Now, "", ""))
                    .await;
            }
        }
        dropped.push(mine);
    }
    for mine in &dropped {
        backend.release(mine, ReleaseMode::Reconcile).await.unwrap();
    }
    let left = backend.list("", None).await.unwrap().names;
    assert_eq!(left.len(), 1, "{threads}: {left:?}");
    // If a dropped request had left a transaction open, the write lock wouldn't be free.
    let mut raw = place.raw().await;
    sql(&mut raw, "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; ROLLBACK").await;
    grant(&backend, &claim_for("n0", LONG)).await;
}

#[tokio::test]
async fn a_dropped_request_leaves_nothing_behind() {
    nothing_is_left_behind("one thread").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dropped_request_leaves_nothing_behind_on_many_threads() {
    nothing_is_left_behind("four threads").await;
}

#[tokio::test]
async fn a_dropped_acquire_that_had_not_begun_never_happens() {
    let place = Place::new();
    let backend = place.open().await;
    let mut raw = place.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE").await;
    // This request occupies the connection while it waits for the write lock.
    let first = claim_for("first", LONG);
    let mut acquire = pin!(backend.acquire(&first, Wait::No));
    assert!(tokio::time::timeout(ms(50), acquire.as_mut()).await.is_err());
    let second = claim_for("second", LONG);
    drop_after(3, backend.acquire(&second, Wait::No)).await;
    sql(&mut raw, "COMMIT").await;
    assert!(matches!(acquire.await.unwrap(), AcquireOutcome::Granted(_)));
    grant(&backend, &claim_for("third", LONG)).await;
    assert!(backend.inspect(&second.name).await.unwrap().holders.is_empty());
}

#[test]
fn a_runtime_that_goes_takes_no_lock_with_it() {
    let place = Place::new();
    let backend = {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let backend = place.open().await;
            for i in 0..20 {
                drop_after(2, backend.acquire(&claim_for(&format!("n{i}"), LONG), Wait::No)).await;
            }
            backend
        })
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let answer = backend.try_acquire(&claim_for("x", LONG)).await;
        refused(answer, ErrorKind::Unavailable, "runtime");
        grant(&place.open().await, &claim_for("x", LONG)).await;
    });
}
