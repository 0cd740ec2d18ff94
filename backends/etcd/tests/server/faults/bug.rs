//! A leader that is frozen for longer than the TTL may revoke live leases when it resumes. So the
//! backend's profile doesn't contain `Fault::Failover`.

use lockwright_core::{Fault, HoldState};
use lockwright_testbed::etcd::Version;

use super::{
    SHORT, connected_to, elected, holder_and_waiter, locks, on_each_version, participants, start,
    url_without, whole,
};

on_each_version!(a_leader_that_freezes_and_thaws_may_end_holds_and_nothing_else);

/// The hold survives while the leader is frozen. If the leader's thaw ends the hold, the holder is
/// notified. In any case, fences increase, and clients recover by themselves.
async fn a_leader_that_freezes_and_thaws_may_end_holds_and_nothing_else(version: Version) {
    let cluster = start(version);
    let all = participants(SHORT * 2);
    let old = cluster.leader().unwrap();
    let (ours, _proxies) = connected_to(&cluster, old).await;
    assert!(!ours.profile().survives.contains(Fault::Failover), "or else it must outlive this");
    let others = locks(&url_without(&cluster, old)).await;
    let (holder, waiter) = holder_and_waiter(&all, &ours, &others).await;
    cluster.members[old].freeze();
    elected(&cluster, old);
    holder.goes_on().await;
    assert!(!waiter.is_finished(), "the other client holds it too");
    cluster.members[old].thaw();
    whole(&cluster);
    // If the lease was revoked, the holder has been notified, or this request reveals the loss.
    let verified = holder.guard.verify().await;
    let fence = holder.guard.fence();
    println!("{version:?}: {verified:?}, {:?}", holder.guard.signal().state());
    match (verified, holder.guard.signal().state()) {
        (Ok(true), state) => {
            assert!(state.is_live(), "{state:?}");
            holder.goes_on().await;
            holder.release().await;
        }
        (_, HoldState::Lost(_)) => assert!(holder.guard.release().await.is_err()),
        _ => {
            holder.until_lost().await;
        }
    }
    let next = all.turn_of(waiter).await;
    assert!(next.guard.fence() > fence);
    let fence = next.guard.fence();
    next.guard.check().unwrap();
    next.release().await;
    let again = all.hold("again", &ours).await;
    assert!(again.guard.fence() > fence);
    again.release().await;
}
