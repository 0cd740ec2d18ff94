use std::collections::BTreeMap;
use std::fmt::Debug;

use lockwright_testbed::{Cluster, Fleet, Redis, Sentinels};

use super::{Counts, Result, Servers};

pub(super) fn one() -> Result<Servers> {
    let server = Redis::start()?;
    start(server.url(), vec![server.url()], server, |server| Ok(vec![server]))
}

pub(super) fn sentinel() -> Result<Servers> {
    let all = Sentinels::start()?;
    let sentinels = all.sentinels.iter().map(|sentinel| format!("redis://{}/", sentinel.address()));
    let addresses = sentinels.chain([format!("master={}", all.master_name())]).collect();
    start(all.url(), addresses, all, |all| Ok(vec![&all.servers[all.master()?]]))
}

pub(super) fn cluster() -> Result<Servers> {
    let cluster = Cluster::start()?;
    let nodes = cluster.nodes.iter().map(|node| format!("redis://{}/", node.address()));
    let addresses = nodes.collect();
    // Replicas repeat the masters' commands.
    start(cluster.url(), addresses, cluster, |cluster| Ok(cluster.nodes[..3].iter().collect()))
}

pub(super) fn five() -> Result<Servers> {
    let fleet = Fleet::start(5)?;
    let urls = fleet.urls();
    let url = format!("redlock:{}", urls.join(","));
    start(url, urls, fleet, |fleet| Ok(fleet.servers.iter().collect()))
}

#[derive(Debug)]
struct Counted<T> {
    servers: T,
    masters: fn(&T) -> Result<Vec<&Redis>>,
}

fn start<T: Debug + Send + 'static>(
    url: String,
    addresses: Vec<String>,
    servers: T,
    masters: fn(&T) -> Result<Vec<&Redis>>,
) -> Result<Servers> {
    let info: String = masters(&servers)?[0].command(&["INFO", "server"])?;
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    let version = ("Redis", version.unwrap_or("unknown").trim().to_owned());
    Ok(Servers::new(url, addresses, version, Counted { servers, masters }))
}

impl<T: Debug + Send> Counts for Counted<T> {
    /// Excludes `INFO` (this query) and the commands of replicas.
    fn served(&self) -> Result<Option<u64>> {
        let others = ["cmdstat_info", "cmdstat_replconf", "cmdstat_psync"];
        self.calls(|command| !others.contains(&command)).map(Some)
    }

    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        let count = self.calls(|command| command == "cmdstat_ping")?;
        Ok(BTreeMap::from([(String::new(), count)]))
    }
}

impl<T> Counted<T> {
    fn calls(&self, is_counted: impl Fn(&str) -> bool) -> Result<u64> {
        let mut sum = 0;
        for server in (self.masters)(&self.servers)? {
            let info: String = server.command(&["INFO", "commandstats"])?;
            for line in info.lines() {
                let Some((name, rest)) = line.split_once(":calls=") else { continue };
                if is_counted(name) {
                    let calls = rest.split(',').next().and_then(|calls| calls.parse::<u64>().ok());
                    sum += calls.ok_or_else(|| format!("not a count: {line}"))?;
                }
            }
        }
        Ok(sum)
    }
}
