use lockwright_core::Fault;

use super::{
    LONG, SHORT, VERSIONS, connected_to, elected, hold_is_lost_in_time, holder_and_waiter, locks,
    participants, start, url_without,
};

/// No member freezes in this test, so etcd issue 15247 doesn't apply, and the hold survives.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_a_dead_or_partitioned_leader() {
    for version in VERSIONS {
        for (dies, holder_at_leader) in [(true, true), (true, false), (false, true)] {
            let mut cluster = start(version);
            let all = participants(LONG);
            let old = cluster.leader().unwrap();
            let (at_leader, _proxies) = connected_to(&cluster, old).await;
            let survives = at_leader.profile().survives;
            assert!(survives.contains(Fault::Partition) && !survives.contains(Fault::Failover));
            let elsewhere = locks(&url_without(&cluster, old)).await;
            let (ours, others) =
                if holder_at_leader { (&at_leader, &elsewhere) } else { (&elsewhere, &at_leader) };
            let (holder, waiter) = holder_and_waiter(&all, ours, others).await;
            match dies {
                true => cluster.members[old].kill(),
                false => cluster.isolate(old),
            }
            elected(&cluster, old);
            all.survives(holder, waiter).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_leader_that_is_cut_off_loses_its_hold_in_time() {
    for version in VERSIONS {
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
}
