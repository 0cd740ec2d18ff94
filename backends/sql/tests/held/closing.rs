//! Clients that are closed while a request waits in the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lockwright_core::{ErrorKind, Locks, ReleaseMode};

use crate::server::{LONG, Server, claim, granted, is_free, ms, on_each, waiters, within};

on_each!(closed_client_is_granted_nothing, closed_waiter_leaves_the_server);

/// The lock is released just before, during and just after the close of the waiter's client.
async fn closed_client_is_granted_nothing<S: Server>(server: &S, mode: &str) {
    let (one, two) = (server.backend(mode, "").await, server.backend(mode, "").await);
    for round in 0..24u64 {
        let holder = claim("x", LONG);
        granted(&*one, &holder).await;
        let locks = Locks::builder(Arc::clone(&two)).ttl(LONG).build().unwrap();
        let closed = Arc::new(AtomicBool::new(false));
        let waiting = tokio::spawn({
            let (locks, closed) = (locks.clone(), Arc::clone(&closed));
            async move {
                let answer = locks.mutex("x").no_limit().acquire().await;
                (answer, closed.load(Ordering::SeqCst))
            }
        });
        within(ms(5_000), "the waiter to block", async || waiters(&*one, "x").await == 1).await;
        let closing = async {
            tokio::time::sleep(ms(round % 4)).await;
            locks.close().await;
            closed.store(true, Ordering::SeqCst);
        };
        let releasing = async {
            tokio::time::sleep(ms(round / 4)).await;
            one.release(&holder, ReleaseMode::Plain).await.unwrap();
        };
        tokio::join!(closing, releasing);
        let (answer, late) = tokio::time::timeout(ms(5_000), waiting).await.unwrap().unwrap();
        match answer {
            Ok(guard) => {
                assert!(!late, "{mode}, round {round}: granted after close() had returned");
                guard.release().await.unwrap();
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{mode}: {error:?}"),
        }
        within(ms(2_000), "the name to be free", async || is_free(&*one, "x").await).await;
    }
}

/// The lock remains held during the close.
async fn closed_waiter_leaves_the_server<S: Server>(server: &S, mode: &str) {
    let one = server.backend(mode, "").await;
    let locks = server.client(mode, LONG).await;
    let holder = claim("x", LONG);
    granted(&*one, &holder).await;
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.mutex("x").no_limit().acquire().await }
    });
    within(ms(5_000), "the waiter to block", async || waiters(&*one, "x").await == 1).await;
    let begun = Instant::now();
    locks.close().await;
    let answer = tokio::time::timeout(ms(2_000), waiting).await;
    let answer = answer.unwrap_or_else(|_| panic!("{mode}: it still waits after close()")).unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Closed, "{mode}");
    within(ms(2_000), "the wait to end", async || waiters(&*one, "x").await == 0).await;
    assert!(begun.elapsed() < ms(4_000), "{mode}: {:?}", begun.elapsed());
    one.release(&holder, ReleaseMode::Plain).await.unwrap();
    assert!(is_free(&*one, "x").await, "{mode}: a closed client holds it");
}
