//! Tests of members that are cut off from the majority and still answer reads.

use std::time::Duration;

use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode, RenewalOutcome};
use lockwright_zookeeper::ZooKeeper;

use super::{follower, now, url_of};
use crate::common::{Cluster, claim_for, eventually, fails, grant, renew, renewed};

/// A sync limit so long that a cut-off member doesn't notice its isolation.
const UNNOTICED: u32 = 150;

const SOON: Duration = Duration::from_secs(3);

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
        // The member still reports a mode, so it hasn't noticed its isolation.
        eventually(|| async { ensemble.members[member].mode() }).await;
    }
}

/// The member may lack the node of an unanswered acquire.
#[tokio::test(flavor = "multi_thread")]
async fn no_node_is_reported_gone_by_a_member_that_is_cut_off() {
    let ensemble = Cluster::options().sync_limit(UNNOTICED).start().unwrap();
    let member = follower(&ensemble);
    let zookeeper = ZooKeeper::connect(&url_of(&ensemble, member)).await.unwrap();
    // This TTL's session sends no write for a quarter of it, which would delay later reads.
    let [held, unanswered] = [(); 2].map(|()| claim_for("orders", Duration::from_secs(39)));
    grant(&zookeeper, &held).await;
    ensemble.isolate(member);
    let released = zookeeper.release(&unanswered, ReleaseMode::Reconcile).await;
    fails(released, ErrorKind::Unavailable);
}
