use lockwright_conformance::participants::now;
use lockwright_testbed::ZooKeeper;

use super::{LONG, SHORT, blocking, elected, hold_at, locks, participants, url_of, url_without};

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_the_leader() {
    let mut ensemble = ZooKeeper::start().unwrap();
    let all = participants(LONG);
    // The holder's client loses its server, and the waiter's client keeps its own.
    let old = ensemble.leader().unwrap();
    let (ours, holder) = hold_at(old, &ensemble, &all, LONG).await;
    let others = locks(&url_without(&ensemble, old)).await;
    let waiter = all.wait("waiter", &others).await;
    ensemble.members[old].kill();
    elected(&ensemble, old);
    all.survives(holder, waiter).await;

    // Next, the waiter's client may lose its server.
    blocking(|| ensemble.members[old].restart(true)).unwrap();
    blocking(|| ensemble.wait_until_whole()).unwrap();
    let all = participants(LONG);
    let holder = all.hold("holder", &others).await;
    let waiter = all.wait("waiter", &ours).await;
    let old = ensemble.leader().unwrap();
    ensemble.members[old].kill();
    elected(&ensemble, old);
    all.survives(holder, waiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_a_leader_that_is_frozen_for_longer_than_the_ttl() {
    let ensemble = ZooKeeper::start().unwrap();
    let all = participants(LONG);
    let old = ensemble.leader().unwrap();
    let (_ours, holder) = hold_at(old, &ensemble, &all, LONG).await;
    let others = locks(&url_without(&ensemble, old)).await;
    let waiter = all.wait("waiter", &others).await;
    ensemble.members[old].freeze();
    elected(&ensemble, old);
    holder.goes_on().await;
    ensemble.members[old].thaw();
    blocking(|| ensemble.wait_until_whole()).unwrap();
    all.survives(holder, waiter).await;
}

/// The holder's URL has only the frozen leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_frozen_leader_alone_loses_its_hold_in_time() {
    let ensemble = ZooKeeper::start().unwrap();
    let all = participants(SHORT);
    let old = ensemble.leader().unwrap();
    let ours = locks(&url_of(&ensemble, old)).await;
    let others = locks(&url_without(&ensemble, old)).await;
    let holder = all.hold("holder", &ours).await;
    let waiter = all.wait("waiter", &others).await;
    let since = now();
    ensemble.members[old].freeze();
    elected(&ensemble, old);
    let next = all.is_lost(&holder, waiter, since, SHORT * 2).await;
    ensemble.members[old].thaw();
    all.comes_back(&ours, next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_leader_that_is_cut_off_loses_its_hold_in_time() {
    // The cut-off leader acts as leader for 6 s, which is the hold's TTL.
    let ensemble = ZooKeeper::options().sync_limit(30).start().unwrap();
    let all = participants(SHORT);
    let old = ensemble.leader().unwrap();
    let ours = locks(&url_of(&ensemble, old)).await;
    let others = locks(&url_without(&ensemble, old)).await;
    let holder = all.hold("holder", &ours).await;
    let waiter = all.wait("waiter", &others).await;
    let since = now();
    ensemble.isolate(old);
    elected(&ensemble, old);
    // The new leader restarts the sessions' timeouts, so the loss may take two TTLs.
    let next = all.is_lost(&holder, waiter, since, SHORT * 2).await;
    ensemble.heal(old);
    all.comes_back(&ours, next).await;
}
