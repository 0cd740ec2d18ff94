use std::sync::atomic::AtomicU64;

use lockwright_core::Finding;
use lockwright_core::backend_util::finding;

use super::master::{Master, Sentinels};
use crate::config::Config;

/// The fewest Sentinels that keep a majority when one fails.
const ENOUGH: u64 = 3;

pub(crate) async fn examine(config: &Config) -> Vec<Finding> {
    let unknown = AtomicU64::new(0);
    let Some(sentinels) = Sentinels::of(config, &unknown) else { return Vec::new() };
    let (mut findings, mut named) = (Vec::new(), Vec::new());
    let mut asked = sentinels.ask_all();
    while let Some(Ok((address, answer))) = asked.join_next().await {
        match answer {
            Ok(master) => named.push((address, master)),
            Err(failure) => findings.push(unusable(failure.message().to_owned())),
        }
    }
    findings.extend(disagreement(&named));
    findings.extend(too_few(&named));
    findings.extend(no_replica(&named));
    findings
}

fn unusable(what: String) -> Finding {
    finding::warning(
        "sentinel-unusable",
        what,
        "with fewer Sentinels, clients may not find the master, and a failover may fail",
        "check that the Sentinel runs, and that the URL has its address and login",
    )
}

fn disagreement(named: &[(String, Master)]) -> Option<Finding> {
    let (_, first) = named.first()?;
    let is_other = |(_, other): &&(String, Master)| other.at != first.at;
    named.iter().find(is_other)?;
    let opinions = named.iter().map(|(address, master)| format!("{} by {address}", master.at));
    let opinions: Vec<_> = opinions.collect();
    Some(finding::warning(
        "sentinels-disagree",
        format!("the master is {}", opinions.join(", ")),
        "clients of different masters can hold the same lock",
        "wait for a failover in progress; otherwise check the connections between the Sentinels",
    ))
}

fn too_few(named: &[(String, Master)]) -> Option<Finding> {
    let known = named.iter().map(|(_, master)| master.sentinels).max()?;
    (known < ENOUGH).then_some(finding::warning(
        "sentinels-too-few",
        format!("{known} Sentinels watch over the master"),
        "when one of them fails, no majority is left for a failover",
        format!("run at least {ENOUGH}, on separate machines, and name each in the URL"),
    ))
}

fn no_replica(named: &[(String, Master)]) -> Option<Finding> {
    let replicas = named.iter().map(|(_, master)| master.replicas).max()?;
    (replicas == 0).then_some(finding::warning(
        "no-replica",
        "the master has no replica",
        "if it fails, its locks are unavailable until it is back",
        "add a replica",
    ))
}
