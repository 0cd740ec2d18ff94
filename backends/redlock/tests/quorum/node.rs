//! A node in memory whose replies can be late or lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, Error, Event, Events, Fence, Finding, Holder,
    Inspection, LockName, Page, Reason, ReleaseMode, ReleaseOutcome, Renew, RenewalOutcome, Result,
    Token, async_trait,
};
use lockwright_redlock::node::{Incarnation, No, Node, Vote, Yes};
use tokio::time::{Instant, sleep};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Answered,
    Down,
    /// The request is executed, and never answered.
    Unanswered,
    /// The request is executed, and the connection breaks before the reply.
    Broken,
    /// The request is executed after this delay.
    Late(Duration),
}

#[derive(Debug)]
pub(crate) struct TestNode {
    address: String,
    largest_ttl: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) fate: Fate,
    /// `releases`, `raises` and `attempts` override `fate` for their requests, unless `Answered`.
    pub(crate) releases: Fate,
    pub(crate) raises: Fate,
    pub(crate) attempts: Fate,
    run: u64,
    text: u64,
    pub(crate) votes: bool,
    pub(crate) holds: HashMap<LockName, Hold>,
    pub(crate) counters: HashMap<LockName, u64>,
    pub(crate) tombstones: HashMap<Token, bool>,
    pub(crate) requests: Vec<&'static str>,
    events: Vec<Events>,
}

#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) token: Token,
    pub(crate) fence: u64,
    until: Instant,
    broken: Option<String>,
    waited: bool,
}

impl TestNode {
    pub(crate) fn new(number: usize, largest_ttl: Duration) -> Arc<Self> {
        Arc::new(Self {
            address: format!("node:{number}"),
            largest_ttl,
            state: Mutex::new(State {
                run: number as u64 + 1_000,
                text: number as u64 + 1_000,
                votes: true,
                ..State::default()
            }),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        let now = Instant::now();
        state.holds.retain(|_, hold| hold.until > now);
        state
    }

    pub(crate) fn fate(&self, fate: Fate) {
        self.state().fate = fate;
    }

    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.run += 1_000;
        state.text += 1_000;
        state.votes = false;
        state.holds.clear();
        state.counters.clear();
        state.tombstones.clear();
    }

    pub(crate) fn carry_over(&self) {
        let mut state = self.state();
        state.run += 1_000;
        state.text += 1_000;
    }

    pub(crate) fn run(&self) -> u64 {
        self.state().run
    }

    pub(crate) fn be_run(&self, run: u64) {
        self.state().run = run;
    }

    pub(crate) fn holder(&self, name: &LockName) -> Option<Token> {
        self.state().holds.get(name).map(|hold| hold.token)
    }

    pub(crate) fn hold(&self, claim: &Claim) {
        let hold = Hold {
            token: claim.token,
            fence: 1,
            until: Instant::now() + claim.ttl,
            broken: None,
            waited: false,
        };
        self.state().holds.insert(claim.name.clone(), hold);
    }

    pub(crate) fn asked(&self, what: &str) -> usize {
        self.state().requests.iter().filter(|request| **request == what).count()
    }

    pub(crate) fn send_event(&self, event: &Event) {
        let events = self.state().events.clone();
        for events in events {
            events.send(event.clone());
        }
    }

    async fn ask<T>(&self, what: &'static str, act: impl FnOnce(&mut State) -> T) -> Result<T> {
        let fate = {
            let mut state = self.state();
            state.requests.push(what);
            match what {
                "release" if state.releases != Fate::Answered => state.releases,
                "attempt" if state.attempts != Fate::Answered => state.attempts,
                "raise" if state.raises != Fate::Answered => state.raises,
                _ => state.fate,
            }
        };
        match fate {
            Fate::Answered => Ok(act(&mut self.state())),
            Fate::Down => Err(Error::unavailable("no server answers there")),
            Fate::Unanswered => {
                act(&mut self.state());
                std::future::pending().await
            }
            Fate::Broken => {
                act(&mut self.state());
                Err(Error::indeterminate("the connection broke"))
            }
            Fate::Late(time) => {
                sleep(time).await;
                Ok(act(&mut self.state()))
            }
        }
    }

    fn incarnation(&self, state: &State) -> Incarnation {
        Incarnation {
            run: state.run.to_string(),
            data: self.address.clone(),
            text: state.text.to_string(),
            votes: state.votes,
            largest_ttl: self.largest_ttl,
        }
    }
}

impl State {
    fn is(&self, incarnation: &Incarnation) -> bool {
        self.votes && incarnation.text == self.text.to_string()
    }
}

#[async_trait]
impl Node for TestNode {
    fn address(&self) -> &str {
        &self.address
    }

    fn attach(&self, events: Events) {
        self.state().events.push(events);
    }

    async fn look(&self) -> Result<Incarnation> {
        self.ask("look", |state| self.incarnation(state)).await
    }

    async fn admit(&self, seen: &Incarnation) -> Result<Incarnation> {
        self.ask("admit", |state| {
            if seen.text == state.text.to_string() && !state.votes {
                state.votes = true;
                state.text += 1;
            }
            self.incarnation(state)
        })
        .await
    }

