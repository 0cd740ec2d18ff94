//! Rejection of late writes to Redis.
//!
//! A [`FencedScript`] rejects the writes of a holder that was paused for longer than its TTL, once
//! a later holder has written.
//!
//! ```no_run
//! # async fn example(locks: lockwright_core::Locks) -> Result<(), Box<dyn std::error::Error>> {
//! use lockwright_redis::fencing::FencedScript;
//! use lockwright_redis::redis::Client;
//!
//! let write = FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])");
//! let guard = locks.mutex("orders/42").acquire().await?;
//! let mut connection = Client::open("redis://a/")?.get_multiplexed_async_connection().await?;
//! // Fails with `Lost`, and writes nothing, if a later holder has written.
//! let answer: String = write
//!     .invoke(&mut connection, "order:42:fence", &guard.fenced(), &["order:42"], &["paid"])
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! All writers of the data must use the same key for the fence, in a Cluster in the slot of the
//! other keys (`{order:42}:fence`). The fence may come from any backend.

use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, ErrorKind, Fence, Result};
use redis::aio::ConnectionLike;
use redis::{FromRedisValue, RedisError, Script, ToRedisArgs};

use crate::errors::{Effect, error, translate};

/// A user's script with a fence check. Reuse it, to send the text only once.
#[derive(Debug, Clone)]
pub struct FencedScript(Script);

impl FencedScript {
    /// Creates a script from Lua text, which sees only its own `KEYS` and `ARGV`.
    ///
    /// A shebang such as `#!lua flags=allow-oom` must allow writes.
    pub fn new(text: &str) -> Self {
        // The server accepts a shebang only at the very beginning.
        let (shebang, rest) = match text.split_once('\n') {
            Some((line, rest)) if line.starts_with("#!") => (line, rest),
            _ => ("", text),
        };
        let check = include_str!("scripts/fenced.lua");
        Self(Script::new(format!("{shebang}\n{check}\n{rest}").trim_start()))
    }

    /// Runs the script if no later holder has written, and records the fence under `key`.
    ///
    /// The same holder, and concurrent readers, whose fence is the same, may repeat the call. If
    /// the script fails midway, the fence is recorded, and earlier effects remain.
    ///
    /// # Errors
    /// - [`Lost`](ErrorKind::Lost) with [`Superseded`](lockwright_core::Reason::Superseded): a
    ///   later holder has written. Nothing was done.
    /// - [`Conflict`](ErrorKind::Conflict): the value under `key` isn't a fence, and nothing was
    ///   done. Or the script used a key of the wrong type.
    /// - [`InvalidInput`](ErrorKind::InvalidInput): the fence is above [`Fence::MAX`].
    /// - [`Denied`](ErrorKind::Denied), [`Unavailable`](ErrorKind::Unavailable): the server rejects
    ///   the request.
    /// - [`Indeterminate`](ErrorKind::Indeterminate): the script may have run, or failed midway
    ///   (the error's source has the script's message). Retry only if the script may run twice.
    ///
    /// # Cancel safety
    /// If the future is dropped, the script may have run, or may run later.
    pub async fn invoke<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
        key: impl ToRedisArgs,
        fenced: &Fenced,
        keys: &[impl ToRedisArgs],
        arguments: &[impl ToRedisArgs],
    ) -> Result<T> {
        let refused = |failure: Error| failure.with_name(&fenced.name).with_backend("redis");
        let fence = fenced.fence.checked().map_err(refused)?;
        let mut call = self.0.prepare_invoke();
        call.key(key).arg(fence.get());
        for key in keys {
            call.key(key);
        }
        for argument in arguments {
            call.arg(argument);
        }
        let answered = call.invoke_async(connection).await;
        answered.map_err(|cause| failed(cause, fenced))
    }
}

fn failed(cause: RedisError, fenced: &Fenced) -> Error {
    let failure = match cause.code() {
        Some("LOCKWRIGHTSUPERSEDED") => {
            let highest = cause.detail().and_then(|highest| highest.trim().parse().ok());
            fenced.superseded(Fence::new(highest.unwrap_or(u64::MAX))).with_backend("redis")
        }
        Some("LOCKWRIGHTNOFENCE") => error(
            ErrorKind::Conflict,
            "the fence's key doesn't contain a fence; use a key that no other program writes to",
        ),
        _ => translate(cause, Effect::Changes),
    };
    failure.with_name(&fenced.name)
}
