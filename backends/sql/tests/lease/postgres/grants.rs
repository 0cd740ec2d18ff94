use super::server::*;
use crate::support::*;

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

#[tokio::test(flavor = "multi_thread")]
async fn break_that_ends_only_one_of_two_readers_is_indeterminate() {
    let server = plain();
    let backend = Config::new(&server.url()).unwrap().connect().await.unwrap();
    for _ in 0..2 {
        grant(&backend, &reader("x", LONG)).await;
    }
    let last = backend.inspect(&name("x")).await.unwrap().holders[1].token.unwrap();
    let _row = lock_row(&server, "lockwright_shared_holder", &format!("token = '{last}'")).await;
    let answer = break_x(&backend, None, BreakMode::Now).await;
    refused(answer, ErrorKind::Indeterminate, "some of the holders");
    assert_eq!(backend.inspect(&name("x")).await.unwrap().holders.len(), 1);
}

/// The renewal waits for the row that the break has locked. So the renewal's snapshot is older than
/// the break's commit.
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
