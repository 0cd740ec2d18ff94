use std::time::Duration;

use lockwright_core::{Error, ErrorKind};
use redis::RedisError;

use crate::{errors, tls};

pub(crate) fn silence(server: &str, limit: Duration) -> Error {
    // A server without TLS reads the handshake as an incomplete command, and sends nothing.
    Error::unavailable(format!(
        "{server} did not answer within {limit:?}; check that it is a Redis server, that it runs, \
         and that it uses TLS if the URL does"
    ))
}

pub(crate) fn copied(failure: &Error) -> Error {
    Error::new(failure.kind(), failure.message())
}

pub(crate) fn of(cause: &RedisError, server: &str) -> Error {
    let words = errors::own_words(cause);
    let handshake = || tls::refusal(&cause.to_string()).filter(|_| cause.is_io_error());
    let refusal = errors::refusal(cause).or_else(handshake);
    let (kind, message) = match (refusal, cause.kind()) {
        (Some((kind, what)), _) => (kind, format!("{server}: {what}{words}")),
        (None, redis::ErrorKind::InvalidClientConfig) => (
            ErrorKind::InvalidConfig,
            format!("the TLS settings in the URL of {server} can't be used{words}"),
        ),
        (None, redis::ErrorKind::Parse) => (
            ErrorKind::InvalidConfig,
            format!("{server} is not a Redis server; check the host and the port"),
        ),
        (None, redis::ErrorKind::RESP3NotSupported) => (
            ErrorKind::Unsupported,
            format!("{server} does not support RESP3; use Redis 6.0 or newer{words}"),
        ),
        (None, _) if cause.is_connection_refusal() => (
            ErrorKind::Unavailable,
            format!("{server} refuses connections; check that the server runs{words}"),
        ),
        (None, _) if cause.is_connection_dropped() => (
            ErrorKind::Unavailable,
            format!(
                "{server} closed the connection; if it requires TLS, use rediss instead of \
                 redis{words}"
            ),
        ),
        (None, _) => (ErrorKind::Unavailable, format!("can't connect to {server}{words}")),
    };
    Error::new(kind, message)
}
