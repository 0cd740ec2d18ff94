//! A simulated node. Each request takes the same steps as a Lua script of the Redis backend.

use std::collections::BTreeMap;
use std::time::Duration;

use lockwright_core::backend_util::finding;
use lockwright_core::{
    BreakMode, BreakTarget, Broken, Cursor, Event, Fence, Finding, Holder, Inspection, LockName,
    Page, Reason, ReleaseMode, ReleaseOutcome, RenewalOutcome, Token,
};
use lockwright_redlock::node::{Incarnation, No, Vote, Yes};

/// Microseconds, by the schedule's or a node's clock.
pub(crate) type Micros = u64;

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) name: LockName,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
}

#[derive(Debug, Clone)]
pub(crate) enum Request {
    Look { number: u64 },
    Admit { seen: String, number: u64 },
    Attempt { incarnation: String, claim: Asked, candidate: Fence, waits: bool },
    Raise { incarnation: String, claim: Asked, fence: Fence },
    Renew { incarnation: String, holds: Vec<Asked> },
    Release { claim: Asked, release_mode: ReleaseMode },
    Inspect { name: LockName },
    List { prefix: String, from: Option<Cursor> },
    Break { name: LockName, seen: BreakTarget, how: BreakMode, note: String },
    Doctor,
}

impl Request {
    /// Returns the request's rank in the order of simultaneous requests.
    pub(crate) fn rank(&self) -> (u8, Option<Token>) {
        match self {
            Self::Look { .. } => (0, None),
            Self::Admit { .. } => (1, None),
            Self::Attempt { claim, .. } => (2, Some(claim.token)),
            Self::Raise { claim, .. } => (3, Some(claim.token)),
            Self::Renew { holds, .. } => (4, holds.first().map(|claim| claim.token)),
            Self::Release { claim, .. } => (5, Some(claim.token)),
            Self::Inspect { .. } => (6, None),
            Self::List { .. } => (7, None),
            Self::Break { .. } => (8, None),
            Self::Doctor => (9, None),
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        let kinds = [
            "look", "admit", "attempt", "raise", "renew", "release", "inspect", "list", "break",
            "doctor",
        ];
        kinds[usize::from(self.rank().0)]
    }
}

#[derive(Debug)]
pub(crate) enum Answer {
    Incarnation(Incarnation),
    Vote(Vote),
    Raised(bool),
    Renewed(Option<Vec<RenewalOutcome>>),
    Ended(ReleaseOutcome),
    Inspection(Inspection),
    Page(Page),
    Broken(Broken),
    Findings(Vec<Finding>),
}

/// Rules that a node may break.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flaws {
    /// A node that lost its data votes at once, instead of after the largest TTL.
    pub(crate) no_quarantine: bool,
    /// The node executes requests for another incarnation.
    pub(crate) any_incarnation: bool,
    /// A renewal extends the hold of any token.
    pub(crate) renews_strangers: bool,
    /// A release ends the hold of any token.
    pub(crate) releases_strangers: bool,
}

/// The data that are lost and restored together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Data {
    incarnation: Option<String>,
    pub(crate) holds: BTreeMap<LockName, Hold>,
    pub(crate) counters: BTreeMap<LockName, u64>,
    pub(crate) tombstones: BTreeMap<Token, Tombstone>,
}

#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) token: Token,
    pub(crate) fence: u64,
    pub(crate) expires: Micros,
    pub(crate) waited: bool,
    pub(crate) broken: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tombstone {
    expires: Micros,
    is_of_a_break: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    Kept,
    /// The server restarts with the older data of a snapshot.
    Stale,
    Empty,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) number: usize,
    pub(crate) run: u64,
    keeps_every_write: bool,
    largest_ttl: Duration,
    pub(crate) data: Data,
    snapshot: Data,
    flaws: Flaws,
    rate: u64,
    /// How far the node's clock is ahead of the schedule's: the initial difference plus all steps.
    stepped: Micros,
    pub(crate) strangers: u64,
}

