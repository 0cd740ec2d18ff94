use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, DistributedLock, Event, Reason, ReleaseMode, Renew, RenewalOutcome,
};
use tokio::time::{sleep, timeout};

use crate::common::{
    FOR_EVER, busy, claim_for, connect, events, grant, lease_of, next, server_and_client,
    server_and_proxy,
};

const LONG: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn missed_deletions_wake_after_a_reconnect() {
    let (cluster, proxy, url) = server_and_proxy();
    let etcd = connect(&url).await;
    let (held, other) = (claim_for("held", LONG), claim_for("other", LONG));
    grant(&etcd, &held).await;
    // The client's first waiter starts the watch.
    grant(&etcd, &other).await;
    busy(&etcd, &claim_for("other", LONG), FOR_EVER).await;
    let mut told = events(&etcd);
    proxy.cut();
    cluster.ctl(&["del", "lockwright/held/", "--prefix"]).unwrap();
    proxy.mend();
    loop {
        match next(&mut told).await {
            Event::Wake(_) => {}
            event => break assert_eq!(event, Event::Lost(held.token, Reason::Gone)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_goes_on_after_a_compaction() {
    let (cluster, proxy, url) = server_and_proxy();
    let (holder, waiter) = (connect(&cluster.url()).await, connect(&url).await);
    let claims: Vec<_> = ["a", "b"].iter().map(|name| claim_for(name, LONG)).collect();
    let waits: Vec<_> = ["a", "b"].iter().map(|name| claim_for(name, LONG)).collect();
    for (held, waits) in claims.iter().zip(&waits) {
        grant(&holder, held).await;
        busy(&waiter, waits, FOR_EVER).await;
    }
    let mut told = events(&waiter);
    proxy.cut();
    // The missed events are compacted before the watch resumes.
    holder.release(&claims[0], ReleaseMode::Plain).await.unwrap();
    for at in 0..20 {
        cluster.ctl(&["put", "elsewhere", &at.to_string()]).unwrap();
    }
    let status = cluster.ctl(&["endpoint", "status", "-w", "fields"]).unwrap();
    let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap();
    cluster.ctl(&["compact", revision.trim(), "--physical"]).unwrap();
    proxy.mend();
    assert!(matches!(next(&mut told).await, Event::Wake(_)));
    // Both waiters are woken, because the missed events are unknown.
    assert!(matches!(next(&mut told).await, Event::Wake(_)));
    sleep(Duration::from_secs(1)).await;
    while told.try_recv().is_ok() {}
    busy(&waiter, &waits[1], FOR_EVER).await;
    let quiet = timeout(Duration::from_millis(700), told.recv()).await;
    assert!(quiet.is_err(), "it is woken again and again: {quiet:?}");
    holder.release(&claims[1], ReleaseMode::Plain).await.unwrap();
    assert_eq!(next(&mut told).await, Event::Wake(claims[1].name.clone()));
}

/// A name's next hold on a lease has the same key. A late report of the first hold's deletion must
/// not end the next hold.
#[tokio::test(flavor = "multi_thread")]
async fn holder_is_not_notified_of_an_earlier_holds_end() {
    let (cluster, proxy, url) = server_and_proxy();
    let etcd = connect(&url).await;
    let (last, hot) = (claim_for("last", LONG), claim_for("hot", LONG));
    grant(&etcd, &last).await;
    busy(&etcd, &claim_for("last", LONG), FOR_EVER).await;
    grant(&etcd, &hot).await;
    let mut told = events(&etcd);
    // Break the watch's connection, so that the watch reports the deletion of `hot` only after the
    // next grant.
    proxy.drop_connections();
    etcd.release(&hot, ReleaseMode::Plain).await.unwrap();
    let again = claim_for("hot", LONG);
    grant(&etcd, &again).await;
    cluster.ctl(&["del", &format!("lockwright/last/{}", lease_of(&cluster, "hot"))]).unwrap();
    loop {
        match next(&mut told).await {
            Event::Wake(_) => {}
            event => break assert_eq!(event, Event::Lost(last.token, Reason::Gone)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn holder_is_notified_of_a_break_by_another_client() {
    let (cluster, etcd) = server_and_client().await;
    let operator = connect(&cluster.url()).await;
    grant(&etcd, &claim_for("other", LONG)).await;
    busy(&etcd, &claim_for("other", LONG), FOR_EVER).await;
    let (mut told, mut leases) = (events(&etcd), HashSet::new());
    for _ in 0..120 {
        let broken = claim_for("broken", LONG);
        grant(&etcd, &broken).await;
        leases.insert(lease_of(&cluster, "broken"));
        let seen = BreakTarget::Token(broken.token);
        operator.break_lock(&broken.name, seen, BreakMode::Now, "me", "why").await.unwrap();
        assert_eq!(next(&mut told).await, Event::Lost(broken.token, Reason::Broken));
        let renewals = etcd.renew(&[Renew::of(&broken)]).await.unwrap();
        assert_eq!(renewals[0].outcome, RenewalOutcome::NotHeld(Reason::Broken));
        etcd.release(&broken, ReleaseMode::Plain).await.unwrap();
    }
    // Each break leaves a tombstone on the lease, and a lease with a hundred tombstones accepts no
    // claims.
    assert!((2..5).contains(&leases.len()), "{leases:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_holders_of_a_lost_lease_are_notified() {
    let (cluster, etcd) = server_and_client().await;
    let mut tokens = Vec::new();
    for name in ["a", "b"] {
        let claim = claim_for(name, LONG);
        grant(&etcd, &claim).await;
        tokens.push(claim.token);
    }
    let mut told = events(&etcd);
    let list = cluster.ctl(&["lease", "list"]).unwrap();
    let lease = list.lines().last().unwrap().trim();
    cluster.ctl(&["lease", "revoke", lease]).unwrap();
    let mut lost = Vec::new();
    for _ in &tokens {
        match next(&mut told).await {
            Event::Lost(token, _) => lost.push(token),
            other => panic!("{other:?}"),
        }
    }
    lost.sort();
    tokens.sort();
    assert_eq!(lost, tokens);
}
