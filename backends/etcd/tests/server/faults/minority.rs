use lockwright_testbed::etcd::Version;

use super::{
    SHORT, follower, hold_is_lost_in_time, holder_and_waiter, locks, participants, start, url_of,
    url_without,
};

/// The follower is cut off from the other members, but still answers the client's pings.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_follower_that_is_cut_off_loses_its_hold_in_time() {
    let cluster = start(Version::Debian);
    let member = follower(&cluster);
    let (harm, mend) = (|| cluster.isolate(member), async || cluster.heal(member));
    // The leader doesn't change, so the TTL counts from the last renewal that the leader received.
    hold_is_lost_in_time(&cluster, member, (SHORT, SHORT), harm, mend).await;
}

/// A waiter at a cut-off member loses its place, and later joins the end of the queue.
///
/// Debian's etcd isn't tested: up to 3.4, a member that returns forces an election, during which a
/// short hold may expire.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_cut_off_comes_back_by_itself() {
    let cluster = start(Version::Current);
    let all = participants(SHORT);
    let member = follower(&cluster);
    let ours = locks(&url_of(&cluster, member)).await;
    let others = locks(&url_without(&cluster, member)).await;
    let (holder, waiter) = holder_and_waiter(&all, &others, &ours).await;
    cluster.isolate(member);
    holder.goes_on().await;
    // By now the waiter's key has expired.
    holder.goes_on().await;
    cluster.heal(member);
    holder.goes_on().await;
    let fence = holder.guard.fence();
    holder.release().await;
    let next = all.turn_of(waiter).await;
    assert!(next.guard.fence() > fence);
    next.goes_on().await;
    next.release().await;
    all.check();
}
