use std::time::Duration;

use lockwright_core::Locks;
use tokio::task::JoinHandle;

use super::locks;
pub(crate) use super::participants::{Holder, Participants, now, participants};
use crate::common::Cluster;

/// A TTL longer than an election on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(15);

pub(crate) async fn holder_and_waiter(
    all: &Participants,
    ours: &Locks,
    others: &Locks,
) -> (Holder, JoinHandle<Holder>) {
    (all.hold("holder", ours).await, all.wait("waiter", others).await)
}

/// Asserts that a client whose URL has only `member` loses its hold within `bound` after `harm`,
/// and acquires the lock after `mend`.
pub(crate) async fn hold_is_lost_in_time(
    cluster: &Cluster,
    member: usize,
    (ttl, bound): (Duration, Duration),
    harm: impl FnOnce(),
    mend: impl AsyncFnOnce(),
) {
    let all = participants(ttl);
    let ours = locks(url_of(cluster, member)).await;
    let others = locks(url_without(cluster, member)).await;
    let (holder, waiter) = holder_and_waiter(&all, &ours, &others).await;
    let since = now();
    harm();
    let next = all.is_lost(&holder, waiter, since, bound).await;
    mend().await;
    all.comes_back(&ours, next).await;
}

pub(crate) fn url_of(cluster: &Cluster, member: usize) -> String {
    cluster.url_through([cluster.members[member].port()])
}

pub(crate) fn url_without(cluster: &Cluster, member: usize) -> String {
    let others = cluster.members.iter().enumerate().filter(|(index, _)| *index != member);
    cluster.url_through(others.map(|(_, member)| member.port()))
}

pub(crate) fn blocking<T>(what: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(what)
}

pub(crate) fn follower(cluster: &Cluster) -> usize {
    (cluster.leader().unwrap() + 1) % 3
}

pub(crate) fn elected(cluster: &Cluster, old: usize) -> usize {
    blocking(|| cluster.wait_for_another_leader(old)).unwrap()
}

pub(crate) fn whole(cluster: &Cluster) {
    blocking(|| cluster.wait_until_whole()).unwrap();
}
