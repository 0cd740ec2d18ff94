//! The meaning of the client library's errors for a lock.

use lockwright_core::{Error, ErrorKind};

/// The effect of a request on the server. A request that only reads had none, whatever its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Changes,
    Reads,
}

impl Effect {
    pub(crate) fn unanswered(self, what: &str) -> Error {
        let (kind, outcome) = match self {
            Self::Changes => (ErrorKind::Indeterminate, "; the request may have been carried out"),
            Self::Reads => (ErrorKind::Unavailable, ""),
        };
        error(kind, format!("{what}{outcome}"))
    }
}

pub(crate) fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message).with_backend("etcd")
}

pub(crate) fn unexpected_response(effect: Effect, what: &str) -> Error {
    effect.unanswered(&format!("the server gave an answer that makes no sense: {what}"))
}

/// The consequence of a failed request.
#[derive(Debug)]
pub(crate) enum ErrorClass {
    /// The lease has ended, and nothing was done.
    NoLease,
    /// Refused, and would be again. The error's kind shows whether nothing was done.
    Refused(Error),
    /// Nothing was done. Another member may do it, or this one later.
    Elsewhere(Error),
    /// Nothing was done. This member may do it later.
    Later(Error),
    /// It may have been done. Another member can be asked.
    Unsure(Error),
}

/// The server's messages and their meanings. The server sends most of them before it proposes a request, or after
/// agreement, when all members reject it alike: then nothing was done.
const REFUSALS: [(&str, Meaning, &str); 19] = [
    ("requested lease not found", Meaning::NoLease, ""),
    ("permission denied", Meaning::Refused(ErrorKind::Denied), NO_PERMISSION),
    (
        "authentication failed, invalid user ID or password",
        Meaning::Refused(ErrorKind::Denied),
        "the server refuses the user name or password",
    ),
    (
        "authentication is not enabled",
        Meaning::Refused(ErrorKind::InvalidConfig),
        "the server has no users, and the URL names one: remove it, or have the server check it \
         ('etcdctl auth enable')",
    ),
    (
        "user name is empty",
        Meaning::Refused(ErrorKind::Denied),
        "the server wants a user and a password; put them into the URL",
    ),
    (
        "user name not found",
        Meaning::Refused(ErrorKind::Denied),
        "the server doesn't know the user",
    ),
    (
        "invalid auth token",
        Meaning::Elsewhere(ErrorKind::Denied),
        "the server no longer takes the login, which is being renewed",
    ),
    (
        "auth store is old",
        Meaning::Elsewhere(ErrorKind::Unavailable),
        "users or roles were changed just now",
    ),
    (
        NO_SPACE,
        Meaning::MaybeDone,
        "the server's database is full (NOSPACE): compact it, defragment it, and disarm the alarm \
         ('etcdctl compact', 'etcdctl defrag', 'etcdctl alarm disarm')",
    ),
    (
        "request is too large",
        Meaning::Refused(ErrorKind::Unavailable),
        "the request is larger than the server takes (--max-request-bytes)",
    ),
    (
        TOO_LARGE,
        Meaning::MaybeDone,
        "the answer is larger than 4 MiB and can't be read: who holds the lock isn't Lockwright, \
         and has a value of that size under its key",
    ),
    (
        COMPACTED,
        Meaning::Refused(ErrorKind::Unavailable),
        "the cluster is compacted faster than a long queue can be read; try again",
    ),
    (
        "too many operations in txn",
        Meaning::Refused(ErrorKind::Unavailable),
        "the server takes fewer operations in one request than are needed: let it take 128, which \
         is the default (--max-txn-ops)",
    ),
    (
        "too many requests",
        Meaning::Later(ErrorKind::Unavailable),
        "the cluster is overloaded: it takes no more requests until it has worked off what it has",
    ),
    (
        "no leader",
        Meaning::Elsewhere(ErrorKind::Unavailable),
        "the cluster has no leader: most of its members are down, or don't reach each other, or \
         it is just electing one",
    ),
    (
        "not supported for learner",
        Meaning::Elsewhere(ErrorKind::Unavailable),
        "the member is a learner, which answers for nobody: name a voting one in the URL",
    ),
    ("server stopped", Meaning::Unsure, "the server is being stopped"),
    ("leader changed", Meaning::Unsure, "the cluster changed its leader meanwhile"),
    (
        "request timed out",
        Meaning::Unsure,
        "the cluster didn't agree on the request in time: its disks or its network are too slow, \
         or most of its members are down",
    ),
];

