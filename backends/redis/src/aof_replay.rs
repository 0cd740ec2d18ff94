//! A check that a server's log (append-only file) restores the scripts' writes.
//!
//! When Redis loads its log, it silently skips scripted commands that the *default* user may not
//! run (measured with 7.0; redis/redis issue 14541, valkey-io/valkey issue 3983).

use std::sync::Arc;

use lockwright_core::Result;
use redis::Value;

use crate::connection::{Link, Live, command};
use crate::errors::Effect;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    Restored,
    Dropped,
    Unknown,
}

pub(crate) async fn ask(link: &Arc<Link>, live: &Arc<Live>) -> Result<Replay> {
    let config = &link.shared.config;
    if matches!(live.user.as_deref(), None | Some("default")) {
        return Ok(Replay::Restored);
    }
    let lock = format!("{}lockwright", config.key_prefix);
    let companion = format!("lockwright:{{{lock}}}:meta");
    for writes in [
        ["SET", &lock, "1", "PX", "1"].as_slice(),
        &["INCR", &companion],
        &["DEL", &lock, &companion],
        &["HSET", &companion, "token", "1"],
        &["PEXPIREAT", &companion, "1"],
        &["HDEL", &companion, "token"],
        &["ZADD", &companion, "1", "token"],
        &["ZREM", &companion, "token"],
        &["RPUSH", &companion, "token"],
        &["LPOP", &companion],
        &["LREM", &companion, "1", "token"],
    ] {
        let may = command(&[&["ACL", "DRYRUN", "default"], writes].concat());
        match link.ask(live, None, &may, Effect::Reads).await? {
            Ok(Value::Okay) => {}
            Ok(_) => return Ok(Replay::Dropped),
            Err(cause) if cause.code().is_some() => return Ok(Replay::Unknown),
            Err(cause) => return Err(crate::errors::translate(cause, Effect::Reads)),
        }
    }
    Ok(Replay::Restored)
}
