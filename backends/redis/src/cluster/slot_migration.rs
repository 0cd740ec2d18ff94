//! Operations on holds while their slot moves to another node.
//!
//! The slot's keys leave one by one, and a script runs only if all its keys exist on one node. If a
//! key is missing, Redis 7.0 replies `TRYAGAIN`, and Redis up to 6.2 redirects from the old node.
//! Renewals and fast releases use only existing keys, so they work until the first of these leaves.
//! During the move, no lock is granted, transferred or broken. The client renews, releases and
//! inspects holds key by key: each key is on exactly one node, to which the old node redirects. The
//! lock's key alone decides an exclusive hold, so its changes are atomic.

use lockwright_core::{Claim, ErrorKind, LockName, Mode, ReleaseOutcome, Renewal, Result};
use redis::Value;

use crate::answer::{self, Found, read};
use crate::connection::command;
use crate::errors::{Effect, error};
use crate::keys::Keys;
use crate::renew::{Batch, renewals};
use crate::scripts;
use crate::servers::Servers;

/// A shared hold or permit is indeterminate until all its keys are on one node.
pub(crate) async fn renew(servers: &Servers, batch: &Batch) -> Vec<Renewal> {
    let mut all = Vec::new();
    for (keys, arguments) in batch.single_requests() {
        let arguments = arguments.each_ref().map(String::as_str);
        let call = scripts::RENEW.call(&keys, &arguments, Effect::Changes);
        let answer = servers.try_run(call).await;
        match answer.and_then(|answer| answer.map(|one| renewals(one, 1)).transpose()) {
            Ok(Some(one)) => all.extend(one),
            Ok(None) => all.push(Renewal::INDETERMINATE),
            Err(failure) => {
                tracing::debug!(%failure, "redis: a hold on the move could not be renewed");
                all.push(Renewal::INDETERMINATE);
            }
        }
    }
    all
}

/// Removes the token's record and wakes the waiters, in a task, because a node may be silent.
/// After a failure, waiters poll, and the record expires.
fn wake_waiters(servers: &Servers, claim: &Claim, keys: &Keys) {
    let forget = command(&["HDEL", keys.meta(), &claim.token.to_string()]);
    let publish = command(&["PUBLISH", &servers.wakeups().released, claim.name.as_str()]);
    let (runtime, servers) = (servers.runtime().clone(), servers.clone());
    let [meta, queue] = [keys.meta(), keys.queue()].map(str::to_owned);
    runtime.spawn(async move {
        let forgotten = servers.command(&meta, &forget, Effect::Changes);
        let published = servers.command(&queue, &publish, Effect::Changes);
        let _ = tokio::join!(forgotten, published);
    });
}

pub(crate) async fn end(
    servers: &Servers,
    claim: &Claim,
    keys: &Keys,
    tombstone_ms: u128,
) -> Result<ReleaseOutcome> {
    let (token, tombstone) = (claim.token.to_string(), keys.tombstone(claim.token));
    if tombstone_ms > 0 {
        // The tombstone is first, to refuse late duplicates even if a later command fails.
        let (fence, life) = (keys.fence(), tombstone_ms.to_string());
        servers.run(scripts::MOVING_MARK.call(&[fence], &[&life], Effect::Changes)).await?;
        let set_tombstone = command(&["SET", &tombstone, "released", "PX", &life]);
        servers.command(&tombstone, &set_tombstone, Effect::Changes).await?;
    }
    let leave = command(&["LREM", keys.queue(), "1", &token]);
    let left = servers.command(keys.queue(), &leave, Effect::Changes).await?;
    if matches!(left, Value::Int(1)) {
        wake_waiters(servers, claim, keys);
        return Ok(ReleaseOutcome::Released);
    }
    if claim.mode != Mode::Exclusive {
        return Err(error(
            ErrorKind::Unavailable,
            "the Cluster is moving the lock's slot to another node; its readers and permits can \
             be released when that is done",
        ));
    }
    let arguments = [&*token, &servers.wakeups().released, claim.name.as_str()];
    let lock = [keys.lock()];
    let release = scripts::MOVING_RELEASE.call(&lock, &arguments, Effect::Changes);
    servers.run(release).await.and_then(answer::released)
}

pub(crate) async fn inspect(servers: &Servers, name: &LockName, keys: &Keys) -> Result<Found> {
    let mut words = read_lock(servers, keys).await?;
    if matches!(&words[..], [Value::BulkString(word), ..] if word == b"shared") {
        words.extend(shared_holders(servers, keys).await?);
    }
    answer::found(name, Value::Array(words))
}

/// Reads the lock's key and the fence counter, again if the counter changed during the read.
async fn read_lock(servers: &Servers, keys: &Keys) -> Result<Vec<Value>> {
    const TRIES: usize = 10;

    let mut counter = read_counter(servers, keys).await?;
    for _ in 0..TRIES {
        let lock = [keys.lock()];
        let answer = servers.run(scripts::INSPECT.call(&lock, &[], Effect::Reads)).await?;
        let before = std::mem::replace(&mut counter, read_counter(servers, keys).await?);
        if counter == before {
            let mut words = read::<Vec<Vec<Value>>>(answer)?.pop().unwrap_or_default();
            if let Some(word) = words.get_mut(1) {
                *word = counter;
            }
            return Ok(words);
        }
    }
    Err(error(ErrorKind::Unavailable, "the holder changes too fast to be shown; try again"))
}

async fn read_counter(servers: &Servers, keys: &Keys) -> Result<Value> {
    let get = command(&["GET", keys.fence()]);
    servers.command(keys.fence(), &get, Effect::Reads).await
}

/// Returns the shared holders, without the time left, which needs the server's time.
async fn shared_holders(servers: &Servers, keys: &Keys) -> Result<Vec<Value>> {
    let all = command(&["ZRANGE", keys.holders(), "0", "-1"]);
    let tokens = servers.command(keys.holders(), &all, Effect::Reads).await;
    let tokens: Vec<String> = tokens.and_then(read)?;
    let mut words = Vec::with_capacity(6 * tokens.len());
    for token in tokens {
        let field = async |field: &str| {
            let get = command(&["HGET", keys.meta(), field]);
            servers.command(keys.meta(), &get, Effect::Reads).await
        };
        let (record, broken) = (field(&token).await?, field(&format!("broken:{token}")).await?);
        let record = read::<Option<String>>(record)?.unwrap_or_default();
        if let [mode, fence, _, identity] = record.splitn(4, ' ').collect::<Vec<_>>()[..] {
            words.extend([Value::Nil, text(&token), text(identity), text(fence), broken]);
            words.push(text(mode));
        }
    }
    Ok(words)
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}
