use lockwright_conformance::participants::now;
use lockwright_core::Fault;
use lockwright_testbed::etcd::Version;

use super::{
    LONG, SHORT, connected_to, elected, locks, on_each_version, participants, start, url_of,
    url_without,
};

on_each_version!(
    a_hold_outlives_the_leader,
    a_client_of_a_leader_that_is_cut_off_loses_its_hold_in_time,
    client_leaves_a_partitioned_leader,
);

/// No member freezes in this test, so etcd issue 15247 doesn't apply, and the hold survives.
async fn a_hold_outlives_the_leader(version: Version) {
    let mut cluster = start(version);
    let all = participants(LONG);
    let old = cluster.leader().unwrap();
    // Only the holder's client is connected to the leader, which is killed below.
    let (ours, _proxies) = connected_to(&cluster, old).await;
    let others = locks(&url_without(&cluster, old)).await;
    let holder = all.hold("holder", &ours).await;
    let waiter = all.wait("waiter", &others).await;
    cluster.members[old].kill();
    let old = elected(&cluster, old);
    all.survives(holder, waiter).await;

    // Now the waiter's client is connected to the leader that is killed.
    super::blocking(|| {
        for member in &mut cluster.members {
            if !member.is_healthy() {
                member.restart(true).unwrap();
            }
        }
        cluster.wait_until_whole().unwrap();
    });
    let all = participants(LONG);
    let old = cluster.leader().unwrap_or(old);
    let (waiting, _proxies) = connected_to(&cluster, old).await;
    let others = locks(&url_without(&cluster, old)).await;
    let holder = all.hold("holder", &others).await;
    let waiter = all.wait("waiter", &waiting).await;
    cluster.members[old].kill();
    elected(&cluster, old);
    all.survives(holder, waiter).await;
}

async fn a_client_of_a_leader_that_is_cut_off_loses_its_hold_in_time(version: Version) {
    let cluster = start(version);
    let all = participants(SHORT);
    let old = cluster.leader().unwrap();
    let ours = locks(&url_of(&cluster, old)).await;
    let others = locks(&url_without(&cluster, old)).await;
    let holder = all.hold("holder", &ours).await;
    let waiter = all.wait("waiter", &others).await;
    let since = now();
    cluster.isolate(old);
    elected(&cluster, old);
    // A new leader restarts all TTLs, so the loss may take two TTLs.
    let next = all.is_lost(&holder, waiter, since, SHORT * 2).await;
    cluster.heal(old);
    all.comes_back(&ours, next).await;
}

async fn client_leaves_a_partitioned_leader(version: Version) {
    let cluster = start(version);
    let all = participants(LONG);
    let old = cluster.leader().unwrap();
    let (ours, _proxies) = connected_to(&cluster, old).await;
    assert!(ours.profile().survives.contains(Fault::Partition));
    let others = locks(&url_without(&cluster, old)).await;
    let holder = all.hold("holder", &ours).await;
    let waiter = all.wait("waiter", &others).await;
    cluster.isolate(old);
    elected(&cluster, old);
    all.survives(holder, waiter).await;
}
