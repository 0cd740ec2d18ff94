//! Members that die, freeze, are cut off or restart during holds and waits.

mod leader;
mod minority;
mod proof;

use std::time::Duration;

use lockwright_core::Locks;
use lockwright_testbed::Proxy;
use lockwright_testbed::etcd::Version;

use crate::clusters::faults::{
    LONG, blocking, elected, follower, hold_is_lost_in_time, holder_and_waiter, participants,
    url_of, url_without,
};
use crate::common::{Cluster, locks};

const SHORT: Duration = Duration::from_secs(5);

const VERSIONS: [Version; 2] = [Version::Debian, Version::Current];

fn start(version: Version) -> Cluster {
    println!("etcd {version:?}");
    blocking(|| Cluster::options().version(version).start()).unwrap()
}

/// Returns proxies that cut off the other members, and a URL of `member` and the proxies.
fn cut_others(cluster: &Cluster, member: usize) -> (Vec<Proxy>, String) {
    let others = cluster.members.iter().enumerate().filter(|(index, _)| *index != member);
    let proxies: Vec<_> =
        others.map(|(_, member)| Proxy::start(member.address()).unwrap()).collect();
    proxies.iter().for_each(Proxy::cut);
    let ports = [cluster.members[member].port()].into_iter();
    let url = cluster.url_through(ports.chain(proxies.iter().map(Proxy::port)));
    (proxies, url)
}

/// Returns a client that is connected to `member` but has the URL of all members: the proxies to
/// the other members are cut only during the connect.
pub(crate) async fn connected_to(cluster: &Cluster, member: usize) -> (Locks, Vec<Proxy>) {
    let (proxies, url) = cut_others(cluster, member);
    let locks = locks(&url).await;
    proxies.iter().for_each(Proxy::mend);
    (locks, proxies)
}