/// Sent before a request is proposed, but also after a request was carried out, if the space ended in between.
const NO_SPACE: &str = "database space exceeded";

const TOO_LARGE: &str = "message length too large";

const COMPACTED: &str = "revision has been compacted";

const NO_PERMISSION: &str = "the user lacks a permission: it needs to read and write all keys that \
                             begin with the prefix, which is 'lockwright/' unless the URL says \
                             prefix=…";

#[derive(Debug, Clone, Copy)]
enum Meaning {
    NoLease,
    Refused(ErrorKind),
    Elsewhere(ErrorKind),
    Later(ErrorKind),
    /// Refused, or done despite the error. Other members answer the same.
    MaybeDone,
    Unsure,
}

pub(crate) fn classify(cause: &etcd_client::Error, effect: Effect) -> ErrorClass {
    let words = words(cause);
    let found = REFUSALS.iter().find(|(says, ..)| words.contains(says));
    match found {
        Some((_, Meaning::NoLease, _)) => ErrorClass::NoLease,
        Some((_, Meaning::Refused(kind), means)) => {
            ErrorClass::Refused(error(*kind, *means).with_source(words))
        }
        Some((_, Meaning::Elsewhere(kind), means)) => {
            ErrorClass::Elsewhere(error(*kind, *means).with_source(words))
        }
        Some((_, Meaning::Later(kind), means)) => {
            ErrorClass::Later(error(*kind, *means).with_source(words))
        }
        Some((_, Meaning::MaybeDone, means)) => {
            ErrorClass::Refused(effect.unanswered(means).with_source(words))
        }
        Some((_, Meaning::Unsure, means)) => {
            ErrorClass::Unsure(effect.unanswered(means).with_source(words))
        }
        None => match cause {
            // The library's own error: it sent nothing.
            etcd_client::Error::LeaseKeepAliveError(why) if why.contains("lease not found") => {
                ErrorClass::NoLease
            }
            _ => ErrorClass::Unsure(
                effect.unanswered("the connection broke before the answer came").with_source(words),
            ),
        },
    }
}

/// Returns whether an earlier request for the lease was carried out.
pub(crate) fn is_granted_already(cause: &etcd_client::Error) -> bool {
    words(cause).contains("lease already exists")
}

/// Returns whether the server's database is full. The server still carries out requests that only delete.
pub(crate) fn is_out_of_space(failure: &Error) -> bool {
    says(failure, NO_SPACE)
}

pub(crate) fn is_too_large(failure: &Error) -> bool {
    says(failure, TOO_LARGE)
}

pub(crate) fn is_compacted(failure: &Error) -> bool {
    says(failure, COMPACTED)
}

fn says(failure: &Error, words: &str) -> bool {
    std::error::Error::source(failure).is_some_and(|said| said.to_string().contains(words))
}

pub(crate) fn is_refusal(words: &str) -> bool {
    let mut known = REFUSALS.iter().filter(|(says, ..)| words.contains(says));
    known.any(|(_, meaning, _)| matches!(meaning, Meaning::Refused(_)))
}

/// Returns the message of the server or the system, with the causes that the library hides. It never contains a login.
pub(crate) fn words(cause: &etcd_client::Error) -> String {
    let (mut words, source): (String, Option<&dyn std::error::Error>) = match cause {
        etcd_client::Error::GRpcStatus(status) => {
            (status.message().to_owned(), std::error::Error::source(status))
        }
        etcd_client::Error::TransportError(error) => {
            (error.to_string(), std::error::Error::source(error))
        }
        other => (other.to_string(), None),
    };
    let mut source = source;
    while let Some(cause) = source {
        let text = cause.to_string();
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        source = cause.source();
    }
    words
}