impl Server {
    pub(crate) fn new(
        number: usize,
        keeps_every_write: bool,
        largest_ttl: Duration,
        rate: u64,
        flaws: Flaws,
    ) -> Self {
        Self {
            number,
            run: 1,
            keeps_every_write,
            largest_ttl,
            data: Data::default(),
            snapshot: Data::default(),
            flaws,
            rate,
            // Each node's clock shows a different time.
            stepped: 1_000_000 * (number as u64 + 1),
            strangers: 0,
        }
    }

    /// Makes the node vote.
    pub(crate) fn seasoned(mut self) -> Self {
        let incarnation = self.look(0).text.replacen("new ", "votes ", 1);
        self.data.incarnation = Some(incarnation);
        self
    }

    pub(crate) fn take_snapshot(&mut self) {
        self.snapshot = self.data.clone();
    }

    pub(crate) fn restart(&mut self, how: Restart) {
        self.run += 1;
        match how {
            Restart::Kept => {}
            Restart::Stale => self.data = self.snapshot.clone(),
            Restart::Empty => self.lose_data(),
        }
    }

    pub(crate) fn lose_data(&mut self) {
        self.data = Data::default();
    }

    pub(crate) fn step_clock(&mut self, by: Duration) {
        self.stepped += by.as_micros() as u64;
    }

    pub(crate) fn run_id(&self) -> String {
        format!("node{}-run{}", self.number, self.run)
    }

    pub(crate) fn clock(&self, now: Micros) -> Micros {
        now / 1_000_000 * self.rate + now % 1_000_000 * self.rate / 1_000_000 + self.stepped
    }

    pub(crate) fn expire(&mut self, now: Micros) {
        let now = self.clock(now);
        self.data.holds.retain(|_, hold| hold.expires > now);
        self.data.tombstones.retain(|_, tombstone| tombstone.expires > now);
    }

    /// Executes one request atomically. Returns the reply, and an event for all clients.
    pub(crate) fn execute(&mut self, request: &Request, now: Micros) -> (Answer, Option<Event>) {
        self.expire(now);
        let now = self.clock(now);
        let answer = match request {
            Request::Look { number } => Answer::Incarnation(self.look(*number)),
            Request::Admit { seen, number } => Answer::Incarnation(self.admit(seen, *number)),
            Request::Attempt { incarnation, claim, candidate, waits } => {
                Answer::Vote(if self.knows(incarnation) {
                    self.attempt(claim, candidate.get(), *waits, now)
                } else {
                    Vote::WrongIncarnation
                })
            }
            Request::Raise { incarnation, claim, fence } => {
                Answer::Raised(self.knows(incarnation) && self.raise(claim, fence.get()))
            }
            Request::Renew { incarnation, holds } => Answer::Renewed(
                self.knows(incarnation)
                    .then(|| holds.iter().map(|claim| self.renew(claim, now)).collect()),
            ),
            Request::Release { claim, release_mode } => {
                let (ended, wake) = self.release(claim, *release_mode, now);
                return (Answer::Ended(ended), wake.then(|| Event::Wake(claim.name.clone())));
            }
            Request::Inspect { name } => Answer::Inspection(self.inspect(name, now)),
            Request::List { prefix, from } => Answer::Page(self.list(prefix, from.as_ref(), now)),
            Request::Break { name, seen, how, note } => {
                let broken = self.break_hold(name, *seen, *how, note, now);
                let event = broken.map(|(token, _)| Event::Lost(token, Reason::Broken));
                return (Answer::Broken(broken.map_or(Broken::NotHeld, |(_, how)| how)), event);
            }
            Request::Doctor => {
                Answer::Findings(vec![finding::note("simulated", "it works", "", "")])
            }
        };
        (answer, None)
    }

