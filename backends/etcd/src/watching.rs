//! The watch on all keys: it wakes the next waiter after a release, and notifies a holder whose key was deleted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{EventType, WatchFilterType, WatchOptions, WatchResponse};
use lockwright_core::backend_util::Subscribers;
use lockwright_core::{Event, LockName, Reason, Token};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::errors::{is_refusal, words};
use crate::members::Link;
use crate::shared::Shared;
use crate::{SLOW_POLL, renewing};

/// How long a waiting claim is delayed until the watch has started. Without the watch, it polls.
const STANDS_WITHIN: Duration = Duration::from_millis(500);

/// The pause before a failed watch is retried.
const AGAIN: Duration = Duration::from_millis(200);

/// The same for a refused watch.
const REFUSED: Duration = Duration::from_secs(5);

/// How long a loss's notification is delayed to find the reason.
const REASON_WITHIN: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) audience: Subscribers,
    state: Mutex<State>,
    is_started: AtomicBool,
    stands: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    /// The keys that waiters wait for, with their names.
    before: HashMap<Vec<u8>, LockName>,
    /// Names with acquires in progress: how many, and which of their keys were deleted.
    asked: HashMap<LockName, (usize, Vec<Vec<u8>>)>,
    /// The held keys of this backend, with their tokens and creation revisions. A later hold of the name may have the
    /// same key.
    held: HashMap<Vec<u8>, (Token, i64)>,
}

/// A guard that records the deleted keys of a name.
pub(crate) struct Asking<'a> {
    watching: &'a Watching,
    name: LockName,
}

impl Asking<'_> {
    /// Wakes the name when any of the `keys` is deleted. Returns false if one already is.
    pub(crate) fn waits_for<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> bool {
        let mut state = self.watching.state();
        for key in keys {
            let gone = state.asked.get(&self.name);
            if gone.is_some_and(|(_, gone)| gone.iter().any(|one| one == key)) {
                return false;
            }
            state.before.insert(key.to_vec(), self.name.clone());
        }
        true
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.watching.state();
        if let Some((count, _)) = state.asked.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                state.asked.remove(&self.name);
            }
        }
    }
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            audience: Subscribers::new(SLOW_POLL),
            state: Mutex::default(),
            is_started: AtomicBool::new(false),
            stands: watch::Sender::new(false),
        }
    }
}

impl Watching {
    pub(crate) fn ask(&self, name: &LockName) -> Asking<'_> {
        self.state().asked.entry(name.clone()).or_default().0 += 1;
        Asking { watching: self, name: name.clone() }
    }

    pub(crate) fn holds(&self, key: &[u8], token: Token, created: i64) {
        self.state().held.insert(key.to_vec(), (token, created));
    }

    /// Stops watching a key. Returns its holder.
    pub(crate) fn forget(&self, key: &[u8]) -> Option<Token> {
        self.state().held.remove(key).map(|(token, _)| token)
    }

    fn went(&self, shared: &Arc<Shared>, key: &[u8], at: i64) {
        let Some(name) = shared.keys().name(key) else { return };
        let (waits, lost) = {
            let mut state = self.state();
            if let Some((_, gone)) = state.asked.get_mut(&name) {
                gone.push(key.to_vec());
            }
            let is_it = state.held.get(key).is_some_and(|(_, created)| *created < at);
            let lost = if is_it { state.held.remove(key) } else { None };
            (state.before.remove(key), lost)
        };
        if let Some((token, _)) = lost {
            shared.members.runtime().spawn(tell_why(Arc::clone(shared), token));
        }
        if let Some(name) = waits {
            self.audience.wake(&name);
        }
    }

    /// Wakes all waiters after missed events.
    fn lost_track(&self) {
        self.state().before.clear();
        self.audience.wake_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn start(shared: &Arc<Shared>) {
    if shared.watching.is_started.swap(true, Ordering::SeqCst) {
        return;
    }
    let runtime = shared.members.runtime();
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        let mut alive = shared.alive.clone();
        tokio::select! {
            _ = alive.changed() => {}
            () = watch_for_ever(&shared) => {}
        }
    });
}

/// Waits for the watch to start, but not for long.
pub(crate) async fn stands(shared: &Arc<Shared>) {
    start(shared);
    let mut stands = shared.watching.stands.subscribe();
    let standing = stands.wait_for(|stands| *stands);
    let _ = timeout(STANDS_WITHIN, standing).await;
}

/// Notifies a holder of its loss, with the reason if there is one: breaking a hold leaves a tombstone in the
/// transaction that deletes its key.
async fn tell_why(shared: Arc<Shared>, token: Token) {
    let asked = timeout(REASON_WITHIN, renewing::epitaph(&shared, token)).await;
    let reason = asked.map_or(Reason::Gone, |asked| asked.unwrap_or(Reason::Gone));
    if reason == Reason::Broken {
        for (_, lost, place) in shared.roster.all(|_, place| place.is_held) {
            if lost == token {
                place.lease.bears_tombstone(shared.clock.now());
            }
        }
    }
    shared.watching.audience.send(&Event::Lost(token, reason));
}

