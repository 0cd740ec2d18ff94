//! Experiments that show which requests prove that a session lives.

use std::time::Duration;

use lockwright_core::RenewalOutcome;
use lockwright_zookeeper::ZooKeeper;
use zookeeper_client as zk;

use super::{follower, now, url_of};
use crate::common::{Cluster, claim_for, eventually, grant, raw, renew, renewed};

/// A sync limit so long that a cut-off member doesn't notice its isolation.
const UNNOTICED: u32 = 150;

const SOON: Duration = Duration::from_secs(3);

async fn answers<T>(request: impl Future<Output = Result<T, zk::Error>>) -> bool {
    match tokio::time::timeout(SOON, request).await {
        Ok(Ok(_) | Err(zk::Error::NoNode)) => true,
        Err(_) => false,
        Ok(Err(error)) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_answers_sync_and_cannot_commit() {
    let ensemble = Cluster::options().sync_limit(UNNOTICED).start().unwrap();
    let leader = ensemble.leader().unwrap();
    let client = raw(&url_of(&ensemble, leader)).await;
    assert!(answers(client.delete("/nobody", None)).await, "a whole ensemble commits");
    ensemble.isolate(leader);
    assert!(answers(client.list_children("/")).await, "it reads");
    assert!(answers(client.sync("/")).await, "and asks itself whether it is up to date");
    assert!(!answers(client.delete("/nobody", None)).await, "but it has no quorum to commit");
    // The leader hasn't noticed its isolation.
    eventually(|| async { ensemble.members[leader].is_leader().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_cut_off_answers_reads_and_nothing_that_goes_to_the_leader() {
    let ensemble = Cluster::options().sync_limit(UNNOTICED).start().unwrap();
    let follower = follower(&ensemble);
    let client = raw(&url_of(&ensemble, follower)).await;
    ensemble.isolate(follower);
    assert!(answers(client.list_children("/")).await);
    assert!(!answers(client.delete("/nobody", None)).await);
    assert!(!answers(client.sync("/")).await);
    let mode = eventually(|| async { ensemble.members[follower].mode() }).await;
    assert_eq!(mode, "follower");
}

/// Deleting a missing node is proposed and committed like any other change.
#[tokio::test(flavor = "multi_thread")]
async fn the_proof_is_a_transaction_and_leaves_nothing() {
    let ensemble = Cluster::start().unwrap();
    let client = raw(&ensemble.url()).await;
    let leader = &ensemble.members[ensemble.leader().unwrap()];
    let nodes = || leader.monitor("zk_znode_count").unwrap();
    let (before, had) = (leader.zxid().unwrap(), nodes());
    for _ in 0..10 {
        assert!(matches!(client.delete("/nobody", None).await, Err(zk::Error::NoNode)));
    }
    // The follower answers before the leader has applied the last deletion.
    eventually(|| async { leader.zxid().filter(|zxid| *zxid >= before + 10) }).await;
    assert_eq!(nodes(), had);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_renewal_is_answered_by_a_member_that_is_cut_off() {
    let ttl = Duration::from_secs(10);
    for is_leader in [true, false] {
        let ensemble = Cluster::options().sync_limit(UNNOTICED).start().unwrap();
        let leader = ensemble.leader().unwrap();
        let member = if is_leader { leader } else { follower(&ensemble) };
        let zookeeper = ZooKeeper::connect(&url_of(&ensemble, member)).await.unwrap();
        let claim = claim_for("orders", ttl);
        grant(&zookeeper, &claim).await;
        renewed(&zookeeper, &claim).await;
        ensemble.isolate(member);
        let cut = now();
        // Requests in flight may still be answered.
        eventually(|| async {
            (renew(&zookeeper, &claim).await == RenewalOutcome::Indeterminate).then_some(())
        })
        .await;
        assert!(now() < cut + SOON * 2, "late: it is still renewed");
        assert_eq!(renew(&zookeeper, &claim).await, RenewalOutcome::Indeterminate);
        // The member hasn't noticed its isolation: otherwise it would have no mode.
        eventually(|| async { ensemble.members[member].mode() }).await;
    }
}
