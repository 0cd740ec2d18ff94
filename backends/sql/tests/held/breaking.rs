//! Broken holds: the errors of their holders, and their tombstones.

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, DistributedLock, HoldState, Reason, ReleaseMode, Renew,
    Renewal,
};

use crate::server::{LONG, Server, claim, granted, in_time, ms, name, on_each, waiters, within};

on_each!(
    holder_gets_broken_despite_a_next_holder,
    claim_gets_broken_through_another_connection,
    tombstone_of_a_broken_hold_is_swept,
);

/// The next holder waits in the server, so it has the lock before the broken holder asks for the
/// reason.
async fn holder_gets_broken_despite_a_next_holder<S: Server>(server: &S, mode: &str) {
    let operator = server.backend(mode, "").await;
    let locks = server.client(mode, LONG).await;
    for _ in 0..10 {
        let guard = locks.mutex("x").acquire().await.unwrap();
        let next = claim("x", LONG);
        let waiting = {
            let (operator, next) = (std::sync::Arc::clone(&operator), next.clone());
            tokio::spawn(async move { operator.acquire(&next, in_time(LONG)).await })
        };
        within(ms(5_000), "the waiter to block", async || waiters(&*operator, "x").await == 1)
            .await;
        let seen = BreakTarget::Token(guard.token());
        operator.break_lock(&name("x"), seen, BreakMode::Now, "ada", "stuck").await.unwrap();
        let ended = guard.signal().ended().await;
        assert_eq!(ended, HoldState::Lost(Reason::Broken), "{mode}");
        let answer = waiting.await.unwrap().unwrap();
        assert!(matches!(answer, AcquireOutcome::Granted(_)), "{answer:?}");
        operator.release(&next, ReleaseMode::Plain).await.unwrap();
    }
}

/// A renewal through a connection that never had the hold.
async fn claim_gets_broken_through_another_connection<S: Server>(server: &S, mode: &str) {
    let (one, two) = (server.backend(mode, "").await, server.backend(mode, "").await);
    let (held, next) = (claim("x", LONG), claim("x", LONG));
    granted(&*one, &held).await;
    let seen = BreakTarget::Token(held.token);
    two.break_lock(&name("x"), seen, BreakMode::Now, "ada", "stuck").await.unwrap();
    granted(&*two, &next).await;
    let renewed = two.renew(&[Renew::of(&held)]).await.unwrap();
    assert_eq!(renewed, [Renewal::not_held(Reason::Broken)], "{mode}");
    let inspection = two.inspect(&name("x")).await.unwrap();
    assert_eq!(inspection.holders.len(), 1, "{mode}: {inspection:?}");
    assert_eq!(inspection.holders[0].token, Some(next.token));
    two.release(&next, ReleaseMode::Plain).await.unwrap();
}

async fn tombstone_of_a_broken_hold_is_swept<S: Server>(server: &S, mode: &str) {
    let one = server.backend(mode, "").await;
    let held = claim("x", LONG);
    granted(&*one, &held).await;
    let seen = BreakTarget::Token(held.token);
    one.break_lock(&name("x"), seen, BreakMode::Now, "ada", "stuck").await.unwrap();
    let left = || {
        server.sql("SELECT (SELECT count(*) FROM lockwright_hold) + (SELECT count(*) FROM lockwright_reader)")
    };
    assert_eq!(left(), "2", "{mode}");
    // Older than any sweep's limit.
    let old = if server.sql("SELECT version()").contains("PostgreSQL") {
        "updated - interval '1 day', fence = 1"
    } else {
        "updated - 86400000000, fence = 1"
    };
    server.sql(&format!("UPDATE lockwright_hold SET updated = {old}"));
    server.sql(&format!("UPDATE lockwright_reader SET updated = {old}"));
    for _ in 0..2 {
        one.sweep(ms(60_000)).await.unwrap();
    }
    assert_eq!(left(), "0", "{mode}");
}
