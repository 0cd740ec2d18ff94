use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_testbed::redis::{Fleet, Options};
use lockwright_testbed::{self as testbed, Cluster, Proxy, Redis, Sentinels, wait};

use redis::Connection;

use super::{Result, Server, Servers, block_on};

/// The servers have the same ports on another address.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

const PROXIED: &str = "through-proxy";

/// In milliseconds. Keys of a queue or of dead holders that live longer are leaks.
const LONGEST_REST: i64 = 60_000;

fn durable() -> Options {
    Redis::options().append_only("always")
}

pub(super) struct Independent {
    fleet: Fleet,
    admins: Admins,
}

impl Independent {
    pub(super) fn start(count: usize) -> Result<Self> {
        let this = Self { fleet: durable().start_fleet(count)?, admins: Admins::default() };
        this.admit()?;
        Ok(this)
    }

    fn is_quorum(&self) -> bool {
        self.fleet.servers.len() > 1
    }

    /// Admits all nodes of a quorum: safe, because no lock is held.
    fn admit(&self) -> Result<()> {
        if self.is_quorum() {
            block_on(lockwright::operator::admit(&self.direct_url()))?;
        }
        Ok(())
    }

    /// A quorum's URL has a short largest TTL, so that nodes vote again soon after a data loss.
    fn joined(&self, urls: Vec<String>) -> String {
        let urls = urls.join(",");
        if self.is_quorum() { format!("redlock:{urls}?largest_ttl=2s") } else { urls }
    }
}

impl Servers for Independent {
    fn url(&self) -> String {
        self.joined(self.fleet.urls_through_proxies())
    }

    fn direct_url(&self) -> String {
        self.joined(self.fleet.urls())
    }

    fn proxies(&self) -> Vec<&Proxy> {
        self.fleet.proxies.iter().collect()
    }

    fn servers(&mut self) -> Vec<&mut dyn Server> {
        self.fleet.servers.iter_mut().map(|server| server as &mut dyn Server).collect()
    }

    fn wait_until_whole(&mut self) -> Result<()> {
        self.admit()
    }

    fn limit_connections(&mut self, on: bool) -> Result<()> {
        self.admins.limit_connections(on, &self.fleet.servers)
    }

    fn clock_ahead(&mut self) -> Result<i64> {
        let (seconds, micros): (i64, i64) = self.fleet.servers[0].command(&["TIME"])?;
        let ours = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        Ok(seconds * 1_000 + micros / 1_000 - ours)
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        let mut leaks = keys_left(&self.fleet.servers, prefix)?;
        for server in &self.fleet.servers {
            // The runner connects by a Unix socket, so only tested clients have a TCP address.
            let connections = || -> Option<usize> {
                let list: String = server.command(&["CLIENT", "LIST"]).ok()?;
                Some(list.lines().filter(|line| line.contains(" addr=127.0.0.1:")).count())
            };
            let gone = wait::until(Duration::from_secs(5), || (connections()? == 0).then_some(()));
            if gone.is_none() {
                leaks.push(format!("{:?} connections", connections()));
            }
        }
        Ok(leaks)
    }
}

pub(super) struct BySentinels {
    set: Sentinels,
    proxy: Option<Proxy>,
    admins: Admins,
}

impl BySentinels {
    pub(super) fn start() -> Result<Self> {
        let set = Sentinels::options().servers(durable()).start()?;
        Ok(Self { set, proxy: None, admins: Admins::default() })
    }