    async fn attempt(
        &self,
        incarnation: &Incarnation,
        claim: &Claim,
        candidate: Fence,
        waits: bool,
    ) -> Result<Vote> {
        self.ask("attempt", |state| {
            if !state.is(incarnation) {
                return Vote::WrongIncarnation;
            }
            if state.tombstones.contains_key(&claim.token) {
                return Vote::Ended;
            }
            let until = Instant::now() + claim.ttl;
            if let Some(hold) = state.holds.get_mut(&claim.name) {
                let left = hold.until - Instant::now();
                if hold.token != claim.token {
                    hold.waited |= waits;
                    let mut holder = Holder::new(Some(hold.token));
                    holder.fence = Some(Fence::new(hold.fence));
                    holder.remaining = Some(left);
                    return Vote::No(No { left: Some(left), holder: Some(Box::new(holder)) });
                }
                if hold.broken.is_none() {
                    hold.until = until;
                }
                return Vote::Yes(Yes {
                    fence: Fence::new(hold.fence),
                    repeated: true,
                    valid: hold.broken.is_some().then_some(left),
                });
            }
            let counter = state.counters.entry(claim.name.clone()).or_default();
            *counter = (*counter + 1).max(candidate.get());
            let fence = *counter;
            let hold = Hold { token: claim.token, fence, until, broken: None, waited: false };
            state.holds.insert(claim.name.clone(), hold);
            Vote::Yes(Yes { fence: Fence::new(fence), repeated: false, valid: None })
        })
        .await
    }

    async fn raise(&self, incarnation: &Incarnation, claim: &Claim, fence: Fence) -> Result<bool> {
        self.ask("raise", |state| {
            if !state.is(incarnation) {
                return false;
            }
            match state.holds.get_mut(&claim.name) {
                Some(hold) if hold.token == claim.token => hold.fence = fence.get(),
                _ => return false,
            }
            let counter = state.counters.entry(claim.name.clone()).or_default();
            *counter = (*counter).max(fence.get());
            true
        })
        .await
    }

    async fn renew(
        &self,
        incarnation: &Incarnation,
        holds: &[Renew<'_>],
    ) -> Result<Option<Vec<RenewalOutcome>>> {
        self.ask("renew", |state| {
            if !state.is(incarnation) {
                return None;
            }
            let renewed = holds.iter().map(|Renew { claim, .. }| {
                let was_broken = state.tombstones.get(&claim.token) == Some(&true);
                match state.holds.get_mut(&claim.name) {
                    Some(hold) if hold.token == claim.token && hold.broken.is_none() => {
                        hold.until = Instant::now() + claim.ttl;
                        RenewalOutcome::Renewed { valid: None }
                    }
                    Some(hold) if hold.token == claim.token => {
                        RenewalOutcome::NotHeld(Reason::Broken)
                    }
                    _ if was_broken => RenewalOutcome::NotHeld(Reason::Broken),
                    _ => RenewalOutcome::NotHeld(Reason::Gone),
                }
            });
            Some(renewed.collect())
        })
        .await
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let (ended, wake) = self
            .ask("release", |state| {
                if release_mode == ReleaseMode::Reconcile {
                    state.tombstones.insert(claim.token, false);
                }
                match state.holds.get(&claim.name) {
                    Some(hold) if hold.token == claim.token => {
                        let waited = hold.waited;
                        state.holds.remove(&claim.name);
                        (ReleaseOutcome::Released, waited)
                    }
                    _ => (ReleaseOutcome::NotHeld, false),
                }
            })
            .await?;
        if wake {
            self.send_event(&Event::Wake(claim.name.clone()));
        }
        Ok(ended)
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.ask("inspect", |state| inspection(state, name)).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        const PAGE: usize = 3;
        self.ask("list", |state| {
            let mut names: Vec<LockName> = state
                .holds
                .keys()
                .filter(|name| name.as_str().starts_with(prefix))
                .filter(|name| from.as_ref().is_none_or(|from| name.as_str() > from.0.as_str()))
                .cloned()
                .collect();
            names.sort();
            let more = names.len() > PAGE;
            names.truncate(PAGE);
            let next = names.last().filter(|_| more).map(|last| Cursor(last.to_string()));
            Page { names: names.iter().map(|name| inspection(state, name)).collect(), next }
        })
        .await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let note = format!("{by}: {reason}");
        let answer = self
            .ask("break", |state| {
                let hold = state.holds.get_mut(name)?;
                if seen != BreakTarget::Any && seen != BreakTarget::Token(hold.token) {
                    return None;
                }
                let (token, left) = (hold.token, hold.until - Instant::now());
                if how == BreakMode::RunOut {
                    hold.broken = Some(note);
                    return Some((token, Broken::RunsOut(left)));
                }
                state.holds.remove(name);
                state.tombstones.insert(token, true);
                Some((token, Broken::Freed(left)))
            })
            .await?;
        let Some((token, broken)) = answer else { return Ok(Broken::NotHeld) };
        self.send_event(&Event::Lost(token, Reason::Broken));
        Ok(broken)
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.ask("doctor", |_| Vec::new()).await
    }
}

fn inspection(state: &State, name: &LockName) -> Inspection {
    let mut inspection = Inspection::free(name.clone());
    inspection.fence = state.counters.get(name).copied().map(Fence::new);
    if let Some(hold) = state.holds.get(name) {
        let mut holder = Holder::new(Some(hold.token));
        holder.fence = Some(Fence::new(hold.fence));
        holder.remaining = Some(hold.until - Instant::now());
        holder.broken = hold.broken.clone();
        inspection.holders.push(holder);
    }
    inspection
}
