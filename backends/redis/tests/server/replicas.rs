use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, ErrorKind, Locks, Reason, ReleaseMode, ReleaseOutcome,
    Renew, Renewal, RenewalOutcome, Wait,
};
use lockwright_redis::{Config, Redis};
use lockwright_testbed::{self as testbed, Proxy};

use crate::cluster::token_on_replica;
use crate::common::{
    LIMIT, busy, claim, count_calls, eventually, exists, fails, fails_with, grant, name, patient,
    released, renewed, token_in, until, user,
};
use crate::connect::{SECRET, wrong};

const LONG: Duration = Duration::from_secs(5);
/// The limit of a wait that must time out.
const SHORT: Duration = Duration::from_millis(200);

async fn pair() -> (testbed::Redis, testbed::Redis) {
    let master = testbed::Redis::start().unwrap();
    let replica = testbed::Redis::options().replica_of(&master).start().unwrap();
    acknowledges(&master).await;
    (master, replica)
}

async fn acknowledges(master: &testbed::Redis) {
    let mut connection = master.connection().unwrap();
    eventually(|| {
        // `PUBLISH` is replicated, but leaves no data.
        redis::cmd("PUBLISH").arg("somewhere").arg("something").exec(&mut connection).unwrap();
        let count: u32 = redis::cmd("WAIT").arg(1).arg(100).query(&mut connection).unwrap();
        std::future::ready((count == 1).then_some(()))
    })
    .await;
}

/// A socket path that can be switched to another server.
struct Address {
    folder: tempfile::TempDir,
}

impl Address {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn server(&self, name: &str) -> testbed::Redis {
        let socket = self.folder.path().join(name).to_str().unwrap().to_owned();
        testbed::Redis::options().set("unixsocket", socket).start().unwrap()
    }

    fn lead_to(&self, name: &str) {
        let [new, address] = ["being-made", "address"].map(|name| self.folder.path().join(name));
        std::os::unix::fs::symlink(self.folder.path().join(name), &new).unwrap();
        std::fs::rename(new, address).unwrap();
    }

    async fn waiting(&self, limit: Duration) -> Redis {
        let url = format!("redis+unix://{}", self.folder.path().join("address").display());
        patient(Config::new(&url).unwrap()).replicas(1, limit).connect().await.unwrap()
    }
}

