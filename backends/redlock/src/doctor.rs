use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Finding, Result, Severity};
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
            Err(error) => findings.push(Finding {
                severity: Severity::Warning,
                code: "node-down",
                what: format!("{address} doesn't answer: {error}"),
                why: "the quorum has one node fewer to lose".to_owned(),
                fix: "bring it back; if it comes back without its data, it votes one largest TTL \
                      later"
                    .to_owned(),
            }),
        }
        findings.extend(membership(fleet, at));
    }
    findings.extend(quorum(fleet));
    Ok(findings)
}

fn membership(fleet: &Fleet, at: usize) -> Option<Finding> {
    let (membership, address) = (&fleet.memberships[at], fleet.address(at));
    if let Some(why) = membership.refused() {
        return Some(Finding {
            severity: Severity::Error,
            code: "node-refused",
            what: format!("{address} gets no vote: {why}"),
            why: "the quorum is reckoned with a node that never votes".to_owned(),
            fix: "name as many independent servers as there are nodes, with one largest TTL"
                .to_owned(),
        });
    }
    let left = membership.waits(fleet.now())?;
    Some(Finding {
        severity: Severity::Warning,
        code: "node-new",
        what: format!("{address} is new: it votes in {} s", left.as_secs() + 1),
        why: "it may have lost holds that are still valid, so it waits for one largest TTL"
            .to_owned(),
        fix:
            "wait; or, if no lock was held on it, let it vote with `lockwright admit --yes`. With \
              `appendonly yes` and `appendfsync always` a restart would not cost it its vote"
                .to_owned(),
    })
}

fn quorum(fleet: &Fleet) -> Option<Finding> {
    let votes = fleet.memberships.iter().filter(|membership| membership.votes()).count();
    (votes < fleet.quorum).then(|| Finding {
        severity: Severity::Error,
        code: "no-quorum",
        what: format!(
            "{votes} of {} nodes vote, and {} are required",
            fleet.nodes.len(),
            fleet.quorum
        ),
        why: "no lock can be taken or renewed".to_owned(),
        fix: "bring the other nodes back, or wait for those that are new".to_owned(),
    })
}
