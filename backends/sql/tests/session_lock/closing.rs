use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lockwright_core::{DistributedLock, ErrorKind, Locks, ReleaseMode};

use super::server::{Server, client, plain, shared};
use crate::support::*;

in_each_mode!(plain; closed_client_is_granted_nothing, closed_waiter_leaves_the_server);

/// The holder releases the lock just before, during or just after the close of the waiter's client.
async fn closed_client_is_granted_nothing(server: &Server, mode: &str) {
    let (one, two) = (shared(server, mode).await, shared(server, mode).await);
    for round in 0..24u64 {
        // The server may keep the closed client's session for a moment and grant the lock to it.
        let holder = claim_for("x", LONG);
        within(ms(2_000), "the name to be free", async || !is_busy(&*one, &holder).await).await;
        let locks = Locks::builder(Arc::clone(&two)).ttl(LONG).build().unwrap();
        let closed = Arc::new(AtomicBool::new(false));
        let waiting = tokio::spawn({
            let (asking, closed) = (locks.mutex("x").no_limit().acquire(), Arc::clone(&closed));
            async move { (asking.await, closed.load(Ordering::SeqCst)) }
        });
        until_one_waits(&*one).await;
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
        within(ms(2_000), "the wait to end", async || waiters(&*one, "x").await == 0).await;
    }
}

async fn closed_waiter_leaves_the_server(server: &Server, mode: &str) {
    let one = shared(server, mode).await;
    let locks = client(server, mode, LONG).await;
    let holder = hold(&*one, "x").await;
    let waiting = tokio::spawn(locks.mutex("x").no_limit().acquire());
    until_one_waits(&*one).await;
    let begun = Instant::now();
    locks.close().await;
    let answer = tokio::time::timeout(ms(2_000), waiting).await;
    let answer = answer.unwrap_or_else(|_| panic!("{mode}: it still waits after close()")).unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Closed, "{mode}");
    within(ms(2_000), "the wait to end", async || waiters(&*one, "x").await == 0).await;
    assert!(begun.elapsed() < ms(4_000), "late: {mode}: {:?}", begun.elapsed());
    one.release(&holder, ReleaseMode::Plain).await.unwrap();
    within(ms(2_000), "the name to be free", async || is_free(&*one, "x").await).await;
}
