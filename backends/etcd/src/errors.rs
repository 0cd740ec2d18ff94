use lockwright_core::{Error, ErrorKind};

use ErrorClass::{Elsewhere, Later, NoLease, Refused, Unsure};
use ErrorKind::{Denied, InvalidConfig, Unavailable};

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
    effect.unanswered(&format!("the server sent an unexpected response: {what}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The lease doesn't exist. The request had no effect.
    NoLease,
    /// No retry helps. The request had no effect, unless the error is `Indeterminate`.
    Refused,
    /// This member rejects the request without an effect. Another member may accept it.
    Elsewhere,
    /// This member rejects the request without an effect, and may accept it later.
    Later,
    /// The request may have been carried out.
    Unsure,
}

/// etcd's error messages. Without a kind, the request's `Effect` decides whether it may have had an
/// effect.
const REFUSALS: [(&str, ErrorClass, Option<ErrorKind>, &str); 19] = [
    (NO_LEASE, NoLease, Some(Unavailable), "the etcd lease expired during the request; retry"),
    ("permission denied", Refused, Some(Denied), NO_PERMISSION),
    // The provider may return the new password for a new connection.
    (
        "authentication failed, invalid user ID or password",
        Elsewhere,
        Some(Denied),
        "the server rejects the user name or password",
    ),
    (
        "authentication is not enabled",
        Refused,
        Some(InvalidConfig),
        "the URL has a login, but authentication is off on the server; remove the login, or run \
         'etcdctl auth enable'",
    ),
    (
        "user name is empty",
        Refused,
        Some(Denied),
        "the server requires a user and a password; add them to the URL",
    ),
    (
        "user name not found",
        Refused,
        Some(Denied),
        "the server has no such user; check the login in the URL",
    ),
    (
        "invalid auth token",
        Elsewhere,
        Some(Denied),
        "the authentication token has expired; the client is logging in again",
    ),
    ("auth store is old", Elsewhere, Some(Unavailable), "users or roles have just changed; retry"),
    (
        NO_SPACE,
        Refused,
        None,
        "the server's database is full (NOSPACE): compact it, defragment it, and disarm the alarm \
         ('etcdctl compact', 'etcdctl defrag', 'etcdctl alarm disarm')",
    ),
    (
        "request is too large",
        Refused,
        Some(Unavailable),
        "the request exceeds the server's limit (--max-request-bytes)",
    ),
    (
        TOO_LARGE,
        Refused,
        None,
        "the response is larger than 4 MiB and can't be read: another program holds the lock with \
         a value of that size",
    ),
    (
        COMPACTED,
        Refused,
        Some(Unavailable),
        "the cluster was compacted while a long queue was read; retry",
    ),
    (
        "too many operations in txn",
        Refused,
        Some(Unavailable),
        "the server's limit of operations per transaction is too low; set --max-txn-ops to its \
         default of 128",
    ),
    (
        "too many requests",
        Later,
        Some(Unavailable),
        "the cluster is overloaded and rejects new requests; retry later",
    ),
    (
        "no leader",
        Elsewhere,
        Some(Unavailable),
        "the cluster has no leader: an election is in progress, or most members are down or can't \
         reach each other",
    ),
    (
        "not supported for learner",
        Elsewhere,
        Some(Unavailable),
        "the member is a learner and serves no requests; use a voting member in the URL",
    ),
    ("server stopped", Unsure, None, "the server is shutting down"),
    ("leader changed", Unsure, None, "the cluster's leader changed during the request"),
    (
        "request timed out",
        Unsure,
        None,
        "the cluster didn't commit the request in time: its disks or its network are too slow, or \
         most of its members are down",
    ),
];

const NO_LEASE: &str = "lease not found";

/// etcd sends this error even for a request that it carries out, if the space ran out after it
/// accepted the request.
const NO_SPACE: &str = "database space exceeded";

const TOO_LARGE: &str = "message length too large";

const COMPACTED: &str = "revision has been compacted";

const NO_PERMISSION: &str = "the user lacks a permission: it needs to read and write all keys that \
                             begin with the prefix, which is 'lockwright/' unless the URL says \
                             prefix=…";

pub(crate) fn classify(cause: &etcd_client::Error, effect: Effect) -> (ErrorClass, Error) {
    let words = words(cause);
    let unknown = ("", Unsure, None, "the connection broke before the response");
    let found = REFUSALS.iter().find(|(says, ..)| words.contains(says));
    let (_, class, kind, means) = found.copied().unwrap_or(unknown);
    let failure = kind.map_or_else(|| effect.unanswered(means), |kind| error(kind, means));
    (class, failure.with_source(words))
}

pub(crate) fn is_granted_already(cause: &etcd_client::Error) -> bool {
    words(cause).contains("lease already exists")
}

pub(crate) fn is_lease_not_found(failure: &Error) -> bool {
    says(failure, NO_LEASE)
}

/// Returns whether the database is full. etcd then accepts only deletes.
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
    known.any(|(_, class, kind, _)| *class == Refused && kind.is_some())
}

/// Returns the error's text, never with a login, and its causes, which `etcd_client` leaves out.
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
