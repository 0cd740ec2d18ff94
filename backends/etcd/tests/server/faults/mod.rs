//! Members that die, freeze, are cut off or restart during holds and waits.

mod bug;
mod leader;
mod majority;
mod minority;
mod proof;

use std::time::Duration;

use lockwright_conformance::participants::Participants;
use lockwright_core::Locks;
use lockwright_etcd::Etcd;
use lockwright_testbed::etcd::Version;
use lockwright_testbed::{self as testbed, Proxy};

const SHORT: Duration = Duration::from_secs(5);

/// A TTL longer than an election on a busy machine.
const LONG: Duration = Duration::from_secs(15);

const SLACK: Duration = Duration::from_secs(20);

macro_rules! on_each_version {
    ($($name:ident),* $(,)?) => {
        mod on_debians {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(lockwright_testbed::etcd::Version::Debian).await;
            })*
        }

        mod on_a_current_one {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(lockwright_testbed::etcd::Version::Current).await;
            })*
        }
    };
}
use on_each_version;

fn start(version: Version) -> testbed::Etcd {
    blocking(|| testbed::Etcd::options().version(version).start()).unwrap()
}

fn participants(ttl: Duration) -> Participants {
    Participants::new("orders", ttl, SLACK)
}

async fn locks(url: &str) -> Locks {
    Locks::new(Etcd::connect(url).await.unwrap()).unwrap()
}

fn url_of(cluster: &testbed::Etcd, member: usize) -> String {
    cluster.url_through([cluster.members[member].port()])
}

fn url_without(cluster: &testbed::Etcd, member: usize) -> String {
    let others = cluster.members.iter().enumerate().filter(|(index, _)| *index != member);
    cluster.url_through(others.map(|(_, member)| member.port()))
}

/// Returns a client whose URL has all members, and which is connected to `member`: during the
/// connect, the proxies of the other members are cut.
async fn connected_to(cluster: &testbed::Etcd, member: usize) -> (Locks, Vec<Proxy>) {
    let others = cluster.members.iter().enumerate().filter(|(index, _)| *index != member);
    let proxies: Vec<_> =
        others.map(|(_, member)| Proxy::start(member.address()).unwrap()).collect();
    proxies.iter().for_each(Proxy::cut);
    let ports = [cluster.members[member].port()].into_iter();
    let url = cluster.url_through(ports.chain(proxies.iter().map(Proxy::port)));
    let locks = locks(&url).await;
    proxies.iter().for_each(Proxy::mend);
    (locks, proxies)
}

fn blocking<T>(what: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(what)
}

fn follower(cluster: &testbed::Etcd) -> usize {
    (cluster.leader().unwrap() + 1) % 3
}

fn elected(cluster: &testbed::Etcd, old: usize) -> usize {
    blocking(|| cluster.wait_for_another_leader(old)).unwrap()
}

fn whole(cluster: &testbed::Etcd) {
    blocking(|| cluster.wait_until_whole()).unwrap();
}
