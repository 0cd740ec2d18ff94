//! Notification of other clients' changes, through RESP3 client tracking of the holds that the
//! client renews, and of other libraries' locks for which it waits.
//!
//! Measured on Redis 7.0.15:
//!
//! - With `OPTIN`, the server tracks a command's keys only directly after `CLIENT CACHING YES`.
//! - With `NOLOOP`, a write by the same connection silently ends the tracking of its key. So a
//!   plain read follows each renewal.
//! - A report ends its key's tracking. The cause may be just a new TTL, or a full tracking table,
//!   so the client reads the key again.
//! - `FLUSHALL` is reported without keys, so the client reads all keys, as after a reconnect,
//!   because tracking ends with the connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, Weak};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{ErrorKind, Event, Mode, Renew, Renewal, RenewalOutcome, Result, Token};
use redis::{Cmd, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::connection::command;
use crate::errors::Effect;
use crate::scripts::Call;
use crate::servers::Servers;

/// Holds with a shorter TTL aren't tracked: their renewals detect a loss soon enough.
const SHORTEST_TTL: Duration = Duration::from_secs(3);

const LOOKED_AT_ONCE: usize = 100;

static CACHING: LazyLock<Cmd> = LazyLock::new(|| command(&["CLIENT", "CACHING", "YES"]));

pub(crate) fn turn_on() -> Cmd {
    command(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"])
}

#[derive(Debug, Default)]
pub(crate) struct Tracked {
    holds: Mutex<HashMap<String, Token>>,
    works: AtomicBool,
    checks: OnceLock<UnboundedSender<Option<Vec<String>>>>,
}

impl Tracked {
    pub(crate) fn note(&self, works: bool) {
        self.works.store(works, Ordering::Release);
        self.check(None);
    }

    pub(crate) fn works(&self) -> bool {
        self.works.load(Ordering::Acquire)
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
            // Each holder's change of a shared lock would be reported.
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
            self.check(Some(keys));
        }
    }

    pub(crate) fn forget(&self, key: &str, token: Token) {
        let mut holds = lock(&self.holds);
        if !holds.is_empty() && holds.get(key) == Some(&token) {
            holds.remove(key);
        }
    }

    /// Lets `watch` read and track `keys`, or the keys of all holds if `None`.
    pub(crate) fn check(&self, keys: Option<Vec<String>>) {
        if let Some(checks) = self.checks.get() {
            let _ = checks.send(keys);
        }
    }

    fn held(&self, keys: Option<Vec<String>>) -> Vec<String> {
        let holds = lock(&self.holds);
        match keys {
            Some(mut keys) => {
                keys.retain(|key| holds.contains_key(key));
                keys
            }
            None => holds.keys().cloned().collect(),
        }
    }

    fn changed_hands(&self, key: &str, value: &Value) -> Option<Token> {
        let mut holds = lock(&self.holds);
        let token = *holds.get(key)?;
        let ours = format!("lw1:{token}:");
        match value {
            Value::BulkString(value) if value.starts_with(ours.as_bytes()) => None,
            _ => holds.remove(key),
        }
    }
}

pub(crate) fn start(servers: &Arc<Servers>) {
    let (sender, checks) = unbounded_channel();
    if servers.wakeups().tracked.checks.set(sender).is_ok() {
        tokio::spawn(watch(Arc::downgrade(servers), checks));
    }
}

async fn watch(servers: Weak<Servers>, mut checks: UnboundedReceiver<Option<Vec<String>>>) {
    while let Some(keys) = checks.recv().await {
        let Some(servers) = servers.upgrade() else { return };
        let tracked = &servers.wakeups().tracked;
        let mut keys = if tracked.works() { tracked.held(keys) } else { Vec::new() };
        while !keys.is_empty() {
            // One task per chunk, so a frozen node doesn't delay the others.
            let others = keys.split_off(keys.len().min(LOOKED_AT_ONCE));
            tokio::spawn(look_at(Arc::downgrade(&servers), std::mem::replace(&mut keys, others)));
        }
    }
}

/// Reads keys, and sends `AtRisk` for holds that are gone. Retries keys without a reply (moving
/// slot, dead node) a few times, then leaves them to the next renewal.
async fn look_at(servers: Weak<Servers>, mut keys: Vec<String>) {
    const TRIES: u32 = 8;
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);

    let mut pause = Duration::from_millis(50);
    for _ in 0..TRIES {
        let Some(servers) = servers.upgrade() else { return };
        let mut unanswered = Vec::new();
        for together in servers.grouped(keys) {
            if !look_at_some(&servers, &together).await {
                unanswered.extend(together);
            }
        }
        let tracked = &servers.wakeups().tracked;
        keys = tracked.held(Some(unanswered));
        if keys.is_empty() || !tracked.works() {
            return;
        }
        drop(servers);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn look_at_some(servers: &Servers, keys: &[String]) -> bool {
    let Some(first) = keys.first() else { return true };
    let mut values = redis::cmd("MGET");
    values.arg(keys);
    let answer = track(servers, first, &values).await;
    let wakeups = servers.wakeups();
    let values = match answer {
        Ok(Some(Value::Array(values))) => values,
        Ok(_) => return false,
        Err(error) => {
            if error.kind() == ErrorKind::Denied {
                wakeups.tracked.works.store(false, Ordering::Release);
            }
            return false;
        }
    };
    for (key, value) in keys.iter().zip(&values) {
        if let Some(token) = wakeups.tracked.changed_hands(key, value) {
            wakeups.subscribers.send(&Event::AtRisk(token));
        }
    }
    true
}

async fn track(servers: &Servers, key: &str, command: &Cmd) -> Result<Option<Value>> {
    let call = Call::command(key, command, Effect::Reads);
    servers.try_run(Call { before: Some(&CACHING), ..call }).await
}

/// Tracks a lock. Returns whether it is held, or `None` if it can't be tracked.
pub(crate) async fn listen_for(servers: &Servers, lock: &str) -> Option<bool> {
    if !servers.wakeups().tracked.works() {
        return None;
    }
    let exists = command(&["EXISTS", lock]);
    match track(servers, lock, &exists).await {
        Ok(Some(Value::Int(number))) => Some(number > 0),
        _ => None,
    }
}
