//! Notification of other clients' changes, through RESP3 client tracking. The client tracks the
//! holds that it renews, and other libraries' locks for which it waits.
//!
//! Measured on Redis 7.0.15:
//!
//! - With `OPTIN`, the server tracks a command's keys if `CLIENT CACHING YES` directly precedes the
//!   command.
//! - With `NOLOOP`, a write by the same connection silently ends the tracking of its key. So a
//!   plain read follows each renewal.
//! - A report ends its key's tracking, and may only mean a new TTL, or that the server's tracking
//!   table is full. So the client reads a reported key again.
//! - `FLUSHALL` is reported without keys.
//!
//! Tracking ends with the connection. After a reconnect, the client reads the keys of all holds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{ErrorKind, Event, LockName, Mode, Renew, Renewal, RenewalOutcome, Token};
use redis::{Cmd, FromRedisValue, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::connection::command;
use crate::errors::Effect;
use crate::servers::{Servers, WeakServers};

/// Holds with a shorter TTL aren't tracked: their renewals detect a loss soon enough.
const SHORTEST_TTL: Duration = Duration::from_secs(3);

const LOOKED_AT_ONCE: usize = 100;

static CACHING: LazyLock<Cmd> = LazyLock::new(|| command(&["CLIENT", "CACHING", "YES"]));

pub(crate) fn turn_on() -> Cmd {
    command(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"])
}

#[derive(Debug)]
enum Changed {
    Keys(Vec<String>),
    Flushed,
    Reconnected,
    Renewed(Vec<String>),
}

#[derive(Debug, Default)]
pub(crate) struct Tracked {
    holds: Mutex<HashMap<String, Token>>,
    works: AtomicBool,
    changed: OnceLock<UnboundedSender<Changed>>,
}

impl Tracked {
    pub(crate) fn note(&self, works: bool) {
        self.works.store(works, Ordering::Release);
        self.notify(Changed::Reconnected);
    }

    pub(crate) fn works(&self) -> bool {
        self.works.load(Ordering::Acquire)
    }

    pub(crate) fn receive(&self, push: &[Value]) {
        match push {
            [Value::Array(keys)] => self.notify(Changed::Keys(
                keys.iter().filter_map(|key| String::from_redis_value(key.clone()).ok()).collect(),
            )),
            _ => self.notify(Changed::Flushed),
        }
    }

    pub(crate) fn renewed(&self, key_prefix: &str, holds: &[Renew<'_>], renewals: &[Renewal]) {
        if !self.works() {
            return;
        }
        let is_renewed =
            |renewal: &Renewal| matches!(renewal.outcome, RenewalOutcome::Renewed { .. });
        let mut keys = Vec::new();
        let mut known = lock(&self.holds);
        for (Renew { claim, .. }, renewal) in holds.iter().zip(renewals) {
            // A shared lock isn't tracked, because each holder changes its key.
            if claim.mode != Mode::Exclusive {
                continue;
            }
            let key = [key_prefix, claim.name.as_str()].concat();
            if is_renewed(renewal) && claim.ttl >= SHORTEST_TTL {
                match known.get_mut(&key) {
                    Some(token) => *token = claim.token,
                    None => drop(known.insert(key.clone(), claim.token)),
                }
                keys.push(key);
            } else if !known.is_empty() {
                known.remove(&key);
            }
        }
        drop(known);
        if !keys.is_empty() {
            self.notify(Changed::Renewed(keys));
        }
    }

    pub(crate) fn forget(&self, key: &str, token: Token) {
        let mut holds = lock(&self.holds);
        if !holds.is_empty() && holds.get(key) == Some(&token) {
            holds.remove(key);
        }
    }

    fn notify(&self, changed: Changed) {
        if let Some(to) = self.changed.get() {
            let _ = to.send(changed);
        }
    }

    fn all(&self) -> Vec<String> {
        lock(&self.holds).keys().cloned().collect()
    }

    fn held(&self, keys: &[String]) -> Vec<String> {
        let holds = lock(&self.holds);
        keys.iter().filter(|key| holds.contains_key(*key)).cloned().collect()
    }

    fn changed_hands(&self, key: &str, value: &Value) -> Option<Token> {
        let mut holds = lock(&self.holds);
        let token = *holds.get(key)?;
        let ours = format!("lw1:{token}:");
        let is_ours =
            matches!(value, Value::BulkString(value) if value.starts_with(ours.as_bytes()));
        if is_ours {
            return None;
        }
        holds.remove(key)
    }
}

pub(crate) fn start(servers: &Servers) {
    let (sender, changes) = unbounded_channel();
    if servers.wakeups().tracked().changed.set(sender).is_ok() {
        tokio::spawn(watch(servers.downgrade(), changes));
    }
}

async fn watch(servers: WeakServers, mut changes: UnboundedReceiver<Changed>) {
    while let Some(changed) = changes.recv().await {
        let Some(servers) = servers.upgrade() else { return };
        let wakeups = servers.wakeups();
        let tracked = wakeups.tracked();
        let keys = match changed {
            Changed::Keys(keys) => {
                for key in &keys {
                    let name = key.strip_prefix(servers.config().key_prefix.as_str());
                    if let Some(name) = name.and_then(|name| LockName::new(name).ok()) {
                        wakeups.subscribers().wake(&name);
                    }
                }
                tracked.held(&keys)
            }
            Changed::Flushed => {
                wakeups.subscribers().wake_all();
                tracked.all()
            }
            Changed::Reconnected => tracked.all(),
            Changed::Renewed(keys) => keys,
        };
        if !tracked.works() {
            continue;
        }
        let mut keys = keys.into_iter().peekable();
        while keys.peek().is_some() {
            // One task per chunk, so that a frozen node doesn't delay other chunks.
            let chunk = keys.by_ref().take(LOOKED_AT_ONCE).collect();
            tokio::spawn(look_at(servers.downgrade(), chunk));
        }
    }
}

/// Reads keys, and sends `AtRisk` for holds that are gone. Keys without a reply (moving slot, dead
/// node) are retried a few times, then left to the next renewal.
async fn look_at(servers: WeakServers, keys: Vec<String>) {
    const TRIES: u32 = 8;
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);

    let mut pause = Duration::from_millis(50);
    let mut keys = keys;
    for _ in 0..TRIES {
        let Some(servers) = servers.upgrade() else { return };
        let mut unanswered = Vec::new();
        for together in servers.grouped(keys) {
            if !look_at_some(&servers, &together).await {
                unanswered.extend(together);
            }
        }
        let tracked = servers.wakeups().tracked();
        keys = tracked.held(&unanswered);
        if keys.is_empty() || !tracked.works() {
            return;
        }
        drop(servers);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads and tracks keys. Returns false if that fails.
async fn look_at_some(servers: &Servers, keys: &[String]) -> bool {
    let Some(first) = keys.first() else { return true };
    let mut values = redis::cmd("MGET");
    values.arg(keys);
    let answer = servers.command(first, Some(&CACHING), &values, Effect::Reads).await;
    let wakeups = servers.wakeups();
    let values = match answer {
        Ok(Value::Array(values)) => values,
        Ok(_) => return false,
        Err(error) => {
            if error.kind() == ErrorKind::Denied {
                wakeups.tracked().works.store(false, Ordering::Release);
            }
            return false;
        }
    };
    for (key, value) in keys.iter().zip(&values) {
        if let Some(token) = wakeups.tracked().changed_hands(key, value) {
            wakeups.subscribers().send(&Event::AtRisk(token));
        }
    }
    true
}

/// Tracks a lock. Returns whether it is held, or `None` if it can't be tracked.
pub(crate) async fn listen_for(servers: &Servers, lock: &str) -> Option<bool> {
    if !servers.wakeups().tracked().works() {
        return None;
    }
    let exists = command(&["EXISTS", lock]);
    match servers.command(lock, Some(&CACHING), &exists, Effect::Reads).await {
        Ok(Value::Int(number)) => Some(number > 0),
        _ => None,
    }
}
