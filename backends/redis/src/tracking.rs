//! Hearing of what others do to our keys: RESP3 client tracking.
//!
//! Others that lock with `SET NX PX` tell nobody when they let go, and whoever deletes or overwrites
//! the key of a hold of ours doesn't either. But a server tells a connection when a key changes that
//! it read and asked to be told of, on the connection that we have anyway. It is used for
//!
//! - a lock that somebody waits for and a stranger holds: its waiters are woken when it goes, and
//!   needn't ask often;
//! - holds that were renewed: when their key changes by another hand, core is told that they are at
//!   risk, renews at once, and learns of the loss long before the next renewal would be due.
//!
//! Locks without contention that are released before their first renewal cost nothing more.
//!
//! Measured on Redis 7.0.15, and what follows from it:
//!
//! - With `OPTIN`, a command is tracked that comes right behind `CLIENT CACHING YES`, in one piece.
//!   Of a script all declared keys are tracked as soon as it reads any; undeclared ones never.
//! - A write by the same connection ends the tracking of its key, in a script too, and with `NOLOOP`
//!   says nothing. So a renewal can't track what it renews: a plain read follows it, behind its
//!   answer.
//! - Each change is told once. What was told of is looked at, by a read that tracks again, and only
//!   if it has really changed hands does anybody hear: the server also tells when its table of
//!   tracked keys is full, and when somebody merely gives a key another TTL.
//! - `FLUSHALL` tells of all keys without naming them. A key that expires is told of when the server
//!   removes it, which may be a little later.
//!
//! Like any wake-up it is a hint, and gone with the connection: on each new one, holds are looked at
//! and waiters woken. A server or user that doesn't permit tracking costs a slower reaction, and the
//! doctor says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lockwright_core::{
    ErrorKind, Event, LockName, Mode, Renew, Renewal, RenewalOutcome, Result, Token,
};
use redis::{Cmd, FromRedisValue, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::errors::Effect;
use crate::servers::{Servers, WeakServers};

/// Holds with a shorter TTL are renewed so often that being told early saves nothing.
const SHORTEST_TTL: Duration = Duration::from_secs(3);

/// Keys that are looked at by one command.
const LOOKED_AT_ONCE: usize = 100;

static CACHING: LazyLock<Cmd> = LazyLock::new(|| {
    let mut caching = redis::cmd("CLIENT");
    caching.arg("CACHING").arg("YES");
    caching
});

/// What each new connection begins with.
pub(crate) fn turn_on() -> Cmd {
    let mut tracking = redis::cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON").arg("OPTIN").arg("NOLOOP");
    tracking
}

/// What is to be looked at.
#[derive(Debug)]
enum Changed {
    /// These keys were told of.
    Keys(Vec<String>),
    /// All keys were told of.
    Flushed,
    /// Any may have changed while nobody could tell.
    Reconnected,
    /// These holds were renewed: from here on they are tracked.
    Renewed(Vec<String>),
}

/// What is tracked.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// The tokens of holds, by the keys of their locks.
    holds: Mutex<HashMap<String, Token>>,
    works: AtomicBool,
    /// To whoever looks at it; a node of a quorum has none.
    changed: OnceLock<UnboundedSender<Changed>>,
}

impl Tracked {
    /// Notes whether a new connection tracks.
    pub(crate) fn note(&self, works: bool) {
        self.works.store(works, Ordering::Release);
        self.tell(Changed::Reconnected);
    }

    /// Whether connections track.
    pub(crate) fn works(&self) -> bool {
        self.works.load(Ordering::Acquire)
    }

    /// Takes what a server told of: some keys, or all of them.
    pub(crate) fn receive(&self, told: &[Value]) {
        match told {
            [Value::Array(keys)] => self.tell(Changed::Keys(
                keys.iter().filter_map(|key| String::from_redis_value(key.clone()).ok()).collect(),
            )),
            _ => self.tell(Changed::Flushed),
        }
    }

