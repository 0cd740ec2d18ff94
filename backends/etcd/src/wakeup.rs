use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_client::{EventType, WatchFilterType, WatchOptions, WatchResponse};
use lockwright_core::{BootInstant, Claim, Event, Reason, Token};
use tokio::time::{sleep, timeout};

use crate::errors::{is_refusal, words};
use crate::members::Link;
use crate::shared::{Place, Shared};

/// How long an acquire waits for the watch to start, before it polls instead.
const START_TIMEOUT: Duration = Duration::from_millis(500);

const RETRY_PAUSE: Duration = Duration::from_millis(200);

const REFUSED_PAUSE: Duration = Duration::from_secs(5);

const REASON_TIMEOUT: Duration = Duration::from_millis(500);

impl Shared {
    /// As [`Shared::keep`], for a claim that is held.
    pub(crate) fn hold(self: &Arc<Self>, claim: &Claim, place: Place, ends: BootInstant) -> bool {
        if !self.keep(claim, ends) {
            return false;
        }
        let (key, created) = (place.key.clone(), place.created);
        self.registry.enter(claim, Place { is_held: true, ..place }, ends);
        if !self.wakeups.holds(&key, claim.token, created) {
            self.members.runtime().spawn(notify_loss(Arc::clone(self), claim.token));
        }
        start(self);
        true
    }
}

pub(crate) fn start(shared: &Arc<Shared>) {
    if shared.wakeups.is_started.swap(true, Ordering::SeqCst) {
        return;
    }
    let runtime = shared.members.runtime();
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        let mut alive = shared.alive.clone();
        tokio::select! {
            _ = alive.changed() => {}
            () = watch_forever(&shared) => {}
        }
    });
}

pub(crate) async fn wait_until_active(shared: &Arc<Shared>) {
    start(shared);
    let mut is_active = shared.wakeups.is_active.subscribe();
    let becoming_active = is_active.wait_for(|is_active| *is_active);
    let _ = timeout(START_TIMEOUT, becoming_active).await;
}

fn on_deleted(shared: &Arc<Shared>, key: &[u8], at: i64) {
    let (waits, lost) = shared.wakeups.record_deletion(key, at);
    if let Some(token) = lost {
        shared.members.runtime().spawn(notify_loss(Arc::clone(shared), token));
    }
    if let Some(name) = waits {
        shared.wakeups.subscribers.wake(&name);
    }
}

/// Reports a lost hold with its reason, from the tombstone of a break.
async fn notify_loss(shared: Arc<Shared>, token: Token) {
    let asked = timeout(REASON_TIMEOUT, shared.loss_reason(token)).await;
    let reason = asked.map_or(Reason::Gone, |asked| asked.unwrap_or(Reason::Gone));
    if reason == Reason::Broken {
        for (_, lost, place) in shared.registry.all(|_, place| place.is_held) {
            if lost == token {
                place.lease.count_tombstone(shared.clock.now());
            }
        }
    }
    shared.wakeups.subscribers.send(&Event::Lost(token, reason));
}

async fn watch_forever(shared: &Arc<Shared>) {
    let mut next = None;
    loop {
        match shared.members.link().await {
            Ok(link) => {
                let ended = tokio::select! {
                    ended = watch(shared, &link, &mut next) => ended,
                    () = link.until_suspect() => Ok(()),
                };
                if shared.wakeups.is_active.send_replace(false) {
                    // Let the waiters poll until the next watch is active.
                    shared.wakeups.subscribers.wake_all();
                }
                if let Err(why) = ended {
                    tracing::debug!(why, "etcd: the watch ended, restarting it");
                    if is_refusal(&why) {
                        // Keep the connection: every member would reject the watch, but may accept
                        // other requests.
                        sleep(REFUSED_PAUSE).await;
                    } else {
                        shared.members.suspect(&link);
                    }
                }
            }
            Err(link_error) => {
                tracing::debug!(failure = %link_error.error, "etcd: no member to watch at, retrying");
            }
        }
        sleep(RETRY_PAUSE).await;
    }
}

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
    let limit = shared.members.config.response_timeout;
    let silent = |_| format!("the member did not answer within {limit:?}");
    // This read makes the member catch up. A lagging member's revision would look like a restored
    // snapshot's.
    let mut kv = link.client.kv_client();
    let read = timeout(limit, kv.get(shared.keys().probe_key(), None)).await;
    read.map_err(silent)?.map_err(|cause| words(&cause))?;
    let mut client = link.client.watch_client();
    let starting = client.watch(shared.keys().prefix.as_bytes(), Some(options));
    let starting = timeout(limit, starting).await.map_err(silent)?;
    let mut stream = starting.map_err(|cause| words(&cause))?;
    let mut is_created = false;
    loop {
        let limit = if is_created { Duration::MAX } else { limit };
        let message = timeout(limit, stream.message()).await.map_err(silent)?;
        let response = message.map_err(|cause| words(&cause))?.ok_or("the stream has ended")?;
        if response.canceled() {
            return canceled(shared, &response, next);
        }
        if response.created() {
            is_created = true;
            if !created(shared, &response, next) {
                return Ok(());
            }
        }
        for event in response.events() {
            if let (EventType::Delete, Some(entry)) = (event.event_type(), event.kv()) {
                on_deleted(shared, entry.key(), entry.mod_revision());
            }
        }
        *next = next_revision(&response, *next).max(*next);
    }
}

/// Returns the revision from which a new watch resumes: the one after the last event, because
/// events up to the store's revision may still arrive. Returns `None` for the creation response of
/// a resumed watch, because the missed events arrive later.
fn next_revision(response: &WatchResponse, next: Option<i64>) -> Option<i64> {
    let latest = match response.events().last() {
        Some(event) => event.kv()?.mod_revision(),
        None if response.created() && next.is_some() => return None,
        None => response.header()?.revision(),
    };
    Some(latest + 1)
}

/// Returns false if a restored snapshot lacks the watch's revision.
fn created(shared: &Shared, response: &WatchResponse, next: &mut Option<i64>) -> bool {
    let revision = response.header().map_or(0, |header| header.revision());
    let is_resumed = next.is_some();
    let has_gone_back = next.is_some_and(|next| next > revision + 1);
    if has_gone_back {
        tracing::warn!(
            revision,
            "etcd: the cluster's revision has gone back, as it does when a snapshot is restored \
             without --bump-revision; fences may repeat"
        );
        *next = None;
        shared.wakeups.forget_deletions();
        shared.wakeups.wake_after_gap();
    }
    shared.wakeups.is_active.send_replace(true);
    if is_resumed {
        // A request finds a free lock sooner than the missed events.
        shared.wakeups.subscribers.wake_all();
    }
    !has_gone_back
}

fn canceled(
    shared: &Shared,
    response: &WatchResponse,
    next: &mut Option<i64>,
) -> Result<(), String> {
    if response.compact_revision() > 0 {
        *next = Some(response.compact_revision());
        shared.wakeups.wake_after_gap();
        return Ok(());
    }
    Err(response.cancel_reason().to_owned())
}