    fn knows(&mut self, incarnation: &str) -> bool {
        let known =
            self.flaws.any_incarnation || self.data.incarnation.as_deref() == Some(incarnation);
        self.strangers += u64::from(!known);
        known
    }

    fn look(&mut self, number: u64) -> Incarnation {
        let (run, kept) = (self.run_id(), u8::from(self.keeps_every_write).to_string());
        let fresh = if self.flaws.no_quarantine { "votes" } else { "new" };
        let stands = self.data.incarnation.as_deref().map(words);
        let carried = match stands {
            Some(words) if words[1] == run => return incarnation(&words.join(" ")),
            Some(words) if words[0] == "votes" && words[4] == "1" && kept == "1" => Some(words),
            _ => None,
        };
        let text = match (carried, stands) {
            (Some([_, _, number, longest, _]), _) => {
                format!("votes {run} {number} {longest} {kept}")
            }
            (None, Some([_, _, _, longest, _])) => {
                format!("{fresh} {run} {number:x} {longest} {kept}")
            }
            (None, None) => {
                let longest = self.largest_ttl.as_millis();
                format!("{fresh} {run} {number:x} {longest} {kept}")
            }
        };
        self.data.incarnation = Some(text.clone());
        incarnation(&text)
    }

    fn admit(&mut self, seen: &str, number: u64) -> Incarnation {
        if self.data.incarnation.as_deref() != Some(seen) {
            return self.look(number);
        }
        let text = seen.replacen("new ", "votes ", 1);
        self.data.incarnation = Some(text.clone());
        incarnation(&text)
    }

    fn attempt(&mut self, claim: &Asked, candidate: u64, waits: bool, now: Micros) -> Vote {
        if self.data.tombstones.contains_key(&claim.token) {
            return Vote::Ended;
        }
        let expires = now + rounded_up(claim.ttl);
        let Some(hold) = self.data.holds.get_mut(&claim.name) else {
            let counter = self.data.counters.entry(claim.name.clone()).or_default();
            *counter = candidate.max(*counter + 1);
            let (token, fence) = (claim.token, *counter);
            let hold = Hold { token, fence, expires, waited: false, broken: None };
            self.data.holds.insert(claim.name.clone(), hold);
            return Vote::Yes(Yes { fence: Fence::new(fence), repeated: false, valid: None });
        };
        if hold.token != claim.token {
            hold.waited |= waits;
            let holder = hold.shown(now);
            return Vote::No(No { left: holder.remaining, holder: Some(Box::new(holder)) });
        }
        let valid = hold.broken.as_ref().map(|_| hold.left(now));
        if valid.is_none() {
            hold.expires = expires;
        }
        Vote::Yes(Yes { fence: Fence::new(hold.fence), repeated: true, valid })
    }

    fn raise(&mut self, claim: &Asked, fence: u64) -> bool {
        let hold = self.data.holds.get_mut(&claim.name);
        let Some(hold) = hold.filter(|hold| hold.token == claim.token) else { return false };
        let counter = self.data.counters.entry(claim.name.clone()).or_default();
        *counter = fence.max(*counter);
        hold.fence = fence;
        true
    }

    fn renew(&mut self, claim: &Asked, now: Micros) -> RenewalOutcome {
        let Data { holds, tombstones, .. } = &mut self.data;
        let is_its_own =
            |hold: &&mut Hold| hold.token == claim.token || self.flaws.renews_strangers;
        match holds.get_mut(&claim.name).filter(is_its_own) {
            Some(hold) if hold.broken.is_none() => {
                hold.expires = now + rounded_up(claim.ttl);
                RenewalOutcome::Renewed { valid: None }
            }
            Some(_) => RenewalOutcome::NotHeld(Reason::Broken),
            None if tombstones.get(&claim.token).is_some_and(|ended| ended.is_of_a_break) => {
                RenewalOutcome::NotHeld(Reason::Broken)
            }
            None => RenewalOutcome::NotHeld(Reason::Gone),
        }
    }

