//! The rules for granting rows. Each test failed with its rule broken.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, DistributedLock, ErrorKind, Fence, Reason,
    ReleaseMode, ReleaseOutcome, Renew, RenewalOutcome,
};
use lockwright_sql::Postgres;
use sqlx::Executor;

use crate::kit::{
    claim, claim_for, connect, grant, locking, name, server_and_client, wait_for_blocked,
};

/// On open connections, so that only the row decides.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_is_granted() {
    let (server, one) = server_and_client().await;
    let mut clients = vec![Arc::new(one)];
    for _ in 0..3 {
        clients.push(Arc::new(connect(&server.url()).await));
    }
    for round in 0..100 {
        // Free names, and names with a row.
        let locked = format!("x{}", round % 50);
        let asked: Vec<_> = clients
            .iter()
            .cycle()
            .take(16)
            .map(|client| {
                let (client, claim) = (Arc::clone(client), claim(&locked));
                tokio::spawn(async move { (client.try_acquire(&claim).await.unwrap(), claim) })
            })
            .collect();
        let mut granted = Vec::new();
        for asked in asked {
            if let (AcquireOutcome::Granted(_), claim) = asked.await.unwrap() {
                granted.push(claim);
            }
        }
        assert_eq!(granted.len(), 1, "in round {round}");
        clients[0].release(&granted[0], ReleaseMode::Plain).await.unwrap();
    }
}

async fn renew(postgres: &Postgres, claim: &Claim) -> RenewalOutcome {
    let renewals = postgres.renew(&[Renew::of(claim)]).await.unwrap();
    assert_eq!(renewals.len(), 1);
    renewals[0].outcome.clone()
}

