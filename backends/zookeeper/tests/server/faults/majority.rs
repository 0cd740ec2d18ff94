use std::time::Duration;

use super::{LONG, blocking, holder_and_waiter, is_back, locks, participants, whole};
use crate::common::Cluster;

/// A TTL longer than two successive outages. In each, two members start and elect a leader, and the
/// client reconnects. Each step takes some seconds on a busy machine.
const TWO_OUTAGES: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_the_restart_of_all_members_one_after_the_other() {
    let mut ensemble = Cluster::start().unwrap();
    let all = participants(LONG);
    let ours = locks(&ensemble.url()).await;
    let others = locks(&ensemble.url()).await;
    let (holder, waiter) = holder_and_waiter(&all, &ours, &others).await;
    for member in 0..3 {
        blocking(|| ensemble.members[member].restart(true)).unwrap();
        whole(&ensemble);
        is_back(&ours, LONG).await;
    }
    all.survives(holder, waiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_the_crash_of_a_majority() {
    let mut ensemble = Cluster::options().durable().start().unwrap();
    let all = participants(TWO_OUTAGES);
    let ours = locks(&ensemble.url()).await;
    let others = locks(&ensemble.url()).await;
    let (holder, waiter) = holder_and_waiter(&all, &ours, &others).await;
    let leader = ensemble.leader().unwrap();
    for both in [[leader, (leader + 1) % 3], [(leader + 1) % 3, (leader + 2) % 3]] {
        for member in both {
            ensemble.members[member].kill();
        }
        for member in both {
            blocking(|| ensemble.members[member].restart(true)).unwrap();
        }
        whole(&ensemble);
        is_back(&ours, TWO_OUTAGES).await;
    }
    all.survives(holder, waiter).await;
}
