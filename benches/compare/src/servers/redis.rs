use std::collections::BTreeMap;

use lockwright_testbed::{Cluster, Fleet, Redis, Sentinels};

use super::interface::{Result, Servers};

pub(super) fn one() -> Result<Box<dyn Servers>> {
    Ok(Box::new(One(Redis::start()?)))
}

pub(super) fn sentinel() -> Result<Box<dyn Servers>> {
    Ok(Box::new(Sentinel(Sentinels::start()?)))
}

pub(super) fn cluster() -> Result<Box<dyn Servers>> {
    Ok(Box::new(Nodes(Cluster::start()?)))
}

pub(super) fn five() -> Result<Box<dyn Servers>> {
    Ok(Box::new(Five(Fleet::start(5)?)))
}

#[derive(Debug)]
struct One(Redis);
#[derive(Debug)]
struct Sentinel(Sentinels);
#[derive(Debug)]
struct Nodes(Cluster);
#[derive(Debug)]
struct Five(Fleet);

impl Servers for One {
    fn url(&self) -> String {
        self.0.url()
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.0.url()]
    }

    fn served(&self) -> Result<Option<u64>> {
        served([&self.0])
    }

    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        pings([&self.0])
    }

    fn version(&self) -> Result<(String, String)> {
        version(&self.0)
    }
}

impl Servers for Sentinel {
    fn url(&self) -> String {
        self.0.url()
    }

    fn addresses(&self) -> Vec<String> {
        let sentinels =
            self.0.sentinels.iter().map(|sentinel| format!("redis://{}/", sentinel.address()));
        sentinels.chain([format!("master={}", self.0.master_name())]).collect()
    }

    fn served(&self) -> Result<Option<u64>> {
        served([&self.0.servers[self.0.master()?]])
    }

    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        pings([&self.0.servers[self.0.master()?]])
    }

    fn version(&self) -> Result<(String, String)> {
        version(&self.0.servers[0])
    }
}

impl Servers for Nodes {
    fn url(&self) -> String {
        self.0.url()
    }

    fn addresses(&self) -> Vec<String> {
        self.0.nodes.iter().map(|node| format!("redis://{}/", node.address())).collect()
    }

    fn served(&self) -> Result<Option<u64>> {
        // The replicas aren't counted, because they repeat the masters' commands.
        served(&self.0.nodes[..3])
    }

    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        pings(&self.0.nodes[..3])
    }

    fn version(&self) -> Result<(String, String)> {
        version(&self.0.nodes[0])
    }
}

impl Servers for Five {
    fn url(&self) -> String {
        format!("redlock:{}", self.0.urls().join(","))
    }

    fn addresses(&self) -> Vec<String> {
        self.0.urls()
    }

    fn served(&self) -> Result<Option<u64>> {
        served(&self.0.servers)
    }

    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        pings(&self.0.servers)
    }

    fn version(&self) -> Result<(String, String)> {
        version(&self.0.servers[0])
    }
}

/// Counts commands, except those of replicas and this query.
fn served<'a>(servers: impl IntoIterator<Item = &'a Redis>) -> Result<Option<u64>> {
    let others = ["cmdstat_info", "cmdstat_replconf", "cmdstat_psync"];
    calls(servers, |command| !others.contains(&command)).map(Some)
}

fn pings<'a>(servers: impl IntoIterator<Item = &'a Redis>) -> Result<BTreeMap<String, u64>> {
    let count = calls(servers, |command| command == "cmdstat_ping")?;
    Ok(BTreeMap::from([(String::new(), count)]))
}

fn calls<'a>(
    servers: impl IntoIterator<Item = &'a Redis>,
    is_counted: impl Fn(&str) -> bool,
) -> Result<u64> {
    let mut sum = 0;
    for server in servers {
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

fn version(server: &Redis) -> Result<(String, String)> {
    let info: String = server.command(&["INFO", "server"])?;
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    Ok(("Redis".to_owned(), version.unwrap_or("unknown").trim().to_owned()))
}
