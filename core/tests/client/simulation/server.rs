//! The memory backend with hand-overs. After a release, the server grants the lock to the first
//! waiting claims for a short time (an *offer*), and sends their clients an event. A renewal or a
//! repeated acquire extends an offer to the full TTL.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Claim, Clock, Cursor,
    DistributedLock, Event, Events, Finding, Inspection, LockName, Page, Profile, Reason,
    ReleaseMode, ReleaseOutcome, Renew, Renewal, Result, Token, Wait, async_trait,
};
use lockwright_memory::Memory;
use tokio::time::sleep;

use super::chance::Chance;
use super::world::{self, count};
use crate::support::millis;

pub(super) const OFFER: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// True if a release offers the lock to the waiting claims; otherwise it wakes the waiters.
    pub(super) hands_over: bool,
    /// The percentage of events that are delayed, lost or repeated.
    pub(super) late_events: u64,
    pub(super) tombstones: bool,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) memory: Memory,
    profile: Profile,
    clock: Clock,
    chance: Arc<Chance>,
    manner: Manner,
    /// Once set, no request fails, and every event is delivered at once.
    pub(super) is_calm: AtomicBool,
    state: Mutex<State>,
    seen: Arc<world::Seen>,
}

#[derive(Debug, Default)]
struct State {
    clients: Vec<Events>,
    waiting: Vec<Claim>,
    received: HashMap<Token, Claim>,
    /// Tokens that were granted by an event, but not yet by an answer.
    handed: HashSet<Token>,
    /// Tokens of holds that ended before their holder was notified. The check of exclusion ignores
    /// them.
    excused: HashSet<Token>,
    is_breaking_now: bool,
}

impl Server {
    pub(super) fn new(
        clock: &Clock,
        chance: &Arc<Chance>,
        seen: &Arc<world::Seen>,
        manner: Manner,
    ) -> Arc<Self> {
        let memory = Memory::with_clock(clock.clone());
        let mut profile = memory.profile().clone();
        profile.tombstones = manner.tombstones;
        let server = Arc::new(Self {
            memory,
            profile,
            clock: clock.clone(),
            chance: Arc::clone(chance),
            manner,
            is_calm: AtomicBool::new(false),
            state: Mutex::default(),
            seen: Arc::clone(seen),
        });
        let weak = Arc::downgrade(&server);
        server.memory.attach(Events::to(move |event| {
            Weak::upgrade(&weak).map(|server| server.on_event(event)).is_some()
        }));
        server
    }

    pub(super) fn is_excused(&self, token: Token) -> bool {
        self.state.lock().unwrap().excused.contains(&token)
    }

    pub(super) fn was_handed(&self, token: Token) -> bool {
        self.state.lock().unwrap().handed.contains(&token)
    }

    pub(super) fn claim(&self, token: Token) -> Option<Claim> {
        self.state.lock().unwrap().received.get(&token).cloned()
    }

    fn on_event(&self, event: Event) {
        match &event {
            Event::Wake(name) if self.manner.hands_over && self.hand_over(name) => return,
            Event::Lost(token, _) => {
                let mut state = self.state.lock().unwrap();
                if state.is_breaking_now {
                    state.excused.insert(*token);
                }
            }
            _ => {}
        }
        self.send(&event);
    }

    /// Sends an event to all clients. For each client, the event may be delayed, lost or repeated.
    pub(super) fn send(&self, event: &Event) {
        let clients = self.state.lock().unwrap().clients.clone();
        for client in clients {
            let is_certain = self.is_calm.load(Ordering::SeqCst);
            if is_certain || self.chance.below(100) >= self.manner.late_events {
                client.send(event.clone());
                continue;
            }
            let repeats = self.chance.below(3);
            for _ in 0..repeats {
                let (client, event) = (client.clone(), event.clone());
                let delay = self.chance.millis_below(1_500);
                tokio::spawn(async move {
                    sleep(delay).await;
                    client.send(event);
                });
            }
        }
    }

    pub(super) fn send_certainly(&self, event: &Event) {
        let clients = self.state.lock().unwrap().clients.clone();
        for client in clients {
            client.send(event.clone());
        }
    }