    /// From here on these holds are tracked, each one that was renewed.
    pub(crate) fn renewed(&self, key_prefix: &str, holds: &[Renew<'_>], renewals: &[Renewal]) {
        if !self.works() {
            return;
        }
        let is_renewed =
            |renewal: &Renewal| matches!(renewal.outcome, RenewalOutcome::Renewed { .. });
        let mut keys = Vec::new();
        let mut known = self.holds();
        for (Renew { claim, .. }, renewal) in holds.iter().zip(renewals) {
            // The key of those beside each other changes with each that comes and goes.
            if claim.mode != Mode::Exclusive {
                continue;
            }
            let key = format!("{key_prefix}{}", claim.name);
            if is_renewed(renewal) && claim.ttl >= SHORTEST_TTL {
                known.insert(key.clone(), claim.token);
                keys.push(key);
            } else if !known.is_empty() {
                known.remove(&key);
            }
        }
        drop(known);
        if !keys.is_empty() {
            self.tell(Changed::Renewed(keys));
        }
    }

    /// The hold is over.
    pub(crate) fn forget(&self, lock: &str, token: Token) {
        let mut holds = self.holds();
        if !holds.is_empty() && holds.get(lock) == Some(&token) {
            holds.remove(lock);
        }
    }

    fn tell(&self, changed: Changed) {
        if let Some(to) = self.changed.get() {
            let _ = to.send(changed);
        }
    }

    fn holds(&self) -> MutexGuard<'_, HashMap<String, Token>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<String> {
        self.holds().keys().cloned().collect()
    }

    /// Those of the keys that belong to holds.
    fn held(&self, keys: &[String]) -> Vec<String> {
        let holds = self.holds();
        keys.iter().filter(|key| holds.contains_key(*key)).cloned().collect()
    }

    /// The token of the hold of this key, if something else stands there: it isn't tracked then.
    fn changed_hands(&self, key: &str, value: &Value) -> Option<Token> {
        let mut holds = self.holds();
        let token = *holds.get(key)?;
        let is_ours =
            matches!(value, Value::BulkString(value) if *value == token.to_string().as_bytes());
        if is_ours {
            return None;
        }
        holds.remove(key)
    }
}

/// From here on what changed is looked at, until the backend is dropped.
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
                        wakeups.audience().wake(&name);
                    }
                }
                tracked.held(&keys)
            }
            Changed::Flushed => {
                wakeups.audience().wake_all();
                tracked.all()
            }
            Changed::Reconnected => tracked.all(),
            Changed::Renewed(keys) => keys,
        };
        if !tracked.works() {
            continue;
        }
        for keys in keys.chunks(LOOKED_AT_ONCE) {
            // Side by side: a node that is frozen must not hold up what others tell.
            tokio::spawn(look_at(servers.downgrade(), keys.to_vec()));
        }
    }
}

/// Looks at holds, tracks them, and tells of those that have changed hands. What gives no answer, as
/// its slot is on the move or its node is dead, is tried again a few times. After that the next
/// renewal does it.
async fn look_at(servers: WeakServers, keys: Vec<String>) {
    const TRIES: u32 = 8;
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);

    let mut pause = Duration::from_millis(50);
    let mut keys = keys;
    for _ in 0..TRIES {
        let Some(servers) = servers.upgrade() else { return };
        let mut unanswered = Vec::new();
        for together in servers.grouped(&keys) {
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

/// Looks at holds of one slot. False if they can't be tracked now.
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
            wakeups.audience().send(&Event::AtRisk(token));
        }
    }
    true
}

/// From here on its waiters hear of it when somebody else's lock goes. `None` if they won't; false
/// if it has gone already.
pub(crate) async fn listen_for(servers: &Servers, lock: &str) -> Option<bool> {
    if !servers.wakeups().tracked().works() {
        return None;
    }
    let mut exists = redis::cmd("EXISTS");
    exists.arg(lock);
    let answer: Result<Value> = servers.command(lock, Some(&CACHING), &exists, Effect::Reads).await;
    match answer {
        Ok(Value::Int(number)) => Some(number > 0),
        _ => None,
    }
}
