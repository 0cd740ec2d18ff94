use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_testbed::redis::{Fleet, Options};
use lockwright_testbed::{self as testbed, Cluster, Proxy, Sentinels, wait};

use redis::Connection;

use super::{Result, Server, Servers, block_on, restart_the_dead};

/// The IP address of proxies, which listen on the same ports as their servers.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

const PROXIED: &str = "through-proxy";

/// The longest lifetime of a queue's keys, in milliseconds. Keys that live longer are leaks.
const LONGEST_PLACE: i64 = 60_000;

fn durable() -> Options {
    testbed::Redis::options().append_only("always")
}

pub(super) struct One {
    server: testbed::Redis,
    proxy: Proxy,
    admin: Admin,
}

impl One {
    pub(super) fn start() -> Result<Self> {
        let server = durable().start()?;
        let proxy = Proxy::start(server.address())?;
        Ok(Self { server, proxy, admin: None })
    }
}

impl Servers for One {
    fn url(&self) -> String {
        self.server.url_through(self.proxy.port())
    }

    fn direct_url(&self) -> String {
        self.server.url()
    }

    fn proxies(&self) -> Vec<&Proxy> {
        vec![&self.proxy]
    }

    fn servers(&mut self) -> Vec<&mut dyn Server> {
        vec![&mut self.server]
    }

    fn limit_connections(&mut self, on: bool) -> Result<()> {
        limit_connections(&self.server, &mut self.admin, on)
    }

    fn clock_ahead(&mut self) -> Result<i64> {
        clock_ahead(&self.server)
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        leaks_on(&self.server, prefix, true)
    }
}

pub(super) struct BySentinels {
    set: Sentinels,
    proxy: Option<Proxy>,
    admin: Admin,
}

impl BySentinels {
    pub(super) fn start() -> Result<Self> {
        let set = Sentinels::options().servers(durable()).start()?;
        Ok(Self { set, proxy: None, admin: None })
    }
}

impl Servers for BySentinels {
    fn url(&self) -> String {
        match self.proxy {
            None => self.set.url(),
            Some(_) => self.set.url().replace(self.set.master_name(), PROXIED),
        }
    }

    fn direct_url(&self) -> String {
        self.set.url()
    }

    fn proxies(&self) -> Vec<&Proxy> {
        self.proxy.iter().collect()
    }

    fn servers(&mut self) -> Vec<&mut dyn Server> {
        self.set.servers.iter_mut().map(|server| server as &mut dyn Server).collect()
    }

    fn leader(&mut self) -> usize {
        self.set.master().unwrap_or(0)
    }

    fn prepare(&mut self, proxied: bool) -> Result<()> {
        if !proxied {
            return Ok(());
        }
        let master = &self.set.servers[self.set.master()?];
        let address = SocketAddr::from((ELSEWHERE, master.port()));
        self.proxy = Some(Proxy::start_at(address, master.address())?);
        let (host, port) = (ELSEWHERE.to_string(), master.port().to_string());
        for sentinel in &self.set.sentinels {
            // Sentinels never replace this master, because the quorum exceeds their number.
            sentinel.command::<()>(&["SENTINEL", "MONITOR", PROXIED, &host, &port, "9"])?;
        }
        Ok(())
    }

    fn recover(&mut self) -> Result<()> {
        if self.proxy.take().is_some() {
            for sentinel in &self.set.sentinels {
                sentinel.command::<()>(&["SENTINEL", "REMOVE", PROXIED])?;
            }
        }
        restart_the_dead(self.servers())?;
        Ok(self.set.wait_until_whole()?)
    }

    fn fail_over(&mut self) -> Result<String> {
        let old = self.set.master()?;
        self.set.servers[old].kill();
        let new = self.set.wait_for_failover(old)?;
        self.set.servers[old].restart(true)?;
        Ok(format!("server {new} took over from {old}"))
    }

    fn limit_connections(&mut self, on: bool) -> Result<()> {
        limit_connections(&self.set.servers[self.set.master()?], &mut self.admin, on)
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        leaks_on(&self.set.servers[self.set.master()?], prefix, false)
    }
}

pub(super) struct InCluster {
    cluster: Cluster,
    proxies: Vec<Proxy>,
    admins: Vec<(usize, Admin)>,
}

impl InCluster {
    pub(super) fn start() -> Result<Self> {
        // The nodes announce no host, so clients stay on the proxies' address.
        let options = durable().set("cluster-preferred-endpoint-type", "unknown-endpoint");
        let cluster = Cluster::options().servers(options).start()?;
        let proxy = |node: &testbed::Redis| {
            Proxy::start_at(SocketAddr::from((ELSEWHERE, node.port())), node.address())
        };
        let proxies = cluster.nodes.iter().map(proxy).collect::<testbed::Result<_>>()?;
        Ok(Self { cluster, proxies, admins: Vec::new() })
    }

    fn masters(&self) -> Vec<usize> {
        let is_master = |index: &usize| {
            let role: testbed::Result<Vec<redis::Value>> =
                self.cluster.nodes[*index].command(&["ROLE"]);
            role.is_ok_and(|role| matches!(role.first(), Some(redis::Value::BulkString(role)) if role == b"master"))
        };
        (0..self.cluster.nodes.len()).filter(is_master).collect()
    }
}

impl Servers for InCluster {
    fn url(&self) -> String {
        self.cluster.url().replace("127.0.0.1", &ELSEWHERE.to_string())
    }

    fn direct_url(&self) -> String {
        self.cluster.url()
    }

    fn proxies(&self) -> Vec<&Proxy> {
        self.proxies.iter().collect()
    }

    fn servers(&mut self) -> Vec<&mut dyn Server> {
        self.cluster.nodes.iter_mut().map(|node| node as &mut dyn Server).collect()
    }

