use std::collections::BTreeMap;
use std::time::Duration;

use lockwright_testbed::etcd::Member;
use lockwright_testbed::{Etcd, http};

use super::{Counts, Result, Servers};

const LIMIT: Duration = Duration::from_secs(10);

pub(super) fn three() -> Result<Servers> {
    let cluster = Etcd::start()?;
    let answer = ask(&cluster.members[0], "/version")?;
    let version: serde_json::Value =
        serde_json::from_str(&answer).map_err(|error| format!("{answer}: {error}"))?;
    let version = version["etcdserver"].as_str().unwrap_or("unknown");
    let version = ("etcd", format!("{version}, three members"));
    Ok(Servers::new(cluster.url(), cluster.endpoints(), version, cluster))
}

impl Counts for Etcd {
    /// Includes keep-alives and new watches.
    fn served(&self) -> Result<Option<u64>> {
        received(self, "").map(Some)
    }

    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        let count = received(self, "grpc_method=\"LeaseKeepAlive\"")?;
        Ok(BTreeMap::from([(String::new(), count)]))
    }
}

fn received(cluster: &Etcd, label: &str) -> Result<u64> {
    let mut sum = 0.0;
    for member in &cluster.members {
        let metrics = ask(member, "/metrics")?;
        let counts = metrics.lines().filter(|line| {
            line.starts_with("grpc_server_msg_received_total{") && line.contains(label)
        });
        sum += counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>();
    }
    Ok(sum as u64)
}

fn ask(member: &Member, path: &str) -> Result<String> {
    let answer = http::get(member.address(), path, LIMIT);
    answer.ok_or_else(|| format!("{} doesn't answer {path}", member.endpoint()).into())
}
