//! Members that die, freeze, are cut off or restart during holds and waits.
//!
//! A lock ends with its session. So a cut-off holder must stop before the leader ends the session,
//! and a new leader's election must not end other sessions.

mod leader;
mod majority;
mod minority;
mod proof;

use std::time::Duration;

use lockwright_conformance::participants::{Holder, Participants};
use lockwright_core::Locks;
use lockwright_testbed as testbed;
use lockwright_zookeeper::ZooKeeper;

use crate::common::eventually;

const SHORT: Duration = Duration::from_secs(6);

/// A TTL longer than an election on a busy machine.
const LONG: Duration = Duration::from_secs(15);

const SLACK: Duration = Duration::from_secs(20);

fn participants(ttl: Duration) -> Participants {
    Participants::new("orders", ttl, SLACK)
}

async fn locks(url: &str) -> Locks {
    Locks::new(ZooKeeper::connect(url).await.unwrap()).unwrap()
}

/// Returns a hold whose session is at `member`, and its client, which has the URL of all members.
async fn hold_at(
    member: usize,
    ensemble: &testbed::ZooKeeper,
    all: &Participants,
    ttl: Duration,
) -> (Locks, Holder) {
    let timeout = format!("to={},", ttl.as_millis());
    for _ in 0..50 {
        // The client chooses its server at random, so try again.
        let ours = locks(&ensemble.url()).await;
        let holder = all.hold("holder", &ours).await;
        if ensemble.members[member].four_letter("cons").unwrap().contains(&timeout) {
            return (ours, holder);
        }
        holder.release().await;
    }
    panic!("its session never was at this member");
}

fn url_of(ensemble: &testbed::ZooKeeper, member: usize) -> String {
    ensemble.url_through([ensemble.members[member].port()])
}

fn url_without(ensemble: &testbed::ZooKeeper, member: usize) -> String {
    let others = ensemble.members.iter().enumerate().filter(|(index, _)| *index != member);
    ensemble.url_through(others.map(|(_, member)| member.port()))
}

fn follower(ensemble: &testbed::ZooKeeper) -> usize {
    (ensemble.leader().unwrap() + 1) % 3
}

fn elected(ensemble: &testbed::ZooKeeper, old: usize) -> usize {
    blocking(|| ensemble.wait_for_another_leader(old)).unwrap()
}

/// Waits until a client's session is connected and its timeout is verified. If the connection broke
/// before that, the client would give up its holds.
async fn is_back(locks: &Locks, ttl: Duration) {
    eventually(|| async {
        let granted = locks.mutex("another").ttl(ttl).try_acquire().await.ok()??;
        granted.release().await.ok()
    })
    .await;
}

fn blocking<T>(what: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(what)
}
