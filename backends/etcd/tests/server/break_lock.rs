use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, PutOptions};
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, DistributedLock, ErrorKind, Reason,
    Renew, RenewalOutcome,
};
use lockwright_testbed::proxy::Traffic;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::common::{
    FOR_EVER, busy, claim, claim_for, connect, eventually, fails, grant, key_of, server_and_client,
    server_and_proxy,
};

async fn lease_of(client: &Client, key: &str) -> Option<(i64, Duration)> {
    let found = client.kv_client().get(key, None).await.unwrap();
    let lease = found.kvs().first()?.lease();
    let told = client.lease_client().time_to_live(lease, None).await.unwrap();
    // etcd truncates the time to whole seconds.
    Some((lease, Duration::from_secs(told.ttl().try_into().ok()?)))
}

/// An operator's client died between marking the hold as broken and moving it to an expiring lease.
/// A second break moves the hold.
#[tokio::test(flavor = "multi_thread")]
async fn marked_hold_runs_out_after_a_second_break() {
    let (cluster, etcd) = server_and_client().await;
    let client = Client::connect(cluster.endpoints(), None).await.unwrap();
    let ttl = Duration::from_secs(30);
    let (broken, other) = (claim_for("orders", ttl), claim_for("other", ttl));
    for claim in [&broken, &other] {
        grant(&etcd, claim).await;
    }
    let key = key_of(&cluster, "orders");
    let (shared, _) = lease_of(&client, &key).await.unwrap();
    let mut kv = client.kv_client();
    let value = kv.get(key.as_str(), None).await.unwrap().kvs()[0].value_str().unwrap().to_owned();
    let marked = value.replacen('{', "{\"broken\":\"me: why\",", 1);
    let on_its_lease = PutOptions::new().with_ignore_lease();
    kv.put(key.as_str(), marked, Some(on_its_lease)).await.unwrap();
    let operator = connect(&cluster.url()).await;
    for client in [&etcd, &operator] {
        fails(client.try_acquire(&broken).await, ErrorKind::Lost(Reason::Broken));
        let renewals = client.renew(&[Renew::of(&broken)]).await.unwrap();
        assert_eq!(renewals[0].outcome, RenewalOutcome::NotHeld(Reason::Broken));
    }
    assert_eq!(lease_of(&client, &key).await.unwrap().0, shared);
    let mut leases = HashSet::new();
    for _ in 0..2 {
        let seen = BreakTarget::Token(broken.token);
        let again = operator.break_lock(&broken.name, seen, BreakMode::RunOut, "me", "why").await;
        let Ok(Broken::RunsOut(left)) = again else { panic!("{again:?}") };
        let (lease, is) = lease_of(&client, &key).await.unwrap();
        assert_ne!(lease, shared, "it is kept alive for the sake of others");
        assert!(left >= is && left <= ttl + Duration::from_secs(1), "{left:?} of {is:?}");
        leases.insert(lease);
    }
    assert_eq!(leases.len(), 1, "it was moved twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_breaks_report_the_outcome_and_leave_nothing() {
    let (cluster, etcd) = server_and_client().await;
    let client = Client::connect(cluster.endpoints(), None).await.unwrap();
    let ttl = Duration::from_secs(120);
    for round in 0..5 {
        let held = claim_for(&format!("orders-{round}"), ttl);
        grant(&etcd, &held).await;
        let key = key_of(&cluster, held.name.as_str());
        let mut breaking = JoinSet::new();
        for _ in 0..6 {
            let operator = connect(&cluster.url()).await;
            let name = held.name.clone();
            breaking.spawn(async move {
                let how = BreakMode::RunOut;
                let broken = operator.break_lock(&name, BreakTarget::Any, how, "me", "why").await;
                // Return the client, because dropping it would cancel its revocations of leases.
                (broken, operator)
            });
        }
        let told = breaking.join_all().await;
        let (_, is) = lease_of(&client, &key).await.unwrap();
        for (broken, _) in &told {
            let Ok(Broken::RunsOut(left)) = broken else { panic!("{broken:?}") };
            assert!(*left >= is && *left <= ttl + Duration::from_secs(1), "{left:?} of {is:?}");
        }
        // `etcd` has one lease for all its holds. Each of the `round + 1` broken holds has its own.
        eventually(|| async {
            let leases = client.lease_client().leases().await.unwrap();
            (leases.leases().len() == 2 + round).then_some(())
        })
        .await;
    }
}

/// Breaks a lock, but the response is lost. The lock is granted to another claim before the
/// operator's client repeats the request.
async fn freed_unheard(seen: impl Fn(&Claim) -> BreakTarget) {
    let (cluster, proxy, url) = server_and_proxy();
    let (etcd, operator) = (connect(&cluster.url()).await, Arc::new(connect(&url).await));
    let delay = Duration::from_millis(200);
    for round in 0..30 {
        let name = format!("orders-{round}");
        let (broken, next) = (claim(&name), claim(&name));
        grant(&etcd, &broken).await;
        busy(&etcd, &next, FOR_EVER).await;
        proxy.set(Traffic::Delay(delay));
        let (name, seen, breaking) = (broken.name.clone(), seen(&broken), Arc::clone(&operator));
        let breaking = tokio::spawn(async move {
            breaking.break_lock(&name, seen, BreakMode::Now, "me", "why").await
        });
        // The operator's client sends two reads and then the deletion. Each round waits longer, so
        // that in some round the deletion is in flight after the wait.
        sleep(delay * (10 + round) / 2).await;
        proxy.set(Traffic::SwallowAnswers);
        let mut is_next = false;
        for _ in 0..20 {
            sleep(delay / 10).await;
            let attempt = etcd.acquire(&next, FOR_EVER).await.unwrap();
            is_next |= matches!(attempt, AcquireOutcome::Granted(_));
        }
        let is_unheard = is_next && !breaking.is_finished();
        proxy.drop_connections();
        proxy.set(Traffic::Forward);
        let told = breaking.await.unwrap();
        let is_held = etcd.renew(&[Renew::of(&next)]).await.unwrap();
        let is_held = &is_held[0].outcome;
        assert!(matches!(is_held, RenewalOutcome::Renewed { .. }), "{told:?}, {is_held:?}");
        assert!(matches!(told, Ok(Broken::Freed(_))), "{told:?}");
        if is_unheard {
            return;
        }
    }
    panic!("it was never carried out unheard: it showed nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn break_with_a_lost_response_succeeds_and_frees_no_later_holder() {
    tokio::join!(
        freed_unheard(|_| BreakTarget::Any),
        freed_unheard(|claim| BreakTarget::Token(claim.token)),
    );
}
