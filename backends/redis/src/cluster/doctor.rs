use std::sync::Arc;

use lockwright_core::backend_util::finding;
use lockwright_core::{Finding, Result};

use super::{Address, Cluster};
use crate::answer::read;
use crate::connection::{Link, command};
use crate::doctor::{examine_one, permitted};

pub(crate) async fn examine(cluster: &Arc<Cluster>) -> Result<Vec<Finding>> {
    cluster.look_up().await?;
    let mut findings = Vec::new();
    findings.extend(coverage(cluster));
    let mut of_nodes: Vec<Finding> = Vec::new();
    let (mut nodes_denied, mut failing) = (false, false);
    for (at, link) in cluster.masters() {
        let replies = async {
            findings.extend(examine_one(&link).await?.into_iter().map(|it| at_node(&at, it)));
            Ok((ask(&link, "INFO").await?, ask(&link, "NODES").await?))
        };
        let (info, nodes) = match replies.await {
            Ok(replies) => replies,
            Err(problem) => {
                findings.push(unreachable(&at, &problem));
                continue;
            }
        };
        nodes_denied |= info.is_none() || nodes.is_none();
        failing |= info.is_some_and(|info| !info.contains("cluster_state:ok"));
        of_nodes.extend(nodes.iter().flat_map(|nodes| problems(nodes)));
    }
    if failing {
        findings.push(finding::error(
            "cluster-down",
            "the Cluster is down (cluster_state isn't ok)",
            "it refuses requests, so nothing can be locked or renewed",
            "see which nodes or slots are missing: redis-cli --cluster check",
        ));
    }
    if nodes_denied {
        findings.push(finding::warning(
            "cluster-denied",
            "the user may not run CLUSTER INFO or CLUSTER NODES",
            "failing nodes, masters without a replica and slots on the move can't be seen",
            "permit it: ACL SETUSER … +cluster|info +cluster|nodes",
        ));
    }
    of_nodes.sort_by(|one, other| (one.code, &one.what).cmp(&(other.code, &other.what)));
    of_nodes.dedup();
    findings.extend(of_nodes);
    Ok(findings)
}

async fn ask(link: &Arc<Link>, what: &str) -> Result<Option<String>> {
    let answer = permitted(link.read(&command(&["CLUSTER", what])).await)?;
    answer.map(read).transpose()
}

fn at_node(at: &Address, mut finding: Finding) -> Finding {
    finding.what = format!("{at}: {}", finding.what);
    finding
}

fn coverage(cluster: &Cluster) -> Option<Finding> {
    let uncovered = cluster.map().uncovered();
    (uncovered > 0).then_some(finding::error(
        "slots-uncovered",
        format!("no node serves {uncovered} of the slots"),
        "names in these slots can't be locked; with cluster-require-full-coverage, no name can",
        "start the missing nodes, or run redis-cli --cluster fix",
    ))
}

fn unreachable(at: &Address, problem: &lockwright_core::Error) -> Finding {
    finding::error(
        "node-unreachable",
        format!("{at}: {problem}"),
        "names in its slots can't be locked or renewed from this machine",
        "check that the node runs, and that this machine can reach its announced address \
         (cluster-announce-ip, cluster-announce-hostname)",
    )
}

/// Parses the lines of `CLUSTER NODES`: id, address, flags, master, ping, pong, epoch, link, slots.
fn nodes(answer: &str) -> Vec<Vec<&str>> {
    let lines = answer.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    lines.filter(|fields| fields.len() >= 8).collect()
}

fn problems(answer: &str) -> Vec<Finding> {
    let mut problems = Vec::new();
    let nodes = nodes(answer);
    for fields in &nodes {
        let (node, slots) = (fields[1].split(['@', ',']).next().unwrap_or("?"), &fields[8..]);
        if !is_healthy(fields) {
            problems.push(finding::warning(
                "node-failing",
                format!("{node}: other nodes of the Cluster can't reach it"),
                "a failing master's locks are unavailable until a replica takes over, and the \
                 latest may be lost; a failing replica can't take over",
                "check that it runs; if it was removed permanently, run CLUSTER FORGET",
            ));
            continue;
        }
        let has_replica = || nodes.iter().any(|other| other[3] == fields[0] && is_healthy(other));
        if !slots.is_empty() && has_flag(fields, "master") && !has_replica() {
            problems.push(finding::warning(
                "no-replica",
                format!("{node}: a master without a working replica"),
                "if it fails, its locks are unavailable until it is back",
                "add a replica: redis-cli --cluster add-node … --cluster-slave",
            ));
        }
        // Only the source lists a moving slot with `->-`, so it is reported once.
        if slots.iter().any(|slot| slot.contains("->-")) {
            problems.push(finding::warning(
                "slots-moving",
                format!("{node}: slots are being moved to another node"),
                "until the move ends, no lock in these slots is granted; held locks stay held",
                "wait; if the move was aborted, run redis-cli --cluster fix",
            ));
        }
    }
    problems
}

fn has_flag(fields: &[&str], wanted: &str) -> bool {
    fields[2].split(',').any(|flag| flag == wanted)
}

fn is_healthy(fields: &[&str]) -> bool {
    !fields[2].split(',').any(|flag| ["fail", "fail?", "noaddr"].contains(&flag))
}

pub(super) fn own_slots(nodes: &str) -> Option<String> {
    self::nodes(nodes).iter().find(|node| has_flag(node, "myself")).map(|own| own[8..].join(" "))
}

pub(super) fn has_slots_on_the_move(own: &str) -> bool {
    own.contains("->-") || own.contains("-<-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_read_from_the_nodes() {
        let nodes = "\
            a 10.0.0.1:1@2 myself,master - 0 0 1 connected 0-99 [7->-b]\n\
            b 10.0.0.2:1@2,host master - 0 0 2 connected 100-199\n\
            c 10.0.0.3:1@2 slave,fail b 0 0 2 disconnected\n\
            d 10.0.0.4:1@2 slave a 0 0 1 connected\n\
            e 10.0.0.5:1@2 master - 0 0 3 connected\n";
        let problems = problems(nodes);
        let found: Vec<_> =
            problems.iter().map(|it| (it.code, it.what.split(": ").next())).collect();
        assert_eq!(
            found,
            [
                ("slots-moving", Some("10.0.0.1:1")),
                ("no-replica", Some("10.0.0.2:1")),
                ("node-failing", Some("10.0.0.3:1")),
            ]
        );
        assert_eq!(own_slots(nodes).as_deref(), Some("0-99 [7->-b]"));
        assert!(has_slots_on_the_move("0-99 [7->-b]"));
        assert!(has_slots_on_the_move("[7-<-a]"));
        assert!(!has_slots_on_the_move("0-99"));
    }
}
