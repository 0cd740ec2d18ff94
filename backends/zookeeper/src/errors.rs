use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Result};
use zookeeper_client as zk;

pub(crate) const BACKEND: &str = "zookeeper";

/// An ephemeral node in a local session. The client library lacks this code.
const EPHEMERAL_ON_LOCAL_SESSION: i32 = -120;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Changes,
    Reads,
}

#[derive(Debug)]
pub(crate) enum Failure {
    /// No response came. The client library may still send the request.
    Silence(Duration),
    Response(zk::Error),
}

impl Failure {
    pub(crate) fn is(&self, said: &zk::Error) -> bool {
        matches!(self, Self::Response(error) if error == said)
    }

    pub(crate) fn is_connection_error(&self) -> bool {
        matches!(self, Self::Response(zk::Error::ConnectionLoss | zk::Error::Custom(_)))
    }

    pub(crate) fn error(self, effect: Effect) -> Error {
        let cause = match self {
            Self::Silence(limit) => {
                return effect.unanswered(format!("the servers did not answer within {limit:?}"));
            }
            Self::Response(cause) => cause,
        };
        let made = match &cause {
            zk::Error::NoAuth => error(
                ErrorKind::Denied,
                "the servers deny access: the nodes belong to another login; use it, or another \
                 prefix",
            ),
            zk::Error::InvalidAcl => error(
                ErrorKind::Denied,
                "the servers reject a new node's ACL: the client has no login that they accept; check \
                 it, or set `Config::acls`",
            ),
            zk::Error::NoChildrenForEphemerals => error(
                ErrorKind::Conflict,
                "the prefix is a node of another program; use another prefix",
            ),
            zk::Error::QuotaExceeded => error(
                ErrorKind::Unavailable,
                "the quota of the locks' node is used up; raise it, or use another prefix",
            ),
            zk::Error::Throttled => {
                error(ErrorKind::Unavailable, "the servers are overloaded and reject requests")
            }
            zk::Error::NotReadOnly => {
                error(ErrorKind::Unavailable, "the server has no quorum and only answers reads")
            }
            zk::Error::Unimplemented => error(
                ErrorKind::Unsupported,
                "the servers are too old: ZooKeeper 3.5 or newer is needed",
            ),
            zk::Error::UnexpectedErrorCode(EPHEMERAL_ON_LOCAL_SESSION) => error(
                ErrorKind::Unsupported,
                "the servers reject ephemeral nodes in local sessions; set \
                 localSessionsUpgradingEnabled=true, or localSessionsEnabled=false",
            ),
            zk::Error::ConnectionLoss => effect.unanswered("the connection broke".to_owned()),
            zk::Error::SessionExpired | zk::Error::ClientClosed | zk::Error::SessionMoved => {
                effect.unanswered("the session ended".to_owned())
            }
            _ => effect.unanswered("the request failed".to_owned()),
        };
        made.with_source(cause)
    }
}

impl Effect {
    fn unanswered(self, what: String) -> Error {
        let outcome = "; the request may have been carried out, or may be";
        match self {
            Self::Changes => error(ErrorKind::Indeterminate, what + outcome),
            Self::Reads => error(ErrorKind::Unavailable, what),
        }
    }
}

/// The backend doesn't create a missing chroot: a mistyped one would look like an ensemble without
/// locks.
pub(crate) fn no_chroot(chroot: &str) -> Error {
    invalid(format!("the chroot of the URL, {chroot}, is not there; make that node first"))
}

pub(crate) fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message).with_backend(BACKEND)
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    error(ErrorKind::InvalidConfig, message)
}

pub(crate) fn if_present<T>(answer: Result<T, Failure>, effect: Effect) -> Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.is(&zk::Error::NoNode) => Ok(None),
        Err(failure) => Err(failure.error(effect)),
    }
}

/// Awaits the response. If dropped, the request may still be carried out.
pub(crate) async fn answer<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, zk::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(cause)) => Err(Failure::Response(cause)),
        Err(_) => Err(Failure::Silence(limit)),
    }
}
