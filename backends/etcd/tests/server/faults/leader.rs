use lockwright_core::Fault;
use lockwright_testbed::etcd::Version;

use super::{
    LONG, SHORT, blocking, connected_to, elected, hold_is_lost_in_time, holder_and_waiter, locks,
    on_each_version, participants, start, url_without,
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
    // The holder's client, but not the waiter's, is connected to the leader that is killed.
    let (ours, _proxies) = connected_to(&cluster, old).await;
    let others = locks(&url_without(&cluster, old)).await;
    let (holder, waiter) = holder_and_waiter(&all, &ours, &others).await;
    cluster.members[old].kill();
    let old = elected(&cluster, old);
    all.survives(holder, waiter).await;

    // Now kill the leader that the waiter's client is connected to.
    blocking(|| {
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
    let (holder, waiter) = holder_and_waiter(&all, &others, &waiting).await;
    cluster.members[old].kill();
    elected(&cluster, old);
    all.survives(holder, waiter).await;
}

async fn a_client_of_a_leader_that_is_cut_off_loses_its_hold_in_time(version: Version) {
    let cluster = start(version);
    let old = cluster.leader().unwrap();
    let harm = || {
        cluster.isolate(old);
        elected(&cluster, old);
    };
    // A new leader restarts all TTLs, so the loss may take two TTLs.
    let times = (SHORT, SHORT * 2);
    hold_is_lost_in_time(&cluster, old, times, harm, async || cluster.heal(old)).await;
}

async fn client_leaves_a_partitioned_leader(version: Version) {
    let cluster = start(version);
    let all = participants(LONG);
    let old = cluster.leader().unwrap();
    let (ours, _proxies) = connected_to(&cluster, old).await;
    assert!(ours.profile().survives.contains(Fault::Partition));
    let others = locks(&url_without(&cluster, old)).await;
    let (holder, waiter) = holder_and_waiter(&all, &ours, &others).await;
    cluster.isolate(old);
    elected(&cluster, old);
    all.survives(holder, waiter).await;
}
