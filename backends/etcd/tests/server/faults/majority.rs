use lockwright_core::Fault;
use lockwright_testbed::etcd::Version;

use super::{
    LONG, blocking, holder_and_waiter, locks, on_each_version, participants, start, url_of, whole,
};

on_each_version!(
    a_hold_outlives_a_restart_of_one_member_after_the_other,
    a_hold_outlives_a_restart_of_most_members_at_once,
);

async fn a_hold_outlives_a_restart_of_one_member_after_the_other(version: Version) {
    let mut cluster = start(version);
    let all = participants(LONG);
    let (ours, others) = (locks(&cluster.url()).await, locks(&cluster.url()).await);
    assert!(ours.profile().survives.contains(Fault::ServerRestart));
    let (holder, waiter) = holder_and_waiter(&all, &ours, &others).await;
    for member in 0..3 {
        blocking(|| {
            cluster.members[member].restart(true).unwrap();
            cluster.wait_until_whole().unwrap();
        });
        holder.guard.check().unwrap();
    }
    all.survives(holder, waiter).await;
}

async fn a_hold_outlives_a_restart_of_most_members_at_once(version: Version) {
    let mut cluster = start(version);
    let all = participants(LONG);
    let leader = cluster.leader().unwrap();
    // The holder's client is connected to a member that survives, the waiter's client to a killed
    // one.
    let ours = locks(&url_of(&cluster, (leader + 1) % 3)).await;
    let others = locks(&url_of(&cluster, leader)).await;
    let (holder, waiter) = holder_and_waiter(&all, &ours, &others).await;
    for gone in [leader, (leader + 2) % 3] {
        cluster.members[gone].kill();
    }
    assert!(cluster.leader().is_err());
    for gone in [leader, (leader + 2) % 3] {
        blocking(|| cluster.members[gone].restart(true)).unwrap();
    }
    whole(&cluster);
    all.survives(holder, waiter).await;
}