    fn master(&self) -> Result<&Redis> {
        Ok(&self.set.servers[self.set.master()?])
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

    fn leader(&mut self) -> Result<usize> {
        Ok(self.set.master()?)
    }

    fn prepare(&mut self, proxied: bool) -> Result<()> {
        if !proxied {
            return Ok(());
        }
        let master = self.master()?;
        let address = SocketAddr::from((ELSEWHERE, master.port()));
        let proxy = Proxy::start_at(address, master.address())?;
        let (host, port) = (ELSEWHERE.to_string(), master.port().to_string());
        self.proxy = Some(proxy);
        for sentinel in &self.set.sentinels {
            // 9 Sentinels would have to agree to replace this master.
            sentinel.command::<()>(&["SENTINEL", "MONITOR", PROXIED, &host, &port, "9"])?;
        }
        Ok(())
    }

    fn wait_until_whole(&mut self) -> Result<()> {
        if self.proxy.take().is_some() {
            for sentinel in &self.set.sentinels {
                sentinel.command::<()>(&["SENTINEL", "REMOVE", PROXIED])?;
            }
        }
        Ok(self.set.wait_until_whole()?)
    }

    fn wait_for_failover(&mut self, old: usize) -> Result<usize> {
        Ok(self.set.wait_for_failover(old)?)
    }

    fn limit_connections(&mut self, on: bool) -> Result<()> {
        let master = &self.set.servers[self.set.master()?];
        self.admins.limit_connections(on, [master])
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        keys_left([self.master()?], prefix)
    }
}

pub(super) struct InCluster {
    cluster: Cluster,
    proxies: Vec<Proxy>,
    admins: Admins,
}

impl InCluster {
    pub(super) fn start() -> Result<Self> {
        // The nodes announce no host, so that clients keep their URL's, which has the proxies.
        let options = durable().set("cluster-preferred-endpoint-type", "unknown-endpoint");
        let cluster = Cluster::options().servers(options).start()?;
        let proxy = |node: &Redis| {
            Proxy::start_at(SocketAddr::from((ELSEWHERE, node.port())), node.address())
        };
        let proxies = cluster.nodes.iter().map(proxy).collect::<testbed::Result<_>>()?;
        Ok(Self { cluster, proxies, admins: Admins::default() })
    }
}

fn masters(cluster: &Cluster) -> impl Iterator<Item = &Redis> {
    cluster.nodes.iter().filter(|node| is_master(node))
}

fn is_master(node: &Redis) -> bool {
    node.info("role").is_some_and(|role| role == "master")
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

    fn leader(&mut self) -> Result<usize> {
        Ok(self.cluster.nodes.iter().position(is_master).ok_or("no node is a master")?)
    }

    fn wait_until_whole(&mut self) -> Result<()> {
        Ok(self.cluster.wait_until_whole()?)
    }

    fn fail_over(&mut self) -> Result<String> {
        let old = self.leader()?;
        let mut keys = (0..1000).map(|number| format!("key-{number}"));
        let served = keys.find(|key| self.cluster.master_of(key).is_ok_and(|one| one == old));
        let key = served.ok_or("the master serves nothing")?;
        self.cluster.nodes[old].kill();
        let new = self.cluster.wait_for_failover(&key, old)?;
        self.cluster.nodes[old].restart(true)?;
        Ok(format!("server {new} took over from {old}"))
    }

    fn limit_connections(&mut self, on: bool) -> Result<()> {
        self.admins.limit_connections(on, masters(&self.cluster))
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        keys_left(masters(&self.cluster), prefix)
    }
}

/// Connections opened before the limit, which can still remove it.
#[derive(Default)]
struct Admins(Vec<Connection>);

impl Admins {
    fn limit_connections<'a>(
        &mut self,
        on: bool,
        servers: impl IntoIterator<Item = &'a Redis>,
    ) -> Result<()> {
        let limit = |connection: &mut Connection, limit: &str| {
            redis::cmd("CONFIG").arg(&["SET", "maxclients", limit]).query::<()>(connection)
        };
        if !on {
            return Ok(self.0.drain(..).try_for_each(|mut one| limit(&mut one, "10000"))?);
        }
        for server in servers {
            let mut connection = server.connection()?;
            limit(&mut connection, "1")?;
            // The limit doesn't close open connections.
            for kind in ["normal", "pubsub"] {
                redis::cmd("CLIENT").arg(&["KILL", "TYPE", kind]).query::<i64>(&mut connection)?;
            }
            self.0.push(connection);
        }
        Ok(())
    }
}

fn keys_left<'a>(
    servers: impl IntoIterator<Item = &'a Redis>,
    prefix: &str,
) -> Result<Vec<String>> {
    let mut left_keys = Vec::new();
    for server in servers {
        for key in server.command::<Vec<String>>(&["KEYS", &format!("*{prefix}*")])? {
            let is_kept = [":fence", ":ended"].iter().any(|kind| key.contains(kind));
            let left: i64 = server.command(&["PTTL", &key])?;
            let expires = [":queue", ":holders", ":meta"].iter().any(|kind| key.contains(kind));
            let is_soon_gone = expires && (0..=LONGEST_REST).contains(&left);
            if !is_kept && !is_soon_gone && left != -2 {
                left_keys.push(format!("key {key} for {left} ms"));
            }
        }
    }
    Ok(left_keys)
}
