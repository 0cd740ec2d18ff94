//! Whether a server's log restores the scripts' writes.
//!
//! A script's writes are logged as a transaction. On loading the log, Redis runs transactions with the rights
//! of the *default* user, and silently drops the ones that user may not run (measured with 7.0; redis/redis
//! issue 14541 and valkey-io/valkey issue 3983). With just `user default off`, that user has no rights, so
//! all locks are lost in a restart, however durable the log is.

use std::sync::Arc;

use lockwright_core::Result;
use redis::Value;

use crate::connection::{Link, Live};
use crate::errors::Effect;

/// The fate of a script's writes when the log is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    Restored,
    /// They may be dropped.
    Dropped,
    /// The user may not ask, or the server is too old.
    Unknown,
}

/// Queries the server.
pub(crate) async fn ask(link: &Arc<Link>, live: &Live) -> Result<Replay> {
    let config = link.config();
    if matches!(config.topology.user(), None | Some("default")) {
        // The default user is connected, and may run the scripts' commands.
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