    /// Offers a free lock to its waiting claims. Returns whether any claim got an offer.
    fn hand_over(&self, name: &LockName) -> bool {
        let waiting = self.state.lock().unwrap().waiting.clone();
        let mut was_offered = false;
        for claim in waiting.into_iter().filter(|claim| claim.name == *name) {
            let offer = Claim { ttl: OFFER.min(claim.ttl), ..claim.clone() };
            let start = self.clock.now();
            match self.memory.acquire_at_once(&offer, start) {
                Some(Ok(AcquireOutcome::Granted(mut granted))) => {
                    granted.start = Some(start);
                    granted.valid = Some(offer.ttl);
                    self.leave(claim.token);
                    self.state.lock().unwrap().handed.insert(claim.token);
                    count(&self.seen.offers);
                    self.send(&Event::Handed(claim.token, granted));
                    was_offered = true;
                }
                Some(Err(_)) => self.leave(claim.token),
                _ => {}
            }
        }
        was_offered
    }

    fn leave(&self, token: Token) {
        self.state.lock().unwrap().waiting.retain(|claim| claim.token != token);
    }

    fn note_answer(&self, claim: &Claim, answer: &Result<AcquireOutcome>) {
        {
            let mut state = self.state.lock().unwrap();
            state.received.insert(claim.token, claim.clone());
            match answer {
                Ok(AcquireOutcome::Busy(busy)) if busy.queued => {
                    state.waiting.push(claim.clone());
                }
                Ok(AcquireOutcome::Busy(_)) => {}
                _ => drop(state.handed.remove(&claim.token)),
            }
        }
        // Simulates a server that finds an expired offer during a request, and offers the lock
        // again.
        if self.manner.hands_over && self.chance.one_in(2) {
            self.hand_over(&claim.name);
        }
    }

    fn release_mode(&self, release_mode: ReleaseMode) -> ReleaseMode {
        if self.manner.tombstones { release_mode } else { ReleaseMode::Plain }
    }

    /// Ends a hold. Its holder is notified before the lock is free.
    pub(super) async fn end_after_notice(self: Arc<Self>, claim: Claim) {
        self.send_certainly(&Event::Lost(claim.token, Reason::SessionEnded));
        sleep(millis(1)).await;
        let _ = self.release(&claim, ReleaseMode::Reconcile).await;
    }

    /// Ends a hold. The holder is notified afterwards, or by its next renewal if the event is lost.
    pub(super) async fn end_without_notice(self: Arc<Self>, claim: Claim) {
        self.state.lock().unwrap().excused.insert(claim.token);
        let _ = self.release(&claim, ReleaseMode::Reconcile).await;
        self.send(&Event::Lost(claim.token, Reason::Gone));
    }
}

#[async_trait]
impl DistributedLock for Server {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.state.lock().unwrap().clients.push(events);
    }

    fn acquire_at_once(&self, claim: &Claim, now: BootInstant) -> Option<Result<AcquireOutcome>> {
        // The claim leaves the queue before the acquire. Otherwise, a hand-over during the acquire
        // could offer the lock to the claim.
        self.leave(claim.token);
        let answer = self.memory.acquire_at_once(claim, now)?;
        self.note_answer(claim, &answer);
        Some(answer)
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        self.leave(claim.token);
        let answer = self.memory.acquire(claim, wait).await;
        self.note_answer(claim, &answer);
        answer
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let answer = self.memory.swap(from, to).await;
        if let Ok(AcquireOutcome::Granted(_)) = &answer {
            self.state.lock().unwrap().received.insert(to.token, to.clone());
        }
        answer
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        self.memory.renew(holds).await
    }

    fn release_at_once(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
        now: BootInstant,
    ) -> Option<Result<ReleaseOutcome>> {
        self.leave(claim.token);
        self.memory.release_at_once(claim, self.release_mode(release_mode), now)
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        self.leave(claim.token);
        self.memory.release(claim, self.release_mode(release_mode)).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.memory.inspect(name).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        self.memory.list(prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        self.state.lock().unwrap().is_breaking_now = how == BreakMode::Now;
        let answer = self.memory.break_lock(name, seen, how, by, reason).await;
        self.state.lock().unwrap().is_breaking_now = false;
        answer
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.memory.doctor().await
    }
}
