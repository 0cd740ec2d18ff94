use super::server::*;
use super::sweeping::{an_hour_passes, one_off_names};
use crate::support::*;

/// The acquire doesn't see its token's tombstone, which the release hasn't committed yet.
#[tokio::test(flavor = "multi_thread")]
async fn claim_in_flight_is_reconciled() {
    let (server, backend) = start().await;
    let newcomer = Arc::new(connect(&server.url()).await);
    acquire_and_release(&backend, "x").await;

    // After its grant, `backend` sends `acquire_free`, and `newcomer` doesn't.
    for backend in [backend, newcomer] {
        let late = claim("x");
        let mut row = lock_lease(&server, "x").await;
        let settling = tokio::spawn({
            let (backend, late) = (Arc::clone(&backend), late.clone());
            async move { backend.release(&late, ReleaseMode::Reconcile).await.unwrap() }
        });
        wait_for_blocked(&server, 1).await;
        let asking = acquiring(&backend, &late, Wait::No);
        wait_for_blocked(&server, 2).await;
        row.execute("COMMIT").await.unwrap();
        assert_eq!(settling.await.unwrap(), ReleaseOutcome::NotHeld);
        refused(asking.await.unwrap(), ErrorKind::Lost(Reason::Gone), "");
        assert!(backend.inspect(&name("x")).await.unwrap().holders.is_empty());
    }
}

/// An update that stays on the row's page writes no index and needs no vacuum.
#[tokio::test]
async fn renewals_and_acquires_write_no_index() {
    let (server, backend) = start().await;
    for _ in 0..50 {
        for name in ["a", "b", "c", "d"] {
            let held = claim(name);
            grant(&backend, &held).await;
            backend.renew(&[Renew::of(&held)]).await.unwrap();
            backend.release(&held, ReleaseMode::Plain).await.unwrap();
        }
    }
    let are_hot = "SELECT n_tup_upd >= 590 AND n_tup_hot_upd >= n_tup_upd * 0.95 \
                   FROM pg_stat_user_tables WHERE relname = 'lockwright_lease'";
    eventually(|| async { (server.sql(are_hot).unwrap() == "t").then_some(()) }).await;
}

/// A name without a row gets a fence above the floor, so a sweep first raises the floor to the
/// fences of the rows to delete. The row `young` becomes old only after the sweep has chosen the
/// new floor, so the sweep must keep it.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_above_the_floor_stays() {
    let (server, backend) = start().await;
    one_off_names(&server, 10);
    let mut young = claim("young");
    young.fences = 1_000_000_000;
    let last = grant(&backend, &young).await.fence.get() + 999_999_999;
    backend.release(&young, ReleaseMode::Plain).await.unwrap();

    let mut meta = session(&server).await;
    meta.execute("BEGIN; SELECT floor FROM lockwright_meta FOR UPDATE").await.unwrap();
    let sweeping = tokio::spawn({
        let backend = Arc::clone(&backend);
        async move { backend.sweep(Duration::ZERO).await.unwrap().rows }
    });
    wait_for_blocked(&server, 1).await;
    an_hour_passes(&server);
    meta.execute("COMMIT").await.unwrap();
    assert_eq!(sweeping.await.unwrap(), 10, "the young one stays for the next sweep");
    let fence = grant(&backend, &claim("young")).await.fence;
    assert!(fence > Fence::new(last), "it had {last}, and then got {fence}");
}

#[tokio::test(flavor = "multi_thread")]
async fn break_that_ends_only_one_of_two_readers_is_indeterminate() {
    let server = plain();
    let backend = Config::new(&server.url()).unwrap().connect().await.unwrap();
    for _ in 0..2 {
        grant(&backend, &reader("x", LONG)).await;
    }
    let last = backend.inspect(&name("x")).await.unwrap().holders[1].token.unwrap();
    let _row = lock_row(&server, "lockwright_shared_holder", &format!("token = '{last}'")).await;
    let answer = break_x(&backend, BreakTarget::Any, BreakMode::Now).await;
    refused(answer, ErrorKind::Indeterminate, "some of the holders");
    assert_eq!(backend.inspect(&name("x")).await.unwrap().holders.len(), 1);
}

/// The renewal's snapshot is older than the break, whose row it waits for.
#[tokio::test(flavor = "multi_thread")]
async fn renewal_that_waits_for_a_break_says_so() {
    let (server, backend) = start().await;
    let held = hold(&*backend, "x").await;
    let mut breaking = lock_lease(&server, "x").await;
    breaking.execute("UPDATE lockwright_lease SET broken = 'by us'").await.unwrap();
    let renewing = renewing(&backend, &held);
    wait_for_blocked(&server, 1).await;
    breaking.execute("COMMIT").await.unwrap();
    assert_eq!(renewing.await.unwrap(), Renewal::not_held(Reason::Broken));
}
