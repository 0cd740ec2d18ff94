use lockwright_core::{Error, ErrorKind};

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

#[derive(Debug)]
pub(crate) enum ErrorClass {
    /// The lease doesn't exist. The request had no effect.
    NoLease,
    /// No retry helps. The request had no effect, unless the error is indeterminate.
    Refused(Error),
    /// This member rejects the request, but another may accept it. Nothing was done.
    Elsewhere(Error),
    /// This member may accept the request later. Nothing was done.
    Later(Error),
    /// The request may have been carried out.
    Unsure(Error),
}

/// etcd's error messages, their meaning, and the text for the user. The request had no effect,
/// unless the meaning is `MaybeDone` or `Unsure`.
const REFUSALS: [(&str, Meaning, &str); 19] = [
    ("requested lease not found", Meaning::NoLease, ""),
    ("permission denied", Meaning::Refused(ErrorKind::Denied), NO_PERMISSION),
    (
        "authentication failed, invalid user ID or password",
        Meaning::Refused(ErrorKind::Denied),
        "the server rejects the user name or password",
    ),
    (
        "authentication is not enabled",
        Meaning::Refused(ErrorKind::InvalidConfig),
        "the URL has a login, but authentication is off on the server; remove the login, or run \
         'etcdctl auth enable'",
    ),
    (
        "user name is empty",
        Meaning::Refused(ErrorKind::Denied),
        "the server requires a user and a password; add them to the URL",
    ),
    (
        "user name not found",
        Meaning::Refused(ErrorKind::Denied),
        "the server has no such user; check the login in the URL",
    ),
    (
        "invalid auth token",
        Meaning::Elsewhere(ErrorKind::Denied),
        "the authentication token has expired; the client is logging in again",
    ),
    (
        "auth store is old",
        Meaning::Elsewhere(ErrorKind::Unavailable),
        "users or roles have just changed; retry",
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
        "the request exceeds the server's limit (--max-request-bytes)",
    ),
    (
        TOO_LARGE,
        Meaning::MaybeDone,
        "the response is larger than 4 MiB and can't be read: another program holds the lock with \
         a value of that size",
    ),
    (
        COMPACTED,
        Meaning::Refused(ErrorKind::Unavailable),
        "the cluster was compacted while a long queue was read; retry",
    ),
    (
        "too many operations in txn",
        Meaning::Refused(ErrorKind::Unavailable),
        "the server's limit of operations per transaction is too low; set --max-txn-ops to its \
         default of 128",
    ),
    (
        "too many requests",
        Meaning::Later(ErrorKind::Unavailable),
        "the cluster is overloaded and rejects new requests; retry later",
    ),
    (
        "no leader",
        Meaning::Elsewhere(ErrorKind::Unavailable),
        "the cluster has no leader: an election is in progress, or most members are down or can't \
         reach each other",
    ),
    (
        "not supported for learner",
        Meaning::Elsewhere(ErrorKind::Unavailable),
        "the member is a learner and serves no requests; use a voting member in the URL",
    ),
    ("server stopped", Meaning::Unsure, "the server is shutting down"),
    ("leader changed", Meaning::Unsure, "the cluster's leader changed during the request"),
    (
        "request timed out",
        Meaning::Unsure,
        "the cluster didn't commit the request in time: its disks or its network are too slow, or \
         most of its members are down",
    ),
];

/// etcd sends this error even for a request that it carries out, if the space ran out after etcd
/// accepted the request.
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
    MaybeDone,
    Unsure,
}

pub(crate) fn classify(cause: &etcd_client::Error, effect: Effect) -> ErrorClass {
    let words = words(cause);
    let unknown = match cause {
        etcd_client::Error::LeaseKeepAliveError(why) if why.contains("lease not found") => {
            ("", Meaning::NoLease, "")
        }
        _ => ("", Meaning::Unsure, "the connection broke before the response"),
    };
    let found = REFUSALS.iter().find(|(says, ..)| words.contains(says));
    let (_, meaning, means) = found.copied().unwrap_or(unknown);
    let failure = match meaning {
        Meaning::Refused(kind) | Meaning::Elsewhere(kind) | Meaning::Later(kind) => {
            error(kind, means)
        }
        Meaning::NoLease | Meaning::MaybeDone | Meaning::Unsure => effect.unanswered(means),
    };
    let failure = failure.with_source(words);
    match meaning {
        Meaning::NoLease => ErrorClass::NoLease,
        Meaning::Refused(_) | Meaning::MaybeDone => ErrorClass::Refused(failure),
        Meaning::Elsewhere(_) => ErrorClass::Elsewhere(failure),
        Meaning::Later(_) => ErrorClass::Later(failure),
        Meaning::Unsure => ErrorClass::Unsure(failure),
    }
}

pub(crate) fn is_granted_already(cause: &etcd_client::Error) -> bool {
    words(cause).contains("lease already exists")
}

/// Returns whether the database is full. etcd then accepts only requests that delete.
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

/// Returns the error's text with its causes, which `etcd_client` leaves out. The text never
/// contains a login.
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
