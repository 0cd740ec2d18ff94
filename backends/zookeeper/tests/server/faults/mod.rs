//! Members that die, freeze, are cut off or restarted, in the middle of holds and of waits.
//!
//! A lock's end at the servers is the end of a session, so who is cut off must cease to believe before
//! the leader ends its session; and who isn't must not lose it by another leader's election.

mod leader;
mod majority;
mod minority;
mod proof;

use std::time::Duration;

use lockwright_conformance::participants::{Holder, Participants};
use lockwright_core::Locks;
use lockwright_testbed as testbed;
use lockwright_zookeeper::ZooKeeper;

use crate::kit::eventually;

/// A TTL that is waited for.
const SHORT: Duration = Duration::from_secs(6);

/// One that an election fits into on a machine that is busy with other tests: the others notice
/// within ten ticks, which are 2 s here, and elect another within seconds.
const LONG: Duration = Duration::from_secs(15);

/// How much later than promised something may happen on such a machine.
const SLACK: Duration = Duration::from_secs(20);

fn participants(ttl: Duration) -> Participants {
    Participants::new("orders", ttl, SLACK)
}

/// A client of its own, as another process has one.
async fn locks(url: &str) -> Locks {
    Locks::new(ZooKeeper::connect(url).await.unwrap()).unwrap()
}

/// A hold of a client that knows all members, and whose session is at this one.
async fn hold_at(
    member: usize,
    ensemble: &testbed::ZooKeeper,
    all: &Participants,
    ttl: Duration,
) -> (Locks, Holder) {
    let timeout = format!("to={},", ttl.as_millis());
    for _ in 0..50 {
        // It chooses at random.
        let ours = locks(&ensemble.url()).await;
        let holder = all.hold("holder", &ours).await;
        if ensemble.members[member].four_letter("cons").unwrap().contains(&timeout) {
            return (ours, holder);
        }
        holder.release().await;
    }
    panic!("its session never was at this member");
}

/// How to connect to this member alone.
fn url_of(ensemble: &testbed::ZooKeeper, member: usize) -> String {
    ensemble.url_through([ensemble.members[member].port()])
}

/// How to connect to all members but this.
fn url_without(ensemble: &testbed::ZooKeeper, member: usize) -> String {
    let others = ensemble.members.iter().enumerate().filter(|(index, _)| *index != member);
    ensemble.url_through(others.map(|(_, member)| member.port()))
}

fn follower(ensemble: &testbed::ZooKeeper) -> usize {
    (ensemble.leader().unwrap() + 1) % 3
}

/// Until another member leads.
fn elected(ensemble: &testbed::ZooKeeper, old: usize) -> usize {
    blocking(|| ensemble.wait_for_another_leader(old)).unwrap()
}

/// Until a client's session has a connection again, of which it knows what the server grants: if one
/// breaks sooner its holds are given up.
async fn is_back(locks: &Locks, ttl: Duration) {
    eventually(|| async {
        let granted = locks.mutex("another").ttl(ttl).try_acquire().await.ok()??;
        granted.release().await.ok()
    })
    .await;
}

/// Does what takes its time without leaving the runtime a thread short.
fn blocking<T>(what: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(what)
}
