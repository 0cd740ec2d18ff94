//! A simulated node. Each request takes the same steps as a Lua script of the Redis backend.

use std::collections::BTreeMap;
use std::time::Duration;

use lockwright_core::{
    Fence, Holder, Inspection, LockName, Reason, ReleaseMode, ReleaseOutcome, RenewalOutcome, Token,
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
        }
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
struct Data {
    incarnation: Option<String>,
    locks: BTreeMap<LockName, Lock>,
    fences: BTreeMap<LockName, u64>,
    tombstones: BTreeMap<Token, Micros>,
}

#[derive(Debug, Clone)]
struct Lock {
    token: Token,
    fence: u64,
    expires: Micros,
    waited: bool,
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
    number: usize,
    pub(crate) run: u64,
    keeps_every_write: bool,
    largest_ttl: Duration,
    data: Data,
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

    fn clock(&self, now: Micros) -> Micros {
        now / 1_000_000 * self.rate + now % 1_000_000 * self.rate / 1_000_000 + self.stepped
    }

    /// Executes one request atomically. Returns the reply, and the lock whose waiters get a
    /// wake-up.
    pub(crate) fn execute(&mut self, request: &Request, now: Micros) -> (Answer, Option<LockName>) {
        let now = self.clock(now);
        self.data.locks.retain(|_, lock| lock.expires > now);
        self.data.tombstones.retain(|_, expires| *expires > now);
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
                return (Answer::Ended(ended), wake.then(|| claim.name.clone()));
            }
            Request::Inspect { name } => Answer::Inspection(self.inspect(name, now)),
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
        let counter = self.data.fences.entry(claim.name.clone()).or_default();
        match self.data.locks.get_mut(&claim.name) {
            Some(lock) if lock.token == claim.token => {
                lock.expires = expires;
                let fence = Fence::new(lock.fence);
                Vote::Yes(Yes { fence, repeated: true, valid: None })
            }
            Some(lock) => {
                lock.waited |= waits;
                let mut holder = Holder::new(Some(lock.token));
                let left = Duration::from_micros(lock.expires - now);
                holder.fence = Some(Fence::new(lock.fence));
                holder.remaining = Some(left);
                Vote::No(No { left: Some(left), holder: Some(Box::new(holder)) })
            }
            None => {
                *counter = candidate.max(*counter + 1);
                let fence = *counter;
                let lock = Lock { token: claim.token, fence, expires, waited: false };
                self.data.locks.insert(claim.name.clone(), lock);
                Vote::Yes(Yes { fence: Fence::new(fence), repeated: false, valid: None })
            }
        }
    }

    fn raise(&mut self, claim: &Asked, fence: u64) -> bool {
        let lock = self.data.locks.get_mut(&claim.name);
        let Some(lock) = lock.filter(|lock| lock.token == claim.token) else { return false };
        let counter = self.data.fences.entry(claim.name.clone()).or_default();
        *counter = fence.max(*counter);
        lock.fence = fence;
        true
    }

    fn renew(&mut self, claim: &Asked, now: Micros) -> RenewalOutcome {
        match self.data.locks.get_mut(&claim.name) {
            Some(lock) if lock.token == claim.token || self.flaws.renews_strangers => {
                lock.expires = now + rounded_up(claim.ttl);
                RenewalOutcome::Renewed { valid: None }
            }
            _ => RenewalOutcome::NotHeld(Reason::Gone),
        }
    }

    fn release(
        &mut self,
        claim: &Asked,
        release_mode: ReleaseMode,
        now: Micros,
    ) -> (ReleaseOutcome, bool) {
        if release_mode == ReleaseMode::Reconcile {
            let expires = now + rounded_up(self.largest_ttl);
            self.data.tombstones.insert(claim.token, expires);
        }
        match self.data.locks.get(&claim.name) {
            Some(lock) if lock.token == claim.token || self.flaws.releases_strangers => {
                let waited = lock.waited;
                self.data.locks.remove(&claim.name);
                (ReleaseOutcome::Released, waited)
            }
            _ => (ReleaseOutcome::NotHeld, false),
        }
    }

    fn inspect(&self, name: &LockName, now: Micros) -> Inspection {
        let mut seen = Inspection::free(name.clone());
        seen.fence = self.data.fences.get(name).copied().map(Fence::new);
        seen.holders.extend(self.data.locks.get(name).map(|lock| {
            let mut holder = Holder::new(Some(lock.token));
            holder.fence = Some(Fence::new(lock.fence));
            holder.remaining = Some(Duration::from_micros(lock.expires - now));
            holder
        }));
        seen
    }

    pub(crate) fn locked(&mut self, now: Micros) -> Vec<(LockName, Token)> {
        let now = self.clock(now);
        let live = self.data.locks.iter().filter(|(_, lock)| lock.expires > now);
        live.map(|(name, lock)| (name.clone(), lock.token)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(100);

    fn claim(token: u8) -> Asked {
        let name = LockName::new("x").unwrap();
        Asked { name, token: Token::from_bytes([token; 16]), ttl: TTL }
    }

    struct Bench(Server, Micros);

    impl Bench {
        fn new(keeps: bool, rate: u64) -> Self {
            let server = Server::new(0, keeps, TTL * 2, rate, Flaws::default());
            Self(server.seasoned(), 0)
        }

        fn look(&mut self) -> Incarnation {
            self.0.look(7)
        }

        fn attempt(&mut self, token: u8, candidate: u64) -> Vote {
            let incarnation = self.look().text;
            let (claim, candidate) = (claim(token), Fence::new(candidate));
            let request = Request::Attempt { incarnation, claim, candidate, waits: true };
            match self.0.execute(&request, self.1).0 {
                Answer::Vote(vote) => vote,
                other => panic!("{other:?}"),
            }
        }

        fn fence(&mut self, token: u8, candidate: u64) -> Option<u64> {
            match self.attempt(token, candidate) {
                Vote::Yes(yes) => Some(yes.fence.get()),
                _ => None,
            }
        }

        fn release(&mut self, token: u8, release_mode: ReleaseMode) -> (ReleaseOutcome, bool) {
            self.0.release(&claim(token), release_mode, self.0.clock(self.1))
        }
    }

    #[test]
    fn a_fence_is_above_the_counter_and_not_below_the_candidate() {
        let mut bench = Bench::new(true, 1_000_000);
        assert_eq!(bench.fence(1, 50), Some(50));
        assert_eq!(bench.fence(1, 70), Some(50), "a repeat gets its own");
        assert_eq!(bench.fence(2, 70), None, "another doesn't");
        assert_eq!(bench.release(1, ReleaseMode::Plain), (ReleaseOutcome::Released, true));
        assert_eq!(bench.fence(2, 20), Some(51));
    }

    #[test]
    fn a_fence_is_raised_for_its_holder_only() {
        let mut bench = Bench::new(true, 1_000_000);
        bench.fence(1, 50);
        assert!(bench.0.raise(&claim(1), 90) && !bench.0.raise(&claim(2), 95));
        assert_eq!(bench.fence(1, 1), Some(90));
        bench.release(1, ReleaseMode::Plain);
        assert_eq!(bench.fence(2, 1), Some(91));
    }

    #[test]
    fn a_hold_ends_by_the_nodes_own_clock() {
        let mut fast = Bench::new(true, 1_100_000);
        fast.fence(1, 1);
        fast.1 = 90_000;
        assert!(fast.fence(2, 1).is_none());
        fast.1 = 91_000;
        assert!(fast.fence(2, 1).is_some(), "0.1 s have passed by a clock that is 10 % fast");
    }

    #[test]
    fn a_tombstone_keeps_a_late_attempt_out_for_the_largest_ttl() {
        let mut bench = Bench::new(true, 1_000_000);
        assert_eq!(bench.release(1, ReleaseMode::Reconcile), (ReleaseOutcome::NotHeld, false));
        assert_eq!(bench.attempt(1, 1), Vote::Ended);
        bench.1 = 199_000;
        assert_eq!(bench.attempt(1, 1), Vote::Ended);
        bench.1 = 201_000;
        assert!(bench.fence(1, 1).is_some());
    }

    #[test]
    fn a_restart_that_kept_everything_goes_on_voting_and_no_other() {
        for (keeps, how, votes) in [
            (true, Restart::Kept, true),
            (false, Restart::Kept, false),
            (false, Restart::Stale, false),
            (true, Restart::Empty, false),
        ] {
            let mut bench = Bench::new(keeps, 1_000_000);
            let before = bench.look();
            assert!(before.votes);
            bench.0.take_snapshot();
            bench.0.restart(how);
            let after = bench.look();
            assert_eq!(after.votes, votes, "{keeps} {how:?}");
            assert!(!bench.0.knows(&before.text) && bench.0.knows(&after.text));
        }
    }

    #[test]
    fn node_with_other_data_has_no_vote() {
        let mut bench = Bench::new(true, 1_000_000);
        let before = bench.look();
        bench.0.lose_data();
        assert!(!bench.0.knows(&before.text));
        let after = bench.look();
        assert!(!after.votes && after.text != before.text);
        assert_eq!(bench.0.admit(&before.text, 9).text, after.text, "that one isn't there");
        let admitted = bench.0.admit(&after.text, 9);
        assert!(admitted.votes && bench.0.knows(&admitted.text));
    }

    #[test]
    fn a_renewal_is_for_its_token_while_it_lasts() {
        let mut bench = Bench::new(true, 1_000_000);
        bench.fence(1, 1);
        let renewed = RenewalOutcome::Renewed { valid: None };
        let now = bench.0.clock(60_000);
        assert_eq!(bench.0.renew(&claim(1), now), renewed);
        assert_ne!(bench.0.renew(&claim(2), now), renewed);
        bench.1 = 150_000;
        assert!(bench.fence(2, 1).is_none(), "it was armed for its full TTL");
        bench.1 = 161_000;
        assert!(bench.fence(2, 1).is_some());
    }
}
