//! Tests with a cut-off follower, which still answers its clients' pings and reads.

use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

use super::{
    LONG, SHORT, follower, hold_at, hold_is_lost_in_time, holder_and_waiter, locks, participants,
    url_of, url_without, whole,
};
use crate::common::{Cluster, eventually, raw};

/// A sync limit so long that a cut-off follower keeps serving: only requests to the quorum fail.
const UNNOTICED: u32 = 100;

/// `enableEagerACLCheck` makes the follower check ACLs before it forwards a request. The prefix's
/// ACL denies the deletion of children, so the follower rejects a deletion by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_follower_that_is_cut_off_loses_its_hold_in_time() {
    let options = Cluster::options().sync_limit(UNNOTICED);
    let ensemble = options.property("zookeeper.enableEagerACLCheck", "true").start().unwrap();
    let permission = Permission::CREATE | Permission::READ | Permission::ADMIN;
    let acls = [Acl::new(permission, AuthId::anyone())];
    let options = CreateMode::Persistent.with_acls(Acls::new(&acls));
    raw(&ensemble.url()).await.create("/lockwright", b"", &options).await.unwrap();
    let cut_off = follower(&ensemble);
    let mend = async || {
        let mode = eventually(|| async { ensemble.members[cut_off].mode() }).await;
        assert_eq!(mode, "follower", "it still answers as if nothing was");
        ensemble.heal(cut_off);
    };
    let harm = || ensemble.isolate(cut_off);
    hold_is_lost_in_time(&ensemble, cut_off, (SHORT, SHORT), harm, mend).await;
}

/// A waiter at the cut-off follower isn't granted the lock, but still waits after the follower's
/// return.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_at_a_follower_that_is_cut_off_gets_its_turn_later() {
    let ensemble = Cluster::options().sync_limit(UNNOTICED).start().unwrap();
    let all = participants(SHORT);
    let cut_off = follower(&ensemble);
    let ours = locks(&url_of(&ensemble, cut_off)).await;
    let others = locks(&url_without(&ensemble, cut_off)).await;
    let (holder, waiter) = holder_and_waiter(&all, &others, &ours).await;
    ensemble.isolate(cut_off);
    holder.goes_on().await;
    assert!(!waiter.is_finished());
    let fence = holder.guard.fence();
    holder.release().await;
    let third = all.hold("third", &others).await;
    assert!(third.guard.fence() > fence);
    ensemble.heal(cut_off);
    third.goes_on().await;
    third.release().await;
    let last = waiter.await.unwrap();
    last.release().await;
    all.check();
}

/// The follower drops its clients within ten ticks. A client whose URL has all servers then moves
/// to another server.
#[tokio::test(flavor = "multi_thread")]
async fn hold_survives_a_partitioned_follower_if_the_url_has_others() {
    let ensemble = Cluster::start().unwrap();
    let all = participants(LONG);
    let first = follower(&ensemble);
    let (_ours, holder) = hold_at(first, &ensemble, &all).await;
    let others = locks(&ensemble.url()).await;
    let waiter = all.wait("waiter", &others).await;
    // Cut off the follower, and then the leader, to which the client may have moved.
    for cut_off in [first, ensemble.leader().unwrap()] {
        ensemble.isolate(cut_off);
        eventually(|| async { ensemble.members[cut_off].mode().is_none().then_some(()) }).await;
        holder.goes_on().await;
        ensemble.heal(cut_off);
        whole(&ensemble);
    }
    all.survives(holder, waiter).await;
}
