//! What goes on while a slot is moved to another node.
//!
//! Its keys leave one by one. Meanwhile a script runs nowhere unless all of its keys are on one node,
//! and of ours that is seldom so: the tombstone of a token isn't there as a rule. (Redis 7.0 answers
//! `TRYAGAIN` on the old node as long as some of a script's keys are there, and on the new one as
//! long as some aren't; up to 6.2 the old one sends all such scripts on.) A slot takes as long as its
//! keys do, and one whose move was broken off stays so until somebody mends it. So
//!
//! - nothing is granted or broken meanwhile: whoever asks waits;
//! - holds go on: renewing, releasing and looking are done key by key here. Each key is always on
//!   exactly one node, and the old one sends on what it hasn't any more, so the lock's own key, which
//!   alone decides who holds, is asked and changed as atomically as ever.

use std::sync::Arc;

use lockwright_core::{Claim, Ended, LockName, Reason, Renewal, Result};
use redis::{Cmd, FromRedisValue, Value};

use super::Cluster;
use crate::answer::{self, Found};
use crate::errors::{Effect, odd_answer};
use crate::keys::Keys;
use crate::scripts::{self, IDLE_FENCE, Script};

/// A hold whose slot is on the move.
pub(crate) struct Hold<'h> {
    pub(crate) keys: &'h Keys,
    pub(crate) ended: &'h str,
    pub(crate) token: &'h str,
}

impl Hold<'_> {
    /// Renews it: its lock first, and then what else should live as long.
    pub(crate) async fn renew(&self, cluster: &Arc<Cluster>, ttl: &str) -> Result<Renewal> {
        let Keys { lock, fence, hold, .. } = self.keys;
        let arguments = [self.token, ttl];
        let answer =
            one_key(cluster, &scripts::MOVING_RENEW, lock, &arguments, Effect::Changes).await?;
        let word =
            String::from_redis_value(answer).map_err(|cause| odd_answer(Effect::Changes, cause))?;
        match word.as_str() {
            "renewed" => {
                let idle = ttl.parse::<u128>().unwrap_or(0) + IDLE_FENCE.as_millis();
                // The hold is renewed all the same, also if these are on a node that is silent: so
                // nobody waits for them.
                for (key, life) in [(hold, ttl.to_owned()), (fence, idle.to_string())] {
                    let (cluster, key) = (Arc::clone(cluster), key.clone());
                    let runtime = cluster.runtime().clone();
                    runtime.spawn(async move {
                        let mut expire = redis::cmd("PEXPIRE");
                        expire.arg(&key).arg(life);
                        let _ = cluster.command(&key, None, &expire, Effect::Changes).await;
                    });
                }
                Ok(Renewal::RENEWED)
            }
            // Too few replicas have it.
            "unsure" => Ok(Renewal::INDETERMINATE),
            "broken" => Ok(Renewal::not_held(Reason::Broken)),
            _ => {
                let note =
                    cluster.command(self.ended, None, &get(self.ended), Effect::Reads).await?;
                let is_broken =
                    matches!(&note, Value::BulkString(note) if note.starts_with(b"broken"));
                let reason = if is_broken { Reason::Broken } else { Reason::Gone };
                Ok(Renewal::not_held(reason))
            }
        }
    }

    /// Ends it, or what may come of a claim that was never answered.
    pub(crate) async fn end(
        &self,
        cluster: &Arc<Cluster>,
        claim: &Claim,
        tombstone: u128,
    ) -> Result<Ended> {
        if tombstone > 0 {
            // First, so that a late duplicate of the acquire is refused whatever may fail below.
            let mut bury = redis::cmd("SET");
            bury.arg(self.ended).arg("released").arg("PX").arg(tombstone.to_string());
            cluster.command(self.ended, None, &bury, Effect::Changes).await?;
        }
        let arguments = [self.token, cluster.wakeups().released(), claim.name.as_str()];
        let lock = &self.keys.lock;
        let answer =
            one_key(cluster, &scripts::MOVING_RELEASE, lock, &arguments, Effect::Changes).await?;
        let ended = match answer {
            Value::Int(1) => Ended::Released,
            Value::Int(0) => return Ok(Ended::NotHeld),
            other => return Err(odd_answer(Effect::Changes, other)),
        };
        // It goes by itself otherwise.
        let (forget, hold) = (&scripts::MOVING_FORGET, &self.keys.hold);
        let _ = one_key(cluster, forget, hold, &[self.token], Effect::Changes).await;
        Ok(ended)
    }
}

/// Who holds a name whose slot is on the move.
pub(crate) async fn inspect(cluster: &Arc<Cluster>, name: &LockName, keys: &Keys) -> Result<Found> {
    let odd = |cause| odd_answer(Effect::Reads, cause);
    let answer = one_key(cluster, &scripts::MOVING_INSPECT, &keys.lock, &[], Effect::Reads).await?;
    let (value, left, kind): (Option<String>, i64, String) =
        FromRedisValue::from_redis_value(answer).map_err(odd)?;
    let fence = cluster.command(&keys.fence, None, &get(&keys.fence), Effect::Reads).await?;
    let mut about = redis::cmd("HMGET");
    about.arg(&keys.hold).arg(&["token", "identity", "fence", "broken"]);
    let about = cluster.command(&keys.hold, None, &about, Effect::Reads).await?;
    let about: Vec<Value> = FromRedisValue::from_redis_value(about).map_err(odd)?;
    let token: Option<String> =
        about.first().cloned().and_then(|token| String::from_redis_value(token).ok());
    // As `inspect.lua` says it.
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    let words = match (&value, token) {
        (None, _) if kind != "none" && kind != "string" => {
            vec![text("alien"), Value::Int(-1), fence, text(&kind)]
        }
        (None, _) => vec![text("free"), Value::Int(-1), fence],
        (Some(value), Some(token)) if *value == token || *value == format!("{token}:broken") => {
            [vec![text("held"), Value::Int(left), fence], about].concat()
        }
        (Some(_), _) => vec![text("foreign"), Value::Int(left), fence],
    };
    answer::found(name, Value::Array(words))
}

fn get(key: &str) -> Cmd {
    let mut get = redis::cmd("GET");
    get.arg(key);
    get
}

/// Runs a script of one key, which is always somewhere.
async fn one_key(
    cluster: &Arc<Cluster>,
    script: &Script,
    key: &str,
    arguments: &[&str],
    effect: Effect,
) -> Result<Value> {
    cluster.run(script, &[key], arguments, effect).await
}
