//! Connections that go silent while new ones work.

use std::time::Duration;

use lockwright_core::Locks;
use lockwright_etcd::Etcd;
use lockwright_testbed::{self as testbed, Proxy};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// The TTLs to try, in seconds. The first is the shortest of the profile.
const TTLS: [u64; 4] = [2, 3, 5, 30];

/// The time within which a free lock is acquired.
const BOUND: Duration = Duration::from_secs(2);

/// A client, and the proxies that its connections to the members go through.
struct Client {
    locks: Locks,
    proxies: Vec<Proxy>,
}

impl Client {
    async fn of(cluster: &testbed::Etcd) -> Self {
        let start = |member: &testbed::etcd::Member| Proxy::start(member.address()).unwrap();
        let proxies: Vec<_> = cluster.members.iter().map(start).collect();
        let url = cluster.url_through(proxies.iter().map(Proxy::port));
        Self { locks: Locks::new(Etcd::connect(&url).await.unwrap()).unwrap(), proxies }
    }

    fn silence_present(&self) {
        self.proxies.iter().for_each(Proxy::silence_present);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn free_lock_is_acquired_on_a_new_connection() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    for ttl in TTLS.map(Duration::from_secs) {
        for waits in [false, true] {
            let client = Client::of(&cluster).await;
            let locks = &client.locks;
            let ask = |name: &str| locks.mutex(format!("{name}-{ttl:?}-{waits}")).ttl(ttl);
            // The client has a lease for this TTL, and its watch runs.
            ask("warm").acquire().await.unwrap().release().await.unwrap();
            client.silence_present();
            let begun = Instant::now();
            let guard = match waits {
                true => ask("free").acquire().await.unwrap(),
                false => ask("free").try_acquire().await.unwrap().expect("it is free"),
            };
            let took = begun.elapsed();
            assert!(took < BOUND, "TTL {ttl:?}, waits: {waits}: {took:?}");
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_survives_a_silent_connection() {
    let one = testbed::Etcd::options().members(1).start().unwrap();
    let three = testbed::Etcd::start().unwrap();
    let mut holds = JoinSet::new();
    for (cluster, ttls) in [(&one, &TTLS[..]), (&three, &TTLS[..2])] {
        for ttl in ttls.iter().copied().map(Duration::from_secs) {
            for after in [Duration::ZERO, ttl / 4] {
                let client = Client::of(cluster).await;
                let members = cluster.members.len();
                holds.spawn(async move { survives(&client, members, ttl, after).await });
            }
        }
    }
    while let Some(held) = holds.join_next().await {
        held.unwrap();
    }
}

/// Silences the connections `after` the grant, and expects that the hold survives.
async fn survives(client: &Client, members: usize, ttl: Duration, after: Duration) {
    let name = format!("held-{members}-{ttl:?}-{after:?}");
    let guard = client.locks.mutex(name).ttl(ttl).acquire().await.unwrap();
    sleep(after).await;
    client.silence_present();
    let silent = Instant::now();
    while silent.elapsed() < ttl * 5 / 4 {
        sleep(Duration::from_millis(50)).await;
        let passed = silent.elapsed();
        guard.check().unwrap_or_else(|lost| {
            panic!(
                "{members} members, TTL {ttl:?}, silent after {after:?}: {lost} after {passed:?}"
            )
        });
    }
    guard.release().await.unwrap();
}

/// The caller limits each request to less than the backend's own limits.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_requests_have_the_connection_replaced() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let client = Client::of(&cluster).await;
    let locks = &client.locks;
    let ask = |name: &str| locks.mutex(name).ttl(Duration::from_secs(30));
    ask("warm").acquire().await.unwrap().release().await.unwrap();
    client.silence_present();
    let begun = Instant::now();
    let mut names = (0..).map(|at| format!("free-{at}"));
    while timeout(Duration::from_millis(100), ask(&names.next().unwrap()).acquire()).await.is_err()
    {
        assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    }
}

/// The member that the client is connected to is stopped, or is cut off from the others.
#[tokio::test(flavor = "multi_thread")]
async fn hold_with_a_short_ttl_survives_the_loss_of_its_member() {
    let cluster = testbed::Etcd::start().unwrap();
    let leader = cluster.leader().unwrap();
    let follower = (leader + 1) % 3;
    for is_cut_off in [false, true] {
        for ttl in [2, 3].map(Duration::from_secs) {
            let proxies: Vec<_> = cluster
                .members
                .iter()
                .map(|member| Proxy::start(member.address()).unwrap())
                .collect();
            proxies.iter().for_each(Proxy::cut);
            proxies[follower].mend();
            let url = cluster.url_through(proxies.iter().map(Proxy::port));
            let locks = Locks::new(Etcd::connect(&url).await.unwrap()).unwrap();
            proxies.iter().for_each(Proxy::mend);
            let name = format!("held-{is_cut_off}-{ttl:?}");
            let guard = locks.mutex(name).ttl(ttl).acquire().await.unwrap();
            match is_cut_off {
                true => cluster.isolate(follower),
                false => cluster.members[follower].freeze(),
            }
            let lost = Instant::now();
            while lost.elapsed() < ttl * 2 {
                sleep(Duration::from_millis(50)).await;
                let passed = lost.elapsed();
                guard.check().unwrap_or_else(|lost| {
                    panic!("TTL {ttl:?}, cut off: {is_cut_off}: {lost} after {passed:?}")
                });
            }
            match is_cut_off {
                true => cluster.heal(follower),
                false => cluster.members[follower].thaw(),
            }
            tokio::task::block_in_place(|| cluster.wait_until_whole()).unwrap();
            drop(guard);
        }
    }
}