async fn watch_for_ever(shared: &Arc<Shared>) {
    let mut next = None;
    loop {
        match shared.members.link().await {
            Ok(link) => {
                let ended = tokio::select! {
                    ended = watch(shared, &link, &mut next) => ended,
                    () = link.until_suspect() => Ok(()),
                };
                shared.watching.stands.send_replace(false);
                if let Err(why) = ended {
                    tracing::debug!(why, "etcd: the watch ended, and is begun anew");
                    if is_refusal(&why) {
                        // Other members would refuse too, and requests may be allowed.
                        sleep(REFUSED).await;
                    } else {
                        shared.members.suspect(&link);
                    }
                }
            }
            Err(no_link) => {
                tracing::debug!(failure = %no_link.error, "etcd: nobody to watch at, trying on");
            }
        }
        sleep(AGAIN).await;
    }
}

/// Watches at one member as long as that is in use. Returns the reason for a failure.
async fn watch(
    shared: &Arc<Shared>,
    link: &Arc<Link>,
    next: &mut Option<i64>,
) -> Result<(), String> {
    let mut options = WatchOptions::new()
        .with_prefix()
        .with_filters([WatchFilterType::NoPut])
        .with_progress_notify();
    if let Some(next) = *next {
        options = options.with_start_revision(next);
    }
    let limit = shared.members.config().response_timeout;
    // The member catches up with all known revisions, so that its own isn't taken for a fall.
    let mut kv = link.client.kv_client();
    timeout(limit, kv.get(shared.keys().nobody(), None))
        .await
        .map_err(|_| format!("it gave no answer within {limit:?}"))?
        .map_err(|cause| words(&cause))?;
    let prefix = shared.members.config().keys.prefix.as_bytes();
    let mut client = link.client.watch_client();
    let starting = timeout(limit, client.watch(prefix, Some(options)));
    let mut stream = starting
        .await
        .map_err(|_| format!("it did not begin within {limit:?}"))?
        .map_err(|cause| words(&cause))?;
    let mut is_created = false;
    loop {
        let message = async {
            if is_created {
                return Ok(stream.message().await);
            }
            timeout(limit, stream.message()).await
        };
        let heard = message
            .await
            .map_err(|_| format!("it did not begin within {limit:?}"))?
            .map_err(|cause| words(&cause))?
            .ok_or_else(|| "the stream has ended".to_owned())?;
        if heard.canceled() {
            return canceled(shared, &heard, next);
        }
        if heard.created() {
            is_created = true;
            if !created(shared, &heard, next) {
                return Ok(());
            }
        }
        for event in heard.events() {
            if let (EventType::Delete, Some(entry)) = (event.event_type(), event.kv()) {
                shared.watching.went(shared, entry.key(), entry.mod_revision());
            }
        }
        *next = heard_up_to(&heard, *next).max(*next);
    }
}

/// Returns the revision to resume from. A resumed watch gets missed events after its creation response. And a response
/// with events may be followed by more events of a revision below the store's.
fn heard_up_to(heard: &WatchResponse, next: Option<i64>) -> Option<i64> {
    let latest = match heard.events().last() {
        Some(event) => event.kv()?.mod_revision(),
        None if heard.created() && next.is_some() => return None,
        None => heard.header()?.revision(),
    };
    Some(latest + 1)
}

/// Returns false if the watch waits for a revision that won't come.
fn created(shared: &Shared, heard: &WatchResponse, next: &mut Option<i64>) -> bool {
    let revision = heard.header().map_or(0, |header| header.revision());
    let is_resumed = next.is_some();
    // The member has shown that it is up to date.
    let has_gone_back = next.is_some_and(|next| next > revision + 1);
    if has_gone_back {
        tracing::warn!(
            revision,
            "etcd: the cluster's revision has gone back, as it does when a snapshot is restored \
             without --bump-revision; fences may repeat"
        );
        *next = None;
        shared.watching.lost_track();
    }
    shared.watching.stands.send_replace(true);
    if is_resumed {
        // The missed events follow soon, but waiters needn't wait for them.
        shared.watching.audience.wake_all();
    }
    !has_gone_back
}

fn canceled(shared: &Shared, heard: &WatchResponse, next: &mut Option<i64>) -> Result<(), String> {
    if heard.compact_revision() > 0 {
        *next = Some(heard.compact_revision());
        shared.watching.lost_track();
        return Ok(());
    }
    Err(heard.cancel_reason().to_owned())
}