    fn leader(&mut self) -> usize {
        self.masters().first().copied().unwrap_or(0)
    }

    fn recover(&mut self) -> Result<()> {
        restart_the_dead(self.servers())?;
        Ok(self.cluster.wait_until_whole()?)
    }

    fn fail_over(&mut self) -> Result<String> {
        let old = self.leader();
        let key = self.key_of(old)?;
        self.cluster.nodes[old].kill();
        let new = self.cluster.wait_for_failover(&key, old)?;
        self.cluster.nodes[old].restart(true)?;
        Ok(format!("node {new} took over from {old}"))
    }

    fn limit_connections(&mut self, on: bool) -> Result<()> {
        if on {
            self.admins = self.masters().into_iter().map(|master| (master, None)).collect();
        }
        for (master, admin) in &mut self.admins {
            limit_connections(&self.cluster.nodes[*master], admin, on)?;
        }
        Ok(())
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        let mut leaks = Vec::new();
        for master in self.masters() {
            leaks.extend(leaks_on(&self.cluster.nodes[master], prefix, false)?);
        }
        Ok(leaks)
    }
}

impl InCluster {
    fn key_of(&self, master: usize) -> Result<String> {
        let mut keys = (0..1000).map(|number| format!("key-{number}"));
        let served = keys.find(|key| self.cluster.master_of(key).is_ok_and(|one| one == master));
        served.ok_or_else(|| "the master serves nothing".into())
    }
}

pub(super) struct Quorum {
    fleet: Fleet,
    admins: Vec<Admin>,
}

impl Quorum {
    pub(super) fn start() -> Result<Self> {
        let this = Self { fleet: durable().start_fleet(3)?, admins: vec![None, None, None] };
        this.admit()?;
        Ok(this)
    }

    /// Admits all nodes, which is safe because no lock is held.
    fn admit(&self) -> Result<()> {
        block_on(lockwright::operator::admit(&self.direct_url())).map(drop)
    }
}

impl Servers for Quorum {
    fn url(&self) -> String {
        quorum_url(self.fleet.urls_through_proxies())
    }

    fn direct_url(&self) -> String {
        quorum_url(self.fleet.urls())
    }

    fn proxies(&self) -> Vec<&Proxy> {
        self.fleet.proxies.iter().collect()
    }

    fn servers(&mut self) -> Vec<&mut dyn Server> {
        self.fleet.servers.iter_mut().map(|server| server as &mut dyn Server).collect()
    }

    fn recover(&mut self) -> Result<()> {
        restart_the_dead(self.servers())?;
        self.admit()
    }

    fn limit_connections(&mut self, on: bool) -> Result<()> {
        for (server, admin) in self.fleet.servers.iter().zip(&mut self.admins) {
            limit_connections(server, admin, on)?;
        }
        Ok(())
    }

    fn clock_ahead(&mut self) -> Result<i64> {
        clock_ahead(&self.fleet.servers[0])
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        let mut leaks = Vec::new();
        for server in &self.fleet.servers {
            leaks.extend(leaks_on(server, prefix, true)?);
        }
        Ok(leaks)
    }
}

/// Returns a URL with a short largest TTL, so that nodes soon vote again after a data loss.
fn quorum_url(urls: Vec<String>) -> String {
    format!("redlock:{}?largest_ttl=2s", urls.join(","))
}

/// An administrator's connection, opened before a limit that refuses new connections.
type Admin = Option<Connection>;

fn limit_connections(server: &testbed::Redis, admin: &mut Admin, on: bool) -> Result<()> {
    let mut connection = match admin.take() {
        Some(connection) => connection,
        None => server.connection()?,
    };
    let limit = if on { "1" } else { "10000" };
    redis::cmd("CONFIG").arg(&["SET", "maxclients", limit]).query::<()>(&mut connection)?;
    if on {
        // The limit closes no connections.
        for kind in ["normal", "pubsub"] {
            redis::cmd("CLIENT").arg(&["KILL", "TYPE", kind]).query::<i64>(&mut connection)?;
        }
        *admin = Some(connection);
    }
    Ok(())
}

fn clock_ahead(server: &testbed::Redis) -> Result<i64> {
    let (seconds, micros): (i64, i64) = server.command(&["TIME"])?;
    let ours = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    Ok(seconds * 1_000 + micros / 1_000 - ours)
}

/// Returns the keys with `prefix`, except fences, tombstones and queues that soon expire.
/// `counts_connections` adds the TCP connections: only tested clients open any.
fn leaks_on(
    server: &testbed::Redis,
    prefix: &str,
    counts_connections: bool,
) -> Result<Vec<String>> {
    let mut leaks = Vec::new();
    for key in server.command::<Vec<String>>(&["KEYS", &format!("*{prefix}*")])? {
        let is_kept = [":fence", ":ended"].iter().any(|kind| key.contains(kind));
        let left: i64 = server.command(&["PTTL", &key])?;
        let is_a_queues = [":queue", ":meta"].iter().any(|kind| key.contains(kind));
        let is_soon_gone = is_a_queues && (0..=LONGEST_PLACE).contains(&left);
        if !is_kept && !is_soon_gone && left != -2 {
            leaks.push(format!("key {key} for {left} ms"));
        }
    }
    let connections = || -> Option<usize> {
        let list: String = server.command(&["CLIENT", "LIST"]).ok()?;
        Some(list.lines().filter(|line| line.contains(" addr=127.0.0.1:")).count())
    };
    if counts_connections {
        let gone = wait::until(Duration::from_secs(5), || (connections()? == 0).then_some(()));
        if gone.is_none() {
            leaks.push(format!("{:?} connections", connections()));
        }
    }
    Ok(leaks)
}
