use std::sync::Arc;

use etcd_client::{Compare, CompareOp, StatusResponse, Txn, TxnOp};
use lockwright_core::backend_util::finding;
use lockwright_core::backend_util::tls::is_local;
use lockwright_core::{Error, ErrorKind, Finding, Result};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::Config;
use crate::errors::{Effect, error, words};
use crate::members::{self, Link};
use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) endpoint: String,
    pub(crate) status: Result<StatusResponse>,
}

pub(crate) async fn ask_all(config: &Config) -> Vec<Member> {
    let mut asking = JoinSet::new();
    for (at, endpoint) in config.endpoints.iter().cloned().enumerate() {
        let config = config.clone().for_diagnosis();
        asking.spawn(async move {
            let limit = config.connect_timeout;
            let status = match timeout(limit, status(&config, &endpoint)).await {
                Ok(status) => status,
                Err(_) => Err(Effect::Reads
                    .unanswered(&format!("{endpoint} did not answer within {limit:?}"))),
            };
            (at, Member { endpoint, status })
        });
    }
    let mut members = asking.join_all().await;
    members.sort_by_key(|(at, _)| *at);
    members.into_iter().map(|(_, member)| member).collect()
}

async fn status(config: &Config, endpoint: &str) -> Result<StatusResponse> {
    let client = members::client(config, endpoint).await.map_err(|link_error| link_error.error)?;
    let status = client.maintenance_client().status().await;
    status.map_err(|cause| {
        error(ErrorKind::Unavailable, format!("{endpoint} can't be queried: {}", words(&cause)))
    })
}

const NEARLY_FULL_PERCENT: i64 = 90;

const WRITES: usize = 5;

/// A write is slow above a sixth of etcd's shortest lease TTL: about a quarter of the election
/// timeout.
const SLOW_PART: u32 = 6;

