use std::sync::Arc;
use std::time::Duration;

use lockwright_core::backend_util::finding;
use lockwright_core::{Finding, Result};
use tokio::time::Instant;

use crate::fleet::{Fleet, ask_all};
use crate::requests::Requests;

const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn examine(fleet: &Arc<Fleet>) -> Result<Vec<Finding>> {
    let mut looks = Requests::new(fleet, |at| {
        let fleet = Arc::clone(fleet);
        async move { drop(fleet.incarnation(at, Instant::now() + PATIENCE).await) }
    });
    let limit = PATIENCE.max(fleet.options.patience(PATIENCE));
    let ask = ask_all(fleet, limit, |node| async move { node.doctor().await }, |_| false);
    let (answers, ()) = tokio::join!(ask, async { while looks.next().await.is_some() {} });
    let mut findings = Vec::new();
    for (at, answer) in answers.into_iter().enumerate() {
        let address = fleet.address(at);
        match answer {
            Ok(found) => findings.extend(found.into_iter().map(|mut finding| {
                finding.what = format!("{address}: {}", finding.what);
                finding
            })),
            Err(error) => findings.push(finding::warning(
                "node-down",
                format!("{address} doesn't answer: {error}"),
                "the quorum has one node fewer to lose",
                "bring it back; if it comes back without its data, it votes one largest TTL later",
            )),
        }
        findings.extend(membership(fleet, at));
    }
    findings.extend(quorum(fleet));
    Ok(findings)
}

fn membership(fleet: &Fleet, at: usize) -> Option<Finding> {
    let (membership, address) = (&fleet.memberships[at], fleet.address(at));
    if let Some(why) = membership.refused() {
        return Some(finding::error(
            "node-refused",
            format!("{address} gets no vote: {why}"),
            "the quorum is reckoned with a node that never votes",
            "name as many independent servers as there are nodes, with one largest TTL",
        ));
    }
    let left = membership.waits(fleet.now())?;
    Some(finding::warning(
        "node-new",
        format!("{address} is new: it votes in {} s", left.as_secs() + 1),
        "it may have lost holds that are still valid, so it waits for one largest TTL",
        "wait; or, if no lock was held on it, let it vote with `lockwright admit --yes`. With \
         `appendonly yes` and `appendfsync always` a restart would not cost it its vote",
    ))
}

fn quorum(fleet: &Fleet) -> Option<Finding> {
    let votes = fleet.memberships.iter().filter(|membership| membership.votes()).count();
    (votes < fleet.quorum).then_some(finding::error(
        "no-quorum",
        format!("{votes} of {} nodes vote, and {} are required", fleet.nodes.len(), fleet.quorum),
        "no lock can be taken or renewed",
        "bring the other nodes back, or wait for those that are new",
    ))
}
