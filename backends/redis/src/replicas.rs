//! Waiting for replicas: a grant or renewal counts once enough replicas have acknowledged it.
//!
//! `WAIT` blocks a connection, so these requests have their own. If too few replicas acknowledge a
//! grant, the client releases it. Until the server confirms this, the client rejects new claims
//! with the same token, because the release could end a new grant.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Result};
use redis::{Cmd, RedisError, Value};

use crate::acquire::millis_rounded_up;
use crate::connection::{Link, Live, command};
use crate::errors::error;
use crate::scripts::{self, Call};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) limit: Duration,
}

impl Replicas {
    pub(crate) const DEFAULT_LIMIT: Duration = Duration::from_millis(100);

    pub(crate) fn wait(self) -> Cmd {
        command(&["WAIT", &self.count.to_string(), &millis_rounded_up(self.limit).to_string()])
    }
}

#[derive(Debug)]
struct TooFew(String);

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TooFew {}

pub(crate) fn are_too_few(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<TooFew>())
}

pub(crate) fn given_back(cause: &Error, kind: ErrorKind) -> Error {
    let message = std::error::Error::source(cause).map(ToString::to_string).unwrap_or_default();
    error(kind, format!("{message}; the lock was given back"))
}

impl Link {
    pub(crate) async fn run_and_wait(
        self: &Arc<Self>,
        live: &Arc<Live>,
        replicas: Replicas,
        call: Call<'_>,
    ) -> Result<Result<Value, RedisError>> {
        let answer = match self.ask_once(live, call).await? {
            Ok(answer) if did_something(&answer) => answer,
            answer => return Ok(answer),
        };
        // `WAIT` covers only its own connection's writes, so the script's connection sends it.
        let limit = self.shared.config.response_timeout + replicas.limit;
        let wait = replicas.wait();
        let mut connection = live.connection.clone();
        let asking = wait.query_async::<u32>(&mut connection);
        let is_acquire = call.is_of(&[&scripts::ACQUIRE, &scripts::SWAP]);
        let message = match self.within(live, limit, call.effect, asking).await {
            Ok(Ok(count)) if count >= replicas.count => return Ok(Ok(answer)),
            Ok(Ok(count)) => format!(
                "only {count} of {} replicas acknowledged within {:?}",
                replicas.count, replicas.limit
            ),
            Ok(Err(cause)) => format!("the server did not wait for its replicas ({cause})"),
            // The script has run, so the grant may exist.
            Err(_) if is_acquire => return Err(call.effect.timed_out(limit)),
            Err(silence) => silence.to_string(),
        };
        if !is_acquire {
            tracing::debug!(%message, "redis: a renewal that replicas may lack");
            return Ok(Ok(unsure(answer)));
        }
        Err(error(ErrorKind::Indeterminate, &*message).with_source(TooFew(message)))
    }
}

fn unsure(answer: Value) -> Value {
    let Value::Array(mut words) = answer else { return answer };
    for word in words.iter_mut().filter(|word| is_word(word, &["renewed"])) {
        *word = Value::BulkString(b"unsure".to_vec());
    }
    Value::Array(words)
}

fn did_something(answer: &Value) -> bool {
    let Value::Array(words) = answer else { return false };
    words.iter().any(|word| is_word(word, &["granted", "again", "renewed"]))
}

fn is_word(value: &Value, words: &[&str]) -> bool {
    matches!(value, Value::BulkString(text) if words.iter().any(|word| text == word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_without_a_change_needs_no_replica() {
        let words = |words: &[&str]| {
            Value::Array(
                words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect(),
            )
        };
        assert!(did_something(&words(&["granted", "1", "1"])));
        assert!(did_something(&words(&["gone", "renewed"])));
        assert_eq!(
            unsure(words(&["gone", "renewed", "broken"])),
            words(&["gone", "unsure", "broken"]),
            "what was lost is lost for certain"
        );
        for nothing in [words(&["busy", "5", "token"]), words(&["gone", "broken"]), Value::Nil] {
            assert!(!did_something(&nothing), "{nothing:?}");
        }
    }

    #[test]
    fn a_millisecond_is_the_least() {
        let replicas = Replicas { count: 2, limit: Duration::from_micros(1) };
        let packed = replicas.wait().get_packed_command();
        assert_eq!(
            packed, b"*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n1\r\n",
            "WAIT with 0 never times out"
        );
    }
}