pub(crate) fn kill_what_waits(server: &testbed::Redis, has: &str) {
    let clients: String = server.command(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap();
    let mut killed = 0;
    for client in clients.lines().filter(|client| client.contains(has)) {
        let id = client.split(' ').find_map(|word| word.strip_prefix("id=")).unwrap();
        killed += server.command::<i64>(&["CLIENT", "KILL", "ID", id]).unwrap();
    }
    assert_eq!(killed, 1, "{clients}");
}

async fn waiting(master: &testbed::Redis, limit: Duration) -> Redis {
    patient(Config::new(&master.url()).unwrap()).replicas(1, limit).connect().await.unwrap()
}

#[tokio::test]
async fn grants_and_renewals_are_on_the_replica() {
    let (master, replica) = pair().await;
    let redis = waiting(&master, LONG).await;
    for i in 0..20 {
        let claim = claim(&format!("lock {i}"));
        grant(&redis, &claim).await;
        let there: Option<String> = replica.command(&["GET", claim.name.as_str()]).unwrap();
        let token = claim.token.to_string();
        assert_eq!(token_in(&there.unwrap()), token, "replicated before the grant returned");
        let longer = Claim { ttl: claim.ttl * 10, ..claim.clone() };
        renewed(&redis, &longer).await;
        let left: u64 = replica.command(&["PTTL", claim.name.as_str()]).unwrap();
        assert!(u128::from(left) > claim.ttl.as_millis(), "{left}");
        released(&redis, &claim, ReleaseMode::Plain).await;
    }
}

#[tokio::test]
async fn without_its_replica_a_grant_is_given_back_and_a_renewal_is_uncertain() {
    let (master, replica) = pair().await;
    let redis = waiting(&master, SHORT).await;
    let held = eventually(|| async {
        let held = claim("held");
        let asked = redis.try_acquire(&held).await;
        matches!(asked, Ok(AcquireOutcome::Granted(_))).then_some(held)
    })
    .await;
    let moved = claim("moved");
    grant(&redis, &moved).await;

    replica.freeze();
    let refused = fails(redis.try_acquire(&claim("a")).await, ErrorKind::Unavailable);
    for says in ["0 of 1 replicas", "200ms", "given back"] {
        assert!(refused.to_string().contains(says), "{refused}");
    }
    assert!(!exists(&master, "a"), "it is free again");
    let next = claim("moved");
    fails_with(redis.swap(moved.token, &next).await, ErrorKind::Lost(Reason::Gone), "given back");
    assert!(!exists(&master, "moved"), "neither token holds");
    let lost = claim("never granted");
    let both = [Renew::of(&lost), Renew::of(&held)];
    let renewals = redis.renew(&both).await.unwrap();
    assert_eq!(renewals[0], Renewal::not_held(Reason::Gone), "what is lost is told all the same");
    assert_eq!(renewals[1].outcome, RenewalOutcome::Indeterminate);
    let waits = count_calls(&master, &["wait"]);
    busy(&redis, &claim("held"), Wait::No).await;
    let gone = redis.renew(&both[..1]).await.unwrap();
    assert_eq!(gone, [Renewal::not_held(Reason::Gone)]);
    let after = count_calls(&master, &["wait"]);
    assert_eq!(after, waits, "nothing was written that could be waited for");
    released(&redis, &held, ReleaseMode::Plain).await;
    let gone = redis.renew(&[Renew::of(&held)]).await.unwrap();
    assert!(matches!(gone[0].outcome, RenewalOutcome::NotHeld(_)), "{gone:?}");

    replica.thaw();
    let after = claim("a");
    let granted = eventually(|| async { redis.try_acquire(&after).await.ok() }).await;
    assert!(matches!(granted, AcquireOutcome::Granted(_)), "{granted:?}");
}

#[tokio::test]
async fn a_master_that_became_a_replica_is_left() {
    let address = Address::new();
    let (old, new) = (address.server("old"), address.server("new"));
    address.lead_to("old");
    let replica = testbed::Redis::options().replica_of(&old).start().unwrap();
    acknowledges(&old).await;
    let redis = address.waiting(LONG).await;
    grant(&redis, &claim("before")).await;
    address.lead_to("new");
    old.command::<()>(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).unwrap();
    acknowledges(&new).await;
    let ours = claim("a");
    let granted = eventually(|| async { redis.try_acquire(&ours).await.ok() }).await;
    assert!(matches!(granted, AcquireOutcome::Granted(_)), "{granted:?}");
    let value: String = new.command(&["GET", "a"]).unwrap();
    assert_eq!(token_in(&value), ours.token.to_string());
    drop(replica);
}

#[tokio::test]
async fn missing_vote_may_still_be_held() {
    let address = Address::new();
    let (old, new) = (address.server("old"), address.server("new"));
    address.lead_to("old");
    let redis = address.waiting(SHORT).await;
    address.lead_to("new");
    // Kill the connection that waits for replicas. Its replacement leads to the new server.
    let listed = || old.command::<String>(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap();
    until(|| listed().contains("cmd=wait")).await;
    kill_what_waits(&old, "cmd=wait");
    let ours = claim("a");
    let (refused, value) = eventually(|| async {
        let refused = redis.try_acquire(&ours).await.unwrap_err();
        let there: Option<String> = new.command(&["GET", "a"]).unwrap();
        there.map(|value| (refused, value))
    })
    .await;
    assert_eq!(token_in(&value), ours.token.to_string());
    assert_eq!(refused.kind(), ErrorKind::Indeterminate, "{refused}");
}

/// A client whose releases reach the master late, and a replica that doesn't acknowledge.
struct Late {
    master: testbed::Redis,
    replica: testbed::Redis,
    proxy: Proxy,
    redis: Arc<Redis>,
    /// The server's id of the connection that sends the releases.
    id: String,
}

impl Late {
    /// The proxy's number of the connection `id`, which the client opens first.
    const FIRST: usize = 0;

    async fn start() -> (Self, Claim) {
        let (master, replica) = pair().await;
        let proxy = Proxy::start(master.address()).unwrap();
        let config = Config::new(&master.url_through(proxy.port())).unwrap();
        let config = config.connect_timeout(LIMIT).response_timeout(Duration::from_secs(2));
        let redis = Arc::new(config.replicas(1, SHORT).connect().await.unwrap());
        // Cache the scripts, so that a delayed request is a single message.
        let held = eventually(|| async {
            let (held, released) = (claim("held"), claim("released"));
            redis.try_acquire(&released).await.ok()?;
            redis.release(&released, ReleaseMode::Plain).await.ok()?;
            let asked = redis.try_acquire(&held).await;
            matches!(asked, Ok(AcquireOutcome::Granted(_))).then_some(held)
        })
        .await;
        let listed: String = master.command(&["CLIENT", "LIST", "TYPE", "PUBSUB"]).unwrap();
        assert_eq!(listed.lines().count(), 1, "{listed}");
        let id = listed.split(' ').find_map(|word| word.strip_prefix("id=")).unwrap().to_owned();
        replica.freeze();
        proxy.keep_requests_of(Some(Self::FIRST));
        (Self { master, replica, proxy, redis, id }, held)
    }

    async fn a_release_is_on_its_way(&self) {
        eventually(|| async { (self.proxy.kept_requests() > 0).then_some(()) }).await;
    }

    async fn deliver(&self) {
        self.proxy.keep_requests_of(None);
        let left = || self.master.command::<String>(&["CLIENT", "LIST", "ID", &self.id]).unwrap();
        until(|| left().trim().is_empty()).await;
    }
}

#[tokio::test]
async fn a_token_whose_release_may_still_come_is_never_granted_again() {
    let (late, held) = Late::start().await;
    let redis = &late.redis;
    let (ours, next) = (claim("a"), claim("held"));
    let (asked, moved) = tokio::join!(redis.try_acquire(&ours), redis.swap(held.token, &next));
    fails(asked, ErrorKind::Indeterminate);
    fails(moved, ErrorKind::Indeterminate);
    late.a_release_is_on_its_way().await;
    late.replica.thaw();
    fails(redis.try_acquire(&ours).await, ErrorKind::Lost(Reason::Gone));
    fails(redis.swap(held.token, &next).await, ErrorKind::Lost(Reason::Gone));
    let settled =
        eventually(|| async { redis.release(&ours, ReleaseMode::Plain).await.ok() }).await;
    assert_eq!(settled, ReleaseOutcome::Released);
    late.deliver().await;
}

#[tokio::test]
async fn nor_is_one_whose_asker_has_gone_meanwhile() {
    let (late, _held) = Late::start().await;
    let ours = claim("a");
    tokio::select! {
        asked = late.redis.try_acquire(&ours) => panic!("{asked:?}"),
        () = late.a_release_is_on_its_way() => {}
    }
    late.replica.thaw();
    fails(late.redis.try_acquire(&ours).await, ErrorKind::Lost(Reason::Gone));
}

#[tokio::test]
async fn a_late_release_of_what_did_not_count_ends_no_hold() {
    let (late, _held) = Late::start().await;
    let locks = Locks::new(Arc::clone(&late.redis)).unwrap();
    let asking = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.mutex("a").acquire().await })
    };
    late.a_release_is_on_its_way().await;
    late.replica.thaw();
    let guard = asking.await.unwrap().unwrap();
    late.deliver().await;
    let there: Option<String> = late.master.command(&["GET", "a"]).unwrap();
    assert_eq!(token_in(&there.unwrap()), guard.token().to_string());
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn waiting_for_replicas_delays_no_other_request() {
    let (master, replica) = pair().await;
    let redis = waiting(&master, LONG).await;
    replica.freeze();
    let claim = claim("a");
    let started = Instant::now();
    let asking = redis.try_acquire(&claim);
    let looking = async {
        eventually(|| async {
            let found = redis.inspect(&name("a")).await.unwrap();
            (!found.holders.is_empty()).then_some(())
        })
        .await;
        started.elapsed()
    };
    let (refused, looked) = tokio::join!(asking, looking);
    fails(refused, ErrorKind::Unavailable);
    assert!(started.elapsed() >= LONG, "{:?}", started.elapsed());
    assert!(looked < LONG / 2, "{looked:?}");
}