#[tokio::test]
async fn what_ran_out_is_not_revived() {
    let (_server, postgres) = server_and_client().await;
    let short = claim_for("x", Duration::from_secs(1));
    let first = grant(&postgres, &short).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(renew(&postgres, &short).await, RenewalOutcome::NotHeld(Reason::Expired));
    assert!(postgres.inspect(&name("x")).await.unwrap().holders.is_empty());
    assert_eq!(
        postgres.release(&short, ReleaseMode::Plain).await.unwrap(),
        ReleaseOutcome::NotHeld,
        "it had run out by itself"
    );
    let again = grant(&postgres, &short).await;
    assert!(again.fence > first.fence, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_out_during_a_wait_for_its_row_is_not_revived() {
    let (server, postgres) = server_and_client().await;
    let postgres = Arc::new(postgres);
    let ttl = Duration::from_secs(1);
    for by_renewal in [true, false] {
        let held = claim_for("x", ttl);
        let first = grant(&postgres, &held).await;
        let mut row = locking(&server, "x").await;
        // Shortly before the end, as no request waits a whole TTL for a row.
        tokio::time::sleep(ttl * 8 / 10).await;
        let asking = tokio::spawn({
            let (postgres, held) = (Arc::clone(&postgres), held.clone());
            async move {
                if by_renewal {
                    renew(&postgres, &held).await == RenewalOutcome::Renewed { valid: None }
                } else {
                    // A new hold is correct, the old one isn't.
                    let answer = postgres.try_acquire(&held).await;
                    matches!(answer, Ok(AcquireOutcome::Granted(granted)) if granted.fence == first.fence)
                }
            }
        });
        tokio::time::sleep(ttl * 3 / 10).await;
        row.execute("COMMIT").await.unwrap();
        assert!(!asking.await.unwrap(), "it was revived, by a renewal: {by_renewal}");
        postgres.release(&held, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn a_hold_ends_by_its_own_token_only() {
    let (_server, postgres) = server_and_client().await;
    let (held, other) = (claim("x"), claim("x"));
    grant(&postgres, &held).await;
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        assert_eq!(postgres.release(&other, release_mode).await.unwrap(), ReleaseOutcome::NotHeld);
        assert_eq!(renew(&postgres, &other).await, RenewalOutcome::NotHeld(Reason::Gone));
        assert_eq!(renew(&postgres, &held).await, RenewalOutcome::Renewed { valid: None });
    }
    assert_eq!(
        postgres.release(&held, ReleaseMode::Plain).await.unwrap(),
        ReleaseOutcome::Released
    );
    assert_eq!(postgres.release(&held, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
}

/// A claim in progress doesn't see the tombstone of its token.
#[tokio::test(flavor = "multi_thread")]
async fn claim_in_flight_is_reconciled() {
    let (server, postgres) = server_and_client().await;
    let postgres = Arc::new(postgres);
    let before = claim("x");
    grant(&postgres, &before).await;
    postgres.release(&before, ReleaseMode::Plain).await.unwrap();

    let late = claim("x");
    let mut row = locking(&server, "x").await;
    let settling = tokio::spawn({
        let (postgres, late) = (Arc::clone(&postgres), late.clone());
        async move { postgres.release(&late, ReleaseMode::Reconcile).await.unwrap() }
    });
    wait_for_blocked(&server, 1).await;
    // The tombstone isn't committed yet.
    let asking = tokio::spawn({
        let (postgres, late) = (Arc::clone(&postgres), late.clone());
        async move { postgres.try_acquire(&late).await }
    });
    wait_for_blocked(&server, 2).await;
    row.execute("COMMIT").await.unwrap();
    assert_eq!(settling.await.unwrap(), ReleaseOutcome::NotHeld);
    let error = asking.await.unwrap().unwrap_err();
    assert_eq!(error.lost_reason(), Some(Reason::Gone), "{error:?}");
    assert!(postgres.inspect(&name("x")).await.unwrap().holders.is_empty());
}

#[tokio::test]
async fn fences_grow_past_what_was_reserved() {
    let (server, postgres) = server_and_client().await;
    let mut last = Fence::new(0);
    for fences in [1, 1_000_000_000, 1, 7] {
        let mut held = claim("x");
        held.fences = fences;
        let granted = grant(&postgres, &held).await;
        assert!(granted.fence > last, "{granted:?} after {last}");
        assert_eq!(granted.fences, fences);
        last = Fence::new(granted.fence.get() + u64::from(fences) - 1);
        let again = grant(&postgres, &held).await;
        assert_eq!((again.fence, again.fences), (granted.fence, fences));
        let shown = postgres.inspect(&name("x")).await.unwrap();
        assert_eq!(shown.fence, Some(last));
        if fences == 7 {
            postgres
                .break_lock(&name("x"), BreakTarget::Any, BreakMode::Now, "ada", "to see")
                .await
                .unwrap();
            assert_eq!(renew(&postgres, &held).await, RenewalOutcome::NotHeld(Reason::Broken));
        } else {
            postgres.release(&held, ReleaseMode::Plain).await.unwrap();
        }
    }
    // As after a step back of the server's clock.
    server.sql("UPDATE lockwright_lease SET fence = 9000000000000000").unwrap();
    assert_eq!(grant(&postgres, &claim("x")).await.fence, Fence::new(9_000_000_000_000_007));
    // After the highest fence comes an error.
    server
        .sql("UPDATE lockwright_lease SET token = NULL, fences = 1, fence = 9007199254740991")
        .unwrap();
    let error = postgres.try_acquire(&claim("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
}

/// The fence is that of the locked row, not that at the start of the statement.
#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_past_what_was_granted_during_a_wait() {
    let (server, postgres) = server_and_client().await;
    let postgres = Arc::new(postgres);
    let before = claim("x");
    grant(&postgres, &before).await;
    postgres.release(&before, ReleaseMode::Plain).await.unwrap();
    let mut row = locking(&server, "x").await;
    let asking = tokio::spawn({
        let postgres = Arc::clone(&postgres);
        async move { grant(&postgres, &claim("x")).await.fence }
    });
    wait_for_blocked(&server, 1).await;
    row.execute("UPDATE lockwright_lease SET fence = 9000000000000000, fences = 5; COMMIT")
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), Fence::new(9_000_000_000_000_005));
}

/// Requests that lose against others are retried.
#[tokio::test(flavor = "multi_thread")]
async fn serializable_transactions_are_no_obstacle() {
    let (server, one) = server_and_client().await;
    drop(one);
    server.sql("ALTER ROLE lockwright SET default_transaction_isolation = 'serializable'").unwrap();
    let clients = [connect(&server.url()).await, connect(&server.url()).await].map(Arc::new);
    for round in 0..20 {
        let asked: Vec<_> = (0..8)
            .map(|at| {
                let (client, claim) = (Arc::clone(&clients[at % 2]), claim("x"));
                tokio::spawn(async move { (client.try_acquire(&claim).await, claim) })
            })
            .collect();
        let mut granted = Vec::new();
        for asked in asked {
            match asked.await.unwrap() {
                (Ok(AcquireOutcome::Granted(_)), claim) => granted.push(claim),
                (Ok(AcquireOutcome::Busy(_)), _) => {}
                // It lost in each attempt, without effect.
                (Err(error), _) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
            }
        }
        assert_eq!(granted.len(), 1, "in round {round}");
        clients[0].release(&granted[0], ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_in_a_value_is_taken_for_sql() {
    let (server, postgres) = server_and_client().await;
    for setting in ["on", "off"] {
        server
            .sql(&format!("ALTER ROLE lockwright SET standard_conforming_strings = {setting}"))
            .unwrap();
        let postgres = connect(&server.url()).await;
        for odd in [
            "'; DROP TABLE lockwright_lease; --",
            "\\'; DROP TABLE lockwright_lease; --",
            "\\",
            "x\\'",
            ":name",
            "$1",
            "{lease}",
            "%_%",
            "naïve 🔒 \u{10FFFF}",
        ] {
            let held = claim(odd);
            grant(&postgres, &held).await;
            let shown = postgres.inspect(&name(odd)).await.unwrap();
            assert_eq!(shown.holders.len(), 1, "{odd:?}");
            let listed = postgres.list(odd, None).await.unwrap();
            assert_eq!(listed.names.len(), 1, "{odd:?}");
            let broken =
                postgres.break_lock(&held.name, BreakTarget::Any, BreakMode::RunOut, odd, odd);
            broken.await.unwrap();
            let shown = postgres.inspect(&name(odd)).await.unwrap();
            assert_eq!(shown.holders[0].broken.as_deref(), Some(&*format!("{odd}: {odd}")));
            assert_eq!(renew(&postgres, &held).await, RenewalOutcome::NotHeld(Reason::Broken));
            postgres.release(&held, ReleaseMode::Reconcile).await.unwrap();
        }
    }
    drop(postgres);
}
