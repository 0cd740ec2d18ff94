//! Connection failures, described for users.

use std::time::Duration;

use lockwright_core::ErrorKind;
use redis::RedisError;

use crate::{errors, tls};

/// A connection failure that several callers can share.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unavailable, message: message.into() }
    }

    pub(crate) fn silence(server: &str, limit: Duration) -> Self {
        // A server without TLS takes the handshake for an incomplete command.
        Self::unavailable(format!(
            "{server} did not answer within {limit:?}; is it a Redis, does it run, and does it \
             speak TLS if it is meant to?"
        ))
    }

    pub(crate) fn of(cause: &RedisError, server: &str) -> Self {
        let words = errors::own_words(cause);
        let handshake = || tls::refusal(&cause.to_string()).filter(|_| cause.is_io_error());
        let refusal = errors::refusal(cause).or_else(handshake);
        let (kind, message) = match (refusal, cause.kind()) {
            (Some((kind, what)), _) => (kind, format!("{server}: {what}{words}")),
            (None, redis::ErrorKind::InvalidClientConfig) => (
                ErrorKind::InvalidConfig,
                format!("TLS can't be used as the URL of {server} says{words}"),
            ),
            (None, redis::ErrorKind::Parse) => (
                ErrorKind::InvalidConfig,
                format!("what answers at {server} is not a Redis; check the host and the port"),
            ),
            (None, redis::ErrorKind::RESP3NotSupported) => (
                ErrorKind::Unsupported,
                format!("{server} does not speak RESP3; Redis 6.0 or newer is needed{words}"),
            ),
            (None, _) if cause.is_connection_refusal() => (
                ErrorKind::Unavailable,
                format!("{server} refuses connections; does the server run?{words}"),
            ),
            (None, _) if cause.is_connection_dropped() => (
                ErrorKind::Unavailable,
                format!("{server} hangs up; if it speaks TLS only, write rediss for redis{words}"),
            ),
            (None, _) => (ErrorKind::Unavailable, format!("can't connect to {server}{words}")),
        };
        Self { kind, message }
    }
}
