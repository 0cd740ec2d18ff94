use std::time::Duration;

use lockwright_core::{Error, ErrorKind};
use redis::{RedisError, ServerErrorKind};
use tokio::time::Instant;

/// A request's effect on data. Without a reply, a change is `Indeterminate`, and a read
/// `Unavailable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Changes,
    /// A change whose reply is useless after this time.
    ChangesBy(Instant),
    Reads,
}

impl Effect {
    /// Raises `limit` to at least 100 ms, which busy machines need.
    pub(crate) fn changes_within(limit: Duration) -> Self {
        const SHORTEST: Duration = Duration::from_millis(100);
        Self::ChangesBy(Instant::now() + limit.max(SHORTEST))
    }

    /// Returns how long to wait for the reply. If zero, the request must not be sent.
    pub(crate) fn limit(self, longest: Duration) -> Duration {
        match self {
            Self::ChangesBy(until) => until.saturating_duration_since(Instant::now()).min(longest),
            Self::Changes | Self::Reads => longest,
        }
    }

    fn unanswered(self, what: &str) -> Error {
        let (kind, outcome) = match self {
            Self::Changes | Self::ChangesBy(_) => {
                (ErrorKind::Indeterminate, "; the request may have been carried out")
            }
            Self::Reads => (ErrorKind::Unavailable, ""),
        };
        error(kind, format!("{what}{outcome}"))
    }

    pub(crate) fn timed_out(self, limit: Duration) -> Error {
        self.unanswered(&format!("the server did not answer within {limit:?}"))
    }
}

/// Returns an error of the backend `redis`. With Sentinel or a Cluster, the caller sets another.
pub(crate) fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message).with_backend("redis")
}

pub(crate) fn odd_answer(effect: Effect, what: impl std::fmt::Debug) -> Error {
    effect.unanswered(&format!("the server sent an unexpected reply: {what:?}"))
}

/// Error codes of requests without effect: a script ignores errors after its decisive write.
const REFUSALS: [(&str, ErrorKind, &str); 15] = [
    ("NOAUTH", ErrorKind::Denied, "the server requires a password; add it to the URL"),
    ("WRONGPASS", ErrorKind::Denied, "the server refuses the user name or password"),
    (
        "NOPERM",
        ErrorKind::Denied,
        "the user lacks a permission; it needs the lock's keys, the keys and channels under \
         lockwright:*, the commands EVAL, EVALSHA, SUBSCRIBE and SCAN, and those that scripts use: \
         TIME, GET, GETRANGE, MGET, SET, DEL, EXISTS, TYPE, PTTL, PEXPIRE, PEXPIREAT, HGET, \
         HMGET, HSET, HDEL, HEXISTS, ZADD, ZREM, ZRANGE, ZRANGEBYSCORE, ZSCORE, RPUSH, LPOP, \
         LPOS, LRANGE, LREM, PUBLISH",
    ),
    ("LOADING", ErrorKind::Unavailable, "the server is still loading its data"),
    (
        "BUSY",
        ErrorKind::Unavailable,
        "the server is busy with a long script of another client; try again later",
    ),
    ("READONLY", ErrorKind::Unavailable, "the server is a replica and can't lock; use its master"),
    ("MASTERDOWN", ErrorKind::Unavailable, "the server is a replica that has lost its master"),
    (
        "MISCONF",
        ErrorKind::Unavailable,
        "the server refuses writes because it can't persist them; see its log",
    ),
    ("OOM", ErrorKind::Unavailable, "the server's memory is full; raise maxmemory or remove data"),
    ("NOREPLICAS", ErrorKind::Unavailable, "the server has too few replicas to accept writes"),
    ("CLUSTERDOWN", ErrorKind::Unavailable, "the Cluster is down"),
    ("TRYAGAIN", ErrorKind::Unavailable, "the Cluster is moving the lock's slot"),
    ("MOVED", ErrorKind::InvalidConfig, IN_A_CLUSTER),
    ("ASK", ErrorKind::InvalidConfig, IN_A_CLUSTER),
    (
        "WRONGTYPE",
        ErrorKind::Conflict,
        "a key of the lock contains other data; use another name or a key prefix",
    ),
];

