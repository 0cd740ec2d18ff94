//! Refusing late writes to Redis.
//!
//! A holder that was stopped for longer than its TTL goes on to write what somebody else has changed since.
//! A [`FencedScript`] refuses that where what is protected stands in a Redis, be it the one with the locks or
//! another one: the user's own script runs only if no later holder has been there before.
//!
//! ```no_run
//! # async fn example(locks: lockwright_core::Locks) -> Result<(), Box<dyn std::error::Error>> {
//! use lockwright_redis::fencing::FencedScript;
//! use lockwright_redis::redis::Client;
//!
//! let write = FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])");
//! let guard = locks.mutex("orders/42").acquire().await?;
//! let mut connection = Client::open("redis://a/")?.get_multiplexed_async_connection().await?;
//! // Lost: a later holder has written, and nothing was done.
//! let answer: String = write
//!     .invoke(&mut connection, "order:42:fence", &guard.fenced(), &["order:42"], &["paid"])
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The highest fence stands under a key of the user's choice, in decimal. Who writes to the same things must
//! use the same key, and nobody may write to them without. Both happen in one script, which the server runs
//! while nothing else is. In a Cluster, the key of the fence must be in the slot of the others
//! (`{order:42}:fence`). Fences of every backend will do.

use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, ErrorKind, Fence, Result};
use redis::aio::ConnectionLike;
use redis::{FromRedisValue, RedisError, Script, ToRedisArgs};

use crate::errors::{Effect, error, translate};

/// A script of the user's that runs only if no later holder has been there. Make one and keep it: the server
/// is sent its text once.
#[derive(Debug, Clone)]
pub struct FencedScript(Script);

impl FencedScript {
    /// Of this Lua, which sees its own keys and arguments only, as `KEYS` and `ARGV`.
    ///
    /// The script may begin with a line such as `#!lua flags=allow-oom`. The flags must allow writes, because
    /// the fence is written.
    pub fn new(text: &str) -> Self {
        // The server accepts a shebang line only at the very beginning.
        let (shebang, rest) = match text.split_once('\n') {
            Some((line, rest)) if line.starts_with("#!") => (line, rest),
            _ => ("", text),
        };
        let check = include_str!("scripts/fenced.lua");
        Self(Script::new(format!("{shebang}\n{check}\n{rest}").trim_start()))
    }

    /// Runs it if no later holder has been there, and notes the fence under `key`.
    ///
    /// The same holder may run it again and again, and so may readers beside each other, who share a fence.
    /// The fence is noted first: what the script did before it failed, it did.
    ///
    /// # Errors
    /// - [`Lost`](ErrorKind::Lost) with [`Superseded`](lockwright_core::Reason::Superseded): a later holder
    ///   was there. Nothing was done.
    /// - [`Conflict`](ErrorKind::Conflict): what stands under `key` is no fence; nothing was done. Or the
    ///   script met a key of another type than it wanted.
    /// - [`InvalidInput`](ErrorKind::InvalidInput): the fence is above [`Fence::MAX`].
    /// - [`Denied`](ErrorKind::Denied), [`Unavailable`](ErrorKind::Unavailable): the server refuses, or can't
    ///   serve now.
    /// - [`Indeterminate`](ErrorKind::Indeterminate): it isn't known whether it was done, or the script failed
    ///   in the middle, with its own words as the source. It may be run again with the same fence, if that
    ///   may happen twice.
    ///
    /// # Cancel safety
    /// If it is dropped, it may have run, or may later.
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
            "what stands under the key of the fence is none; take a key that nothing else writes to",
        ),
        _ => translate(cause, Effect::Changes),
    };
    failure.with_name(&fenced.name)
}