pub(crate) async fn examine(shared: &Shared) -> Vec<Finding> {
    let config = &shared.members.config;
    let members = ask_all(config).await;
    let mut findings = Vec::new();
    for member in &members {
        of_member(member, &mut findings);
    }
    findings.extend(several_clusters(&members));
    findings.extend(unencrypted_findings(config));
    let answering = || members.iter().filter_map(|member| member.status.as_ref().ok());
    let mut errors = answering().flat_map(|status| status.errors());
    let has_alarm = errors.any(|error| error.contains("alarm:"));
    if answering().any(|status| status.leader() != 0 && !status.is_learner()) {
        let listing =
            |link: Arc<Link>| async move { link.client.cluster_client().member_list().await };
        match shared.members.ask(Effect::Reads, config.response_timeout, listing).await {
            Ok(listed) => findings.extend(size(listed.value.members())),
            Err(failure) => findings.push(no_answer("the members can't be listed", &failure)),
        }
        if !has_alarm {
            match writes(shared).await {
                Ok(slow) => findings.extend(slow),
                Err(failure) if failure.kind() == ErrorKind::Denied => {
                    let prefix = &config.keys.prefix;
                    findings.push(finding::error(
                        "etcd-denied",
                        format!(
                            "the user may not read and write all keys that begin with {prefix:?}"
                        ),
                        format!("nothing can be locked ({failure})"),
                        format!(
                            "'etcdctl role grant-permission ROLE --prefix=true readwrite {prefix}'"
                        ),
                    ));
                }
                Err(failure) => findings.push(no_answer("the test writes failed", &failure)),
            }
        }
    }
    findings.extend(shared.revisions.fell().map(|fall| {
        finding::error(
            "etcd-revision-fell",
            format!(
                "the revision of the store went back from {} to {}: a snapshot was restored \
                 without --bump-revision",
                fall.from, fall.to
            ),
            "locks that were held before the restore are free or held by other clients, and fences \
             are issued a second time",
            "restart all clients that hold locks; restore with 'etcdutl snapshot restore \
             --bump-revision 1000000000 --mark-compacted'; raise the stored fences of protected \
             resources",
        )
    }));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn of_member(member: &Member, findings: &mut Vec<Finding>) {
    let endpoint = &member.endpoint;
    let status = match &member.status {
        Ok(status) => status,
        Err(failure) => {
            findings.push(finding::warning(
                "etcd-member-unreachable",
                failure.to_string(),
                "the cluster survives the loss of fewer than half of its members, and this one may \
                 already be lost",
                format!("start {endpoint}, or remove it from the URL if it left the cluster"),
            ));
            return;
        }
    };
    if revokes_live_leases(status.version()) {
        findings.push(finding::warning(
            "etcd-lease-bug",
            format!(
                "{endpoint} runs etcd {}, which can revoke leases that are alive",
                status.version()
            ),
            "a leader that was paused, for example by its disk, and then replaced revokes live \
             leases when it resumes; the locks on them are lost",
            "update all members to 3.4.31, 3.5.13 or newer",
        ));
    }
    if status.leader() == 0 {
        findings.push(finding::error(
            "etcd-no-leader",
            format!("{endpoint} has no leader"),
            "without a majority nothing can be locked, renewed or released",
            "start the members that are down, and repair the network between them",
        ));
    }
    if status.is_learner() {
        findings.push(finding::warning(
            "etcd-learner",
            format!("{endpoint} is a learner"),
            "a learner has no vote and rejects nearly every request; without the other members \
             nothing can be locked",
            format!("promote it ('etcdctl member promote'), or remove {endpoint} from the URL"),
        ));
    }
    let raised = |alarm: &str| status.errors().iter().any(|it| it.contains(alarm));
    if raised("alarm:NOSPACE") {
        findings.push(finding::error(
            "etcd-no-space",
            format!("{endpoint} reports that the database is full (NOSPACE)"),
            "the cluster accepts no more writes: nothing can be locked",
            "remove data, 'etcdctl compact', 'etcdctl defrag' on each member, 'etcdctl alarm \
             disarm'; a larger --quota-backend-bytes",
        ));
    }
    if raised("alarm:CORRUPT") {
        findings.push(finding::error(
            "etcd-corrupt",
            format!("{endpoint} reports that the members' data differ (CORRUPT)"),
            "the cluster rejects all requests, and two members may have granted the same lock",
            "find the member whose data are wrong ('etcdctl endpoint hashkv'), replace it, and \
             'etcdctl alarm disarm'",
        ));
    }
    // etcd before 3.6 reports the quota 0.
    let (used, quota) = (status.db_size(), status.db_size_quota());
    if quota > 0 && used.saturating_mul(100) >= quota.saturating_mul(NEARLY_FULL_PERCENT) {
        findings.push(finding::warning(
            "etcd-nearly-full",
            format!("{used} of {quota} bytes of the database of {endpoint} are in use"),
            "a full cluster accepts no more writes, and nothing can be locked",
            "let it compact (--auto-compaction-retention), 'etcdctl defrag' on each member, or \
             raise --quota-backend-bytes",
        ));
    }
}

fn several_clusters(members: &[Member]) -> Option<Finding> {
    let mut clusters: Vec<(u64, &str)> = Vec::new();
    for member in members {
        let Ok(status) = &member.status else { continue };
        let id = status.header().map_or(0, |header| header.cluster_id());
        if clusters.iter().all(|(other, _)| *other != id) {
            clusters.push((id, &member.endpoint));
        }
    }
    let (first, second) = (clusters.first()?, clusters.get(1)?);
    Some(finding::error(
        "etcd-several-clusters",
        format!("{} and {} are members of different clusters", first.1, second.1),
        "the clusters are independent, and each grants the same lock",
        "list only the members of one cluster in the URL",
    ))
}

fn unencrypted_findings(config: &Config) -> Vec<Finding> {
    let Some(endpoint) = config.endpoints.iter().find(|endpoint| !is_local(endpoint)) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if !config.security.is_secured {
        findings.push(finding::warning(
            "etcd-no-tls",
            format!("the connection to {endpoint} is not encrypted"),
            "an attacker on the network can read, take and release locks",
            "enable TLS on the members, and use https in the URL",
        ));
    }
    if !config.may_have_login() {
        findings.push(finding::warning(
            "etcd-no-login",
            format!("{endpoint} requires neither a user nor a certificate"),
            "every client that reaches the cluster can take and release locks, and read and delete \
             all other data",
            "create a user for locks and run 'etcdctl auth enable', or require client certificates \
             (--client-cert-auth)",
        ));
    }
    findings
}

fn size(members: &[etcd_client::Member]) -> Option<Finding> {
    let voters = members.iter().filter(|member| !member.is_learner()).count();
    if voters == 1 {
        return Some(finding::warning(
            "etcd-one-member",
            "the cluster has one member that votes",
            "while it is down, nothing can be locked or renewed; if its disk is lost, so are all \
             locks and fences",
            "add two members on separate machines",
        ));
    }
    (voters % 2 == 0 && voters > 0).then(|| {
        finding::note(
            "etcd-even-size",
            format!("the cluster has {voters} members that vote"),
            format!(
                "it survives the loss of {}, like a cluster of {}, but has one more member that \
                 can fail",
                (voters - 1) / 2,
                voters - 1
            ),
            "use three or five members",
        )
    })
}

async fn writes(shared: &Shared) -> Result<Option<Finding>> {
    let shortest = shared.grant_lease(1, shared.members.config.response_timeout, None).await?;
    let mut took = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let probe_key = shared.keys().probe_key();
        // The comparison is never true, but etcd checks the user's permissions, and a majority must
        // commit.
        let never = Compare::create_revision(probe_key.clone(), CompareOp::Greater, i64::MAX - 1);
        let txn = Txn::new().when([never]).and_then([TxnOp::put(probe_key, "", None)]);
        let sent = shared.clock.now();
        shared.transact(txn, Effect::Reads, None).await?;
        took.push(shared.clock.now().saturating_since(sent));
    }
    shared.revoke_soon(&shortest);
    took.sort_unstable();
    let median = took[WRITES / 2];
    Ok((median > shortest.ttl / SLOW_PART).then(|| {
        finding::warning(
            "etcd-slow-writes",
            format!("half of {WRITES} writes took {median:.1?} or longer"),
            "the members' disks, or the network between them, are so slow that a live leader may \
             be replaced; each election delays all requests, and short TTLs expire during it",
            "give etcd a separate disk with fast syncs (an SSD), or raise --heartbeat-interval and \
             --election-timeout",
        )
    }))
}

fn no_answer(what: &str, failure: &Error) -> Finding {
    finding::error(
        "etcd-no-answer",
        format!("{what}: {failure}"),
        "requests for locks probably fail for the same reason",
        "remove the cause in the message, and run the doctor again",
    )
}

/// Returns whether the version has the bug of etcd issue 15247: a leader that was replaced while
/// paused may revoke live leases.
pub(crate) fn revokes_live_leases(version: &str) -> bool {
    let parts = version.trim_start_matches('v').split(['.', '-', '+']);
    let found: Vec<u32> = parts.map_while(|part| part.parse().ok()).take(3).collect();
    found.len() == 3 && (found < vec![3, 4, 31] || (vec![3, 5, 0]..vec![3, 5, 13]).contains(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_lease_bug_are_detected() {
        for bad in ["3.3.27", "3.4.23", "3.4.30", "3.5.0-rc.1", "3.5.12"] {
            assert!(revokes_live_leases(bad), "{bad}");
        }
        for good in ["3.4.31", "3.5.13", "v3.6.0", "4.0.0-pre", "3.4", "unknown"] {
            assert!(!revokes_live_leases(good), "{good}");
        }
    }
}