const IN_A_CLUSTER: &str =
    "the server is a node of a Cluster; connect to it by redis+cluster: or rediss+cluster:";

pub(crate) fn translate(cause: RedisError, effect: Effect) -> Error {
    if let Some((kind, message)) = refusal(&cause) {
        // The server's message may quote the missing permission.
        let names_it = kind == ErrorKind::Denied && cause.to_string().contains('\'');
        let words = if names_it { own_words(&cause) } else { String::new() };
        return error(kind, format!("{message}{words}")).with_source(cause.to_string());
    }
    let message = if cause.is_io_error() {
        "the connection broke before the reply arrived"
    } else {
        "the server could not carry out the request"
    };
    effect.unanswered(message).with_source(cause.to_string())
}

pub(crate) fn own_words(cause: &RedisError) -> String {
    let words = if cause.is_io_error() {
        cause.to_string()
    } else {
        cause.detail().unwrap_or_default().to_owned()
    };
    match words.lines().next().map(str::trim) {
        None | Some("") => String::new(),
        Some(line) => format!(" ({line})"),
    }
}

pub(crate) fn refusal(cause: &RedisError) -> Option<(ErrorKind, &'static str)> {
    if let Some(refused) = refused_database(cause) {
        return Some(refused);
    }
    if cause.kind() == redis::ErrorKind::AuthenticationFailed {
        let wanted = if cause.to_string().contains("NOAUTH") { "NOAUTH" } else { "WRONGPASS" };
        return find(wanted);
    }
    let code = cause.code()?;
    find(code).or_else(|| {
        let detail = cause.detail().filter(|_| code == "ERR")?;
        // From Redis 7.0 on, a denial inside a script has only the code `ERR`.
        let denials = ["The user executing the script can't", "ACL failure in script"];
        if denials.iter().any(|denial| detail.contains(denial)) {
            return find("NOPERM");
        }
        detail.split([' ', '-', ':']).find_map(find)
    })
}

/// The client library drops the error code of a refused `SELECT`.
fn refused_database(cause: &RedisError) -> Option<(ErrorKind, &'static str)> {
    if !cause.to_string().contains("refused to switch database") {
        return None;
    }
    let detail = cause.detail().unwrap_or_default();
    if detail.contains("permission") {
        let problem = "the user may not select a database; grant +select, or omit the database \
                       from the URL";
        Some((ErrorKind::Denied, problem))
    } else if detail.contains("cluster") {
        find("MOVED")
    } else if detail.contains("range") || detail.contains("invalid") {
        let problem = "the server has no database with the number in the URL; use a lower one, or \
                       raise the server's setting 'databases'";
        Some((ErrorKind::InvalidConfig, problem))
    } else {
        None
    }
}

fn find(code: &str) -> Option<(ErrorKind, &'static str)> {
    REFUSALS.iter().find(|(known, ..)| *known == code).map(|(_, kind, message)| (*kind, *message))
}

pub(crate) fn lacks_script(cause: &RedisError) -> bool {
    cause.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript)
}

pub(crate) fn needs_reconnect(cause: &RedisError) -> bool {
    let says_so = |word: &str| matches!(word, "READONLY" | "MASTERDOWN");
    match cause.code() {
        // Up to Redis 6.2, an error inside a script is an `ERR` that quotes the real error.
        Some("ERR") => {
            cause.detail().is_some_and(|detail| detail.split([' ', '-', ':']).any(says_so))
        }
        code => code.is_some_and(says_so),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> RedisError {
        let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        answer.extract_error().unwrap_err()
    }

    #[test]
    fn a_replica_is_known_by_what_it_says_up_to_6_2_too() {
        for line in [
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "ERR Error running script (call to f_1234): @user_script:88: @user_script: 88: \
             -READONLY You can't write against a read only replica. ",
        ] {
            let cause = said(line);
            assert!(needs_reconnect(&cause), "{cause}");
            assert_eq!(refusal(&cause).map(|(kind, _)| kind), Some(ErrorKind::Unavailable));
        }
        for line in ["ERR unknown command 'READONLYISH'", "OOM command not allowed"] {
            assert!(!needs_reconnect(&said(line)), "{line}");
        }
    }
}
