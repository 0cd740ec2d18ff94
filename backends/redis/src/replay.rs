//! Whether a server's log gives back what scripts wrote.
//!
//! What a script writes stands in the log as a transaction. Redis carries transactions out from its
//! log with the rights of the *default* user, whoever wrote them, and drops without a word those that
//! it may not do: measured with 7.0, reported as redis/redis issue 14541 and valkey-io/valkey issue
//! 3983. A configuration that says `user default off` and no more leaves that user without rights:
//! every lock of such a server is gone after a restart, however durable its log is.

use std::sync::Arc;

use lockwright_core::Result;
use redis::Value;

use crate::connection::{Link, Live};
use crate::errors::Effect;

/// What becomes of a script's writes when the log is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// They come back.
    Restored,
    /// They may be dropped.
    Dropped,
    /// The user may not ask, or the server is too old to be asked.
    Unknown,
}

/// Asks the server.
pub(crate) async fn ask(link: &Arc<Link>, live: &Live) -> Result<Replay> {
    let config = link.config();
    if matches!(config.topology.user(), None | Some("default")) {
        // It is who asks, and may do what the scripts do.
        return Ok(Replay::Restored);
    }
    let lock = format!("{}lockwright", config.key_prefix);
    let companion = format!("lockwright:{{{lock}}}:hold");
    for writes in [
        ["SET", &lock, "1", "PX", "1"].as_slice(),
        &["DEL", &lock, &companion],
        &["HSET", &companion, "token", "1"],
        &["PEXPIRE", &companion, "1"],
        &["HDEL", &companion, "token"],
        &["ZADD", &companion, "1", "token"],
        &["ZREM", &companion, "token"],
    ] {
        let mut may = redis::cmd("ACL");
        may.arg("DRYRUN").arg("default").arg(writes);
        match link.ask(live, None, &may, Effect::Reads).await? {
            Ok(Value::Okay) => {}
            Ok(_) => return Ok(Replay::Dropped),
            Err(cause) if cause.code().is_some() => return Ok(Replay::Unknown),
            Err(cause) => return Err(crate::errors::translate(cause, Effect::Reads)),
        }
    }
    Ok(Replay::Restored)
}
