//! The memory backend, with the events of other backends. After a release, a server with hand-overs
//! grants the lock to the first waiting claims for a short time (an *offer*), and sends their
//! clients an event. A renewal or a repeated acquire extends an offer to the full TTL.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_conformance::test_helpers::claim_for;
use lockwright_conformance::workload::Random;
use lockwright_core::backend_util::lock;
use lockwright_core::{
    AcquireOutcome, BootInstant, Claim, Clock, DistributedLock, Event, Events, Fence, Granted,
    LockName, Profile, Reason, ReleaseMode, ReleaseOutcome, Renew, Renewal, Result, Token, Wait,
    async_trait, delegate,
};
use lockwright_memory::Memory;
use tokio::time::sleep;

use crate::TTL;

const OFFER: Duration = Duration::from_millis(100);

/// How the server differs from the memory backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// True if a release offers the lock to the waiting claims; otherwise it wakes the waiters.
    pub(crate) hands_over: bool,
    /// The percentage of events that are delayed, lost or repeated.
    pub(crate) late_events: u64,
    pub(crate) no_tombstones: bool,
    /// True if the server sometimes ends a hold after a notice, or sends an unexpected event.
    pub(crate) meddles: bool,
    /// True if the server sometimes ends holds without a notice, which breaks a promise.
    pub(crate) forgets: bool,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    /// Grants that the server sent as an event.
    pub(crate) offers: u64,
    /// Grants that a client received only by an event, and renewed.
    pub(crate) handed: u64,
    pub(crate) ended: u64,
}

#[derive(Debug)]
pub(crate) struct Server {
    memory: Memory,
    profile: Profile,
    clock: Clock,
    manner: Manner,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: Random,
    clients: Vec<Events>,
    waiting: Vec<Claim>,
    /// Tokens that were granted by an event, but not yet by an answer.
    handed: HashSet<Token>,
    seen: Seen,
}

impl Server {
    pub(crate) fn start(clock: &Clock, seed: u64, manner: Manner) -> Arc<Self> {
        let memory = Memory::with_clock(clock.clone());
        let mut profile = memory.profile().clone();
        profile.tombstones = !manner.no_tombstones;
        let server = Arc::new(Self {
            memory,
            profile,
            clock: clock.clone(),
            manner,
            state: Mutex::new(State {
                random: Random::of(seed, 1 << 40),
                clients: Vec::new(),
                waiting: Vec::new(),
                handed: HashSet::new(),
                seen: Seen::default(),
            }),
        });
        let weak = Arc::downgrade(&server);
        server.memory.attach(Events::to(move |event| {
            weak.upgrade().map(|server| server.on_event(&event)).is_some()
        }));
        if manner.meddles || manner.forgets {
            tokio::spawn(Arc::clone(&server).meddle());
        }
        server
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.state).seen
    }

    fn on_event(&self, event: &Event) {
        match event {
            Event::Wake(name) if self.manner.hands_over && self.hand_over(name) => {}
            _ => self.send(event),
        }
    }

    /// Sends an event to all clients. For each client, the event may be delayed, lost or repeated.
    fn send(&self, event: &Event) {
        let clients = lock(&self.state).clients.clone();
        for client in clients {
            let late_events = self.manner.late_events;
            if late_events == 0 || self.random(|random| random.below(100)) >= late_events {
                client.send(event.clone());
                continue;
            }
            for _ in 0..self.random(|random| random.below(3)) {
                let (client, event) = (client.clone(), event.clone());
                let delay = self.random(|random| random.time(Duration::ZERO, TTL * 2));
                tokio::spawn(async move {
                    sleep(delay).await;
                    client.send(event);
                });
            }
        }
    }

    /// Offers a free lock to its waiting claims. Returns whether any claim got an offer.
    fn hand_over(&self, name: &LockName) -> bool {
        let waiting = lock(&self.state).waiting.clone();
        let mut was_offered = false;
        for claim in waiting.into_iter().filter(|claim| claim.name == *name) {
            let offer = Claim { ttl: OFFER.min(claim.ttl), ..claim.clone() };
            let start = self.clock.now();
            match self.memory.acquire_at_once(&offer, start) {
                Some(Ok(AcquireOutcome::Granted(mut granted))) => {
                    granted.start = Some(start);
                    granted.valid = Some(offer.ttl);
                    self.leave(claim.token);
                    {
                        let mut state = lock(&self.state);
                        state.handed.insert(claim.token);
                        state.seen.offers += 1;
                    }
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
        lock(&self.state).waiting.retain(|claim| claim.token != token);
    }

    fn note_answer(&self, claim: &Claim, answer: &Result<AcquireOutcome>) {
        if !self.manner.hands_over {
            return;
        }
        {
            let mut state = lock(&self.state);
            match answer {
                Ok(AcquireOutcome::Busy(busy)) if busy.queued => state.waiting.push(claim.clone()),
                Ok(AcquireOutcome::Busy(_)) => {}
                _ => drop(state.handed.remove(&claim.token)),
            }
        }
        // Simulates a server that finds an expired offer during a request, and offers the lock
        // again.
        if self.random(|random| random.one_in(2)) {
            self.hand_over(&claim.name);
        }
    }

    fn release_mode(&self, release_mode: ReleaseMode) -> ReleaseMode {
        if self.manner.no_tombstones { ReleaseMode::Plain } else { release_mode }
    }

    async fn meddle(self: Arc<Self>) {
        loop {
            sleep(TTL / 4).await;
            let names = self.memory.list("", None).await.expect("memory answers").names;
            let held = names.into_iter().filter_map(|seen| {
                let token = seen.holders.first()?.token?;
                Some(Claim { token, ..claim_for(seen.name.as_str(), TTL) })
            });
            let held: Vec<Claim> = held.collect();
            if self.manner.forgets {
                for claim in &held {
                    let _ = self.memory.release(claim, ReleaseMode::Plain).await;
                }
            } else if !held.is_empty() {
                let claim = self.random(|random| random.one_of(&held).clone());
                match self.random(|random| random.below(6)) {
                    0 => self.end(&claim).await,
                    kind => self.send_unexpected(kind, claim),
                }
            }
        }
    }

    /// Ends a hold. Its holder is notified before the lock is free.
    async fn end(&self, claim: &Claim) {
        lock(&self.state).seen.ended += 1;
        let clients = lock(&self.state).clients.clone();
        for client in clients {
            client.send(Event::Lost(claim.token, Reason::SessionEnded));
        }
        sleep(Duration::from_millis(1)).await;
        let _ = self.release(claim, ReleaseMode::Reconcile).await;
    }

    fn send_unexpected(&self, kind: u64, held: Claim) {
        let stranger = Token::random();
        self.send(&match kind {
            1 => Event::AtRisk(held.token),
            2 => Event::Recall(held.token),
            3 => Event::Wake(held.name),
            4 => Event::Lost(stranger, Reason::Gone),
            _ => {
                let mut handed = Granted::new(Fence::new(1 << 40));
                handed.start = Some(self.clock.now());
                Event::Handed(stranger, handed)
            }
        });
    }

    fn random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut lock(&self.state).random)
    }
}

#[async_trait]
impl DistributedLock for Server {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        lock(&self.state).clients.push(events);
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

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        {
            let mut state = lock(&self.state);
            for hold in holds {
                state.seen.handed += u64::from(state.handed.remove(&hold.claim.token));
            }
        }
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

    delegate!(|this| this.memory; swap, inspect, list, break_lock, doctor);
}
