use lockwright_core::Finding;
use lockwright_core::backend_util::finding;

use crate::four_letter_words::{Server, Status};
use crate::shared::Shared;

/// The first usable version: it returns a new node's transaction id, and removes empty parents.
const OLDEST: (u32, u32) = (3, 5);

const OLDEST_MAINTAINED: (u32, u32) = (3, 8);

pub(super) fn look_at(server: &Server) -> Vec<Finding> {
    let host = &server.host;
    match &server.status {
        Status::Serves { mode, version } => {
            [self::mode(host, mode), self::version(host, version)].into_iter().flatten().collect()
        }
        Status::Silent(cause) => {
            vec![server_down(host, &format!("doesn't answer: {cause}"))]
        }
        Status::Alone => vec![server_down(host, "serves no clients: it has no quorum")],
        Status::Refuses(why) => vec![finding::warning(
            "zookeeper-not-looked-at",
            format!("{host} doesn't say how it is: {why}"),
            "its role, read-only state and version can't be checked",
            "have it answer to srvr, one of the commands of four letters, which ZooKeeper itself \
             never forbids; or look by hand",
        )],
    }
}

/// Four-letter commands don't work over TLS.
pub(super) fn unseen(shared: &Shared) -> Finding {
    finding::note(
        "zookeeper-not-looked-at",
        "over TLS the servers aren't asked one by one how they are",
        format!(
            "whether one is down, is an observer, only reads, is too old, or has a longer tick \
             than {:?} can't be seen",
            shared.limits.tick
        ),
        "look by hand, or have the doctor look at a port without TLS",
    )
}

fn server_down(host: &str, what: &str) -> Finding {
    finding::warning(
        "zookeeper-server-down",
        format!("{host} {what}"),
        "the ensemble tolerates one failure fewer, or the URL has a server that isn't a member",
        "start it, check that it reaches the other servers, or remove it from the URL",
    )
}

fn mode(host: &str, mode: &str) -> Option<Finding> {
    match mode {
        "observer" => Some(finding::warning(
            "zookeeper-observer",
            format!("{host} is an observer"),
            "an observer isn't part of the quorum: each request takes one hop more, and clients \
             that reach no other server lose their locks when it is cut off",
            "name servers that vote in the URL",
        )),
        "read-only" => Some(finding::error(
            "zookeeper-read-only",
            format!("{host} has no quorum and only reads"),
            "nothing can be locked there, and its responses may be stale",
            "see why it doesn't reach the others",
        )),
        _ => None,
    }
}

fn version(host: &str, version: &str) -> Option<Finding> {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (parts.next()?, parts.next().unwrap_or(0));
    let what = format!("{host} is ZooKeeper {version}");
    let fix = format!("upgrade to at least {}.{}", OLDEST_MAINTAINED.0, OLDEST_MAINTAINED.1);
    if found < OLDEST {
        let why = "it lacks features that locks need: nothing can be locked";
        Some(finding::error("zookeeper-version-too-old", what, why, fix))
    } else if found < OLDEST_MAINTAINED {
        let why = "it gets no more fixes and isn't tested with Lockwright; some old versions keep \
                   nodes of ended sessions, so that their locks stay held";
        Some(finding::warning("zookeeper-version-too-old", what, why, fix))
    } else {
        None
    }
}

pub(super) fn tick(shared: &Shared, server: &Server) -> Option<Finding> {
    let (host, assumed) = (&server.host, shared.limits.tick);
    let fix = "say tick=… in the URL: the longest tickTime of the servers".to_owned();
    match server.tick {
        Some(tick) if tick > assumed => Some(finding::error(
            "zookeeper-tick",
            format!("the tick of {host} is {tick:?}, and {assumed:?} is taken for it"),
            "a holder that is cut off with its server may rely on its lock for longer than its \
             session lives",
            fix,
        )),
        None if matches!(server.status, Status::Serves { .. })
            && shared.config.contents.tick.is_none() =>
        {
            Some(finding::note(
                "zookeeper-not-looked-at",
                format!("{host} doesn't answer to conf: its tick is taken for {assumed:?}"),
                "that is half of the shortest session, which is less than a tick if \
                 minSessionTimeout was set to less than two",
                format!("{fix}; or allow conf (4lw.commands.whitelist)"),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lockwright_core::Severity;

    use super::*;

    #[test]
    fn old_versions_are_found() {
        let severity = |text: &str| version("a:2181", text).map(|finding| finding.severity);
        for old in ["3.4.14", "3.4", "2.9.1"] {
            assert_eq!(severity(old), Some(Severity::Error), "{old}");
        }
        for old in ["3.5.10", "3.6.4", "3.7.2"] {
            assert_eq!(severity(old), Some(Severity::Warning), "{old}");
        }
        for current in ["3.8.0", "3.9.3", "3.10.0", "4.0.0", "unknown"] {
            assert_eq!(severity(current), None, "{current}");
        }
    }
}
