use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use crate::support::*;

async fn drop_after<T>(polls: u32, future: impl Future<Output = T>) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if future.as_mut().poll(&mut context).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_acquire_that_had_not_begun_never_happens() {
    let place = Place::new();
    let backend = place.open().await;
    let mut raw = place.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE").await;
    // This request waits for the write lock, and so occupies the connection.
    let first = claim_for("first", LONG);
    let mut acquire = pin!(backend.acquire(&first, Wait::No));
    assert!(timeout(ms(50), acquire.as_mut()).await.is_err());
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