    fn release(
        &mut self,
        claim: &Asked,
        release_mode: ReleaseMode,
        now: Micros,
    ) -> (ReleaseOutcome, bool) {
        if release_mode == ReleaseMode::Reconcile {
            self.bury(claim.token, false, now);
        }
        match self.data.holds.get(&claim.name) {
            Some(hold) if hold.token == claim.token || self.flaws.releases_strangers => {
                let waited = hold.waited;
                self.data.holds.remove(&claim.name);
                (ReleaseOutcome::Released, waited)
            }
            _ => (ReleaseOutcome::NotHeld, false),
        }
    }

    fn bury(&mut self, token: Token, is_of_a_break: bool, now: Micros) {
        let expires = now + rounded_up(self.largest_ttl);
        self.data.tombstones.insert(token, Tombstone { expires, is_of_a_break });
    }

    fn inspect(&self, name: &LockName, now: Micros) -> Inspection {
        let mut seen = Inspection::free(name.clone());
        seen.fence = self.data.counters.get(name).copied().map(Fence::new);
        seen.holders.extend(self.data.holds.get(name).map(|hold| hold.shown(now)));
        seen
    }

    fn list(&self, prefix: &str, from: Option<&Cursor>, now: Micros) -> Page {
        const PAGE: usize = 3;
        let is_listed = |name: &&LockName| {
            let is_next = from.is_none_or(|from| name.as_str() > from.0.as_str());
            is_next && name.as_str().starts_with(prefix)
        };
        let mut names: Vec<&LockName> = self.data.holds.keys().filter(is_listed).collect();
        let more = names.len() > PAGE;
        names.truncate(PAGE);
        let next = names.last().filter(|_| more).map(|last| Cursor(last.to_string()));
        Page { names: names.into_iter().map(|name| self.inspect(name, now)).collect(), next }
    }

    fn break_hold(
        &mut self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
        now: Micros,
    ) -> Option<(Token, Broken)> {
        let hold = self.data.holds.get_mut(name)?;
        if seen != BreakTarget::Any && seen != BreakTarget::Token(hold.token) {
            return None;
        }
        let (token, left) = (hold.token, hold.left(now));
        if how == BreakMode::RunOut {
            hold.broken = Some(note.to_owned());
            return Some((token, Broken::RunsOut(left)));
        }
        self.data.holds.remove(name);
        self.bury(token, true, now);
        Some((token, Broken::Freed(left)))
    }

    pub(crate) fn locked(&mut self, now: Micros) -> Vec<(LockName, Token)> {
        self.expire(now);
        self.data.holds.iter().map(|(name, hold)| (name.clone(), hold.token)).collect()
    }
}

impl Hold {
    fn left(&self, now: Micros) -> Duration {
        Duration::from_micros(self.expires - now)
    }

    fn shown(&self, now: Micros) -> Holder {
        let mut holder = Holder::new(Some(self.token));
        holder.fence = Some(Fence::new(self.fence));
        holder.remaining = Some(self.left(now));
        holder.broken = self.broken.clone();
        holder
    }
}

fn rounded_up(ttl: Duration) -> Micros {
    (ttl.as_micros() as u64).div_ceil(1_000) * 1_000
}

fn words(text: &str) -> [&str; 5] {
    let mut words = text.split(' ');
    std::array::from_fn(|_| words.next().expect("an incarnation has five words"))
}

fn incarnation(text: &str) -> Incarnation {
    let [state, run, number, longest, _] = words(text);
    let (node, _) = run.split_once('-').expect("a run is one of a node");
    Incarnation {
        run: run.to_owned(),
        data: format!("{node} {number}"),
        text: text.to_owned(),
        votes: state == "votes",
        largest_ttl: Duration::from_millis(longest.parse().expect("a number")),
    }
}
