use std::sync::Arc;
use std::time::Duration;

use lockwright_core::backend_util::finding;
use lockwright_core::{Error, Finding, Result};
use zookeeper_client as zk;

use crate::errors::{Effect, Failure};
use crate::four_letter_words::{Server, Status};
use crate::limits::{Granted, Limits, granted};
use crate::session::Session;
use crate::shared::Shared;
use crate::url::MAX_TIMEOUT;

const DEFAULT_TTL: Duration = Duration::from_secs(30);

const TIMED: usize = 5;

pub(super) async fn look(
    shared: &Arc<Shared>,
    servers: &[Server],
    session: &Arc<Session>,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    findings.extend(limits(&shared.limits));
    findings.extend(differing(&granted(&shared.config, MAX_TIMEOUT).await));
    findings.extend(commits(shared, session).await?);
    findings.extend(members(shared.config.contents.hosts.len(), servers, session).await?);
    Ok(findings)
}

pub(super) fn no_quorum(cause: &Error) -> Finding {
    finding::error(
        "zookeeper-no-quorum",
        format!("servers run, and nothing is committed: {cause}"),
        "no lock can be acquired or renewed, and held locks expire",
        "bring servers back until more than half of them run, and see whether they reach each \
         other",
    )
}

fn limits(limits: &Limits) -> Option<Finding> {
    let (shortest, longest) = (limits.shortest_ttl(), limits.longest);
    (!(shortest..=longest).contains(&DEFAULT_TTL)).then(|| {
        finding::warning(
            "zookeeper-session-limits",
            format!(
                "sessions last for {:?} to {longest:?}, with a tick of {:?}: a TTL must be within \
                 {shortest:?} to {longest:?}",
                limits.shortest, limits.tick
            ),
            format!(
                "the default TTL, {DEFAULT_TTL:?}, isn't: a program that names none gets the \
                 nearest, and the command gets no lock"
            ),
            "set minSessionTimeout, maxSessionTimeout or tickTime of the servers; or a TTL in the \
             client",
        )
    })
}

fn differing(granted: &[Granted]) -> Option<Finding> {
    let least = granted.iter().min_by_key(|granted| granted.timeout)?;
    let most = granted.iter().max_by_key(|granted| granted.timeout)?;
    (least.timeout < most.timeout).then(|| {
        finding::warning(
            "zookeeper-limits-differ",
            format!(
                "{} grants sessions of {:?}, and {} of {:?}",
                least.host, least.timeout, most.host, most.timeout
            ),
            "a session that moves to the first is kept for less than before: its locks are lost",
            "the same maxSessionTimeout and tickTime on all servers",
        )
    })
}

async fn commits(shared: &Shared, session: &Arc<Session>) -> Result<Option<Finding>> {
    let (mut commits, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..TIMED {
        let sent = shared.clock.now();
        session.prove().await?;
        let committed = shared.clock.now();
        let reading = session.answer(session.client.check_stat("/")).await;
        reading.map_err(|failure| failure.error(Effect::Reads))?;
        commits.push(committed.saturating_since(sent));
        reads.push(shared.clock.now().saturating_since(committed));
    }
    commits.sort_unstable();
    reads.sort_unstable();
    let (commit, read, tick) = (commits[TIMED / 2], reads[TIMED / 2], shared.limits.tick);
    Ok((commit > tick / 4).then(|| {
        finding::warning(
            "zookeeper-slow-commits",
            format!("a commit takes {commit:.1?}, and a read {read:.1?}, where a tick is {tick:?}"),
            "each lock and release waits for one; when it gets worse, servers give each other up \
             and holds are lost",
            "if reads are as slow, check the network to the servers; otherwise put their \
             transaction logs on a separate disk (dataLogDir)",
        )
    }))
}

async fn members(named: usize, servers: &[Server], session: &Session) -> Result<Vec<Finding>> {
    let config = match session.answer(session.client.get_config()).await {
        Ok((config, _)) => String::from_utf8_lossy(&config).into_owned(),
        Err(Failure::Response(cause @ (zk::Error::NoNode | zk::Error::NoAuth))) => {
            let unseen = finding::warning(
                "zookeeper-not-looked-at",
                format!("/zookeeper/config can't be read: {cause}"),
                "the number of voting servers can't be read",
                "let the client's login read it; or look by hand",
            );
            let has_others = servers.iter().any(|server| match &server.status {
                Status::Serves { mode, .. } => mode != "standalone",
                _ => false,
            });
            let unnamed = (named == 1 && has_others).then(|| unnamed(named, "others"));
            return Ok([Some(unseen), unnamed].into_iter().flatten().collect());
        }
        Err(failure) => return Err(failure.error(Effect::Reads)),
    };
    let members = || config.lines().filter(|line| line.starts_with("server."));
    let observers = members().filter(|line| line.contains(":observer")).count();
    // A standalone server's configuration has no members.
    let voters = (members().count() - observers).max(1);
    let unnamed = (named < voters).then(|| unnamed(named, &voters.to_string()));
    let noted = (observers > 0).then(|| {
        finding::note(
            "zookeeper-observers",
            format!("{observers} of the servers are observers"),
            "observers don't count for the quorum, and their clients lose their locks when an \
             observer is cut off",
            "remove them from the URLs of clients that use locks",
        )
    });
    Ok([few(voters), noted, unnamed].into_iter().flatten().collect())
}

fn unnamed(named: usize, voters: &str) -> Finding {
    finding::warning(
        "zookeeper-servers-unnamed",
        format!("the URL names {named} of the servers that vote: there are {voters}"),
        "if several servers share the address, a session may move unnoticed to a server with a \
         shorter timeout, and two clients may hold the same lock; if it is a single server, locks \
         are lost with it",
        "name all servers that vote, each with an address of its own; else see to it that they \
         have the same maxSessionTimeout, minSessionTimeout and tickTime",
    )
}

fn few(voters: usize) -> Option<Finding> {
    let why = "without more than half of them, no lock can be acquired or renewed";
    if voters < 3 {
        Some(finding::warning(
            "zookeeper-too-few-servers",
            format!("{voters} of the servers vote: not one may be lost"),
            why,
            "three servers that vote at least, on machines of their own",
        ))
    } else if voters.is_multiple_of(2) {
        Some(finding::note(
            "zookeeper-even-number",
            format!("{voters} servers vote: as few of them may be lost as of {}", voters - 1),
            why,
            "one more that votes, or one less",
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_may_be_lost_count() {
        let found = [1, 2, 3, 4, 5, 6].map(|voters| few(voters).map(|finding| finding.code));
        let (few, even) = (Some("zookeeper-too-few-servers"), Some("zookeeper-even-number"));
        assert_eq!(found, [few, few, None, even, None, even]);
    }
}