#[tokio::test]
async fn unwaitable_setting_is_refused_when_connecting() {
    for (parameters, says) in [
        ("replicas=0", "is zero"),
        ("replicas=1&replica_timeout=0", "is zero"),
        ("replicas=some", "replicas=some"),
        ("replicas=-1", "replicas=-1"),
        ("replicas=1&replica_timeout=soon", "replica_timeout=soon"),
        ("replica_timeout=1s", "without replicas"),
    ] {
        let url = format!("redis://u:{SECRET}@127.0.0.1/?{parameters}");
        wrong(&url, ErrorKind::InvalidConfig, says).await;
    }
    let config = Config::new("redis://127.0.0.1/").unwrap().response_timeout(Duration::ZERO);
    fails(config.connect().await, ErrorKind::InvalidConfig);
    let server = testbed::Redis::start().unwrap();
    let url = user(&server, "hasty", SECRET, "~* &* +@all -wait");
    wrong(&format!("{url}?replicas=1"), ErrorKind::Denied, "'wait'").await;
    Redis::connect(&url).await.expect("who doesn't wait needs no permission");
}

#[tokio::test]
async fn each_node_of_a_cluster_waits_for_its_own_replicas() {
    let cluster = testbed::Cluster::start().unwrap();
    let config = patient(Config::new(&cluster.url()).unwrap());
    let redis = config.replicas(1, LONG).connect().await.unwrap();
    for i in 0..10 {
        let claim = claim(&format!("lock {i}"));
        grant(&redis, &claim).await;
        let master = cluster.master_of(claim.name.as_str()).unwrap();
        let there = token_on_replica(&cluster, master, claim.name.as_str());
        assert_eq!(there, Some(claim.token.to_string()), "replicated before the grant returned");
    }
}
