//! Leases: which there are, what they carry, and for how long they are certainly good.
//!
//! One lease carries all renewed claims of one TTL, and each fixed claim has one of its own. A lease
//! carries at most one exclusive claim of a name, as the key is made of both: to a second one its key would
//! look like its own. Those of readers and for permits are made of the token too.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Error as ClientError, LeaseKeepAliveStream, LeaseKeeper};
use lockwright_core::{BootInstant, Claim, Clock, LockName, Mode, Token};

use crate::members::Link;

/// For how long a lease is kept that carries nothing: the next claim saves the trip for a new one.
const WORTH_KEEPING: Duration = Duration::from_secs(60);

/// How many tombstones a lease has at most, before it takes no new claims.
const TOMBSTONES: usize = 100;

/// A lease of ours.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// As the server has it, which may be longer than what was asked for.
    pub(crate) ttl: Duration,
    /// It belongs to one fixed claim, and nobody keeps it alive unasked.
    pub(crate) is_fixed: bool,
    state: Mutex<State>,
    stream: tokio::sync::Mutex<Option<Stream>>,
}

#[derive(Debug)]
struct State {
    /// The server has it for one TTL from here on, for certain.
    proven: BootInstant,
    /// The last keep-alive that was answered and isn't proven.
    answered: Option<KeptAlive>,
    /// What it carries, or may carry if a request arrives late: the exclusive claims, one of each name, whose
    /// keys are made of the lease alone.
    claims: HashMap<LockName, Token>,
    /// The same of readers and of those who hold permits, whose keys are made of their tokens too.
    beside: HashSet<(LockName, Token)>,
    /// It takes no new claims.
    is_retired: bool,
    /// It takes none from here on, as it has tombstones.
    closes: BootInstant,
    tombstones: usize,
    /// The server doesn't have it any more.
    is_gone: bool,
    used: BootInstant,
}

/// The way on which it is kept alive.
struct Stream {
    link: u64,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("link", &self.link).finish_non_exhaustive()
    }
}

/// A keep-alive that was answered. Who answered may have been a leader that was replaced long ago
/// and hasn't noticed: only that another answer of the same member proves, one that takes a majority,
/// from the same term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptAlive {
    sent: BootInstant,
    link: u64,
    term: u64,
}

impl Lease {
    /// One that was asked for at `sent`.
    pub(crate) fn new(id: i64, ttl: Duration, is_fixed: bool, sent: BootInstant) -> Self {
        let state = State {
            proven: sent,
            answered: None,
            claims: HashMap::new(),
            beside: HashSet::new(),
            is_retired: is_fixed,
            closes: BootInstant::FAR_FUTURE,
            tombstones: 0,
            is_gone: false,
            used: sent,
        };
        Self { id, ttl, is_fixed, state: Mutex::new(state), stream: tokio::sync::Mutex::default() }
    }

    /// Keeps it alive at one member. What that proves is for [`Lease::prove`].
    ///
    /// # Cancel safety
    /// If it is dropped, the answer is never taken for that of a later request: its stream goes too.
    pub(crate) async fn keep_alive(&self, link: &Link, clock: &Clock) -> Result<(), ClientError> {
        let begun = clock.now();
        let mut slot = self.stream.lock().await;
        let is_done = |kept: KeptAlive| kept.link == link.number && kept.sent >= begun;
        if self.kept_alive().is_some_and(is_done) {
            // Whoever had the stream meanwhile did it.
            return Ok(());
        }
        let mut stream = match slot.take().filter(|stream| stream.link == link.number) {
            Some(stream) => stream,
            None => {
                let (keeper, answers) = link.client.lease_client().keep_alive(self.id).await?;
                Stream { link: link.number, keeper, answers }
            }
        };
        let sent = clock.now();
        stream.keeper.keep_alive().await?;
        let answer = stream.answers.message().await?;
        let answer = answer
            .ok_or_else(|| ClientError::LeaseKeepAliveError("the stream has ended".to_owned()))?;
        if answer.ttl() <= 0 {
            return Err(ClientError::LeaseKeepAliveError("lease not found".to_owned()));
        }
        let term = answer.header().map_or(0, |header| header.raft_term());
        self.state().answered = Some(KeptAlive { sent, link: link.number, term });
        *slot = Some(stream);
        Ok(())
    }

    /// The last keep-alive that was answered. What is to prove it must be sent after this was
    /// called.
    pub(crate) fn kept_alive(&self) -> Option<KeptAlive> {
        self.state().answered
    }

    /// Takes note of an answer that took a majority: it proves a keep-alive that was answered
    /// before it was asked for, by the same member in the same term. Then whoever led in that term
    /// and took the keep-alive was still the leader.
    pub(crate) fn prove(&self, kept: Option<KeptAlive>, link: u64, term: u64) {
        if let Some(kept) = kept.filter(|kept| (kept.link, kept.term) == (link, term)) {
            let mut state = self.state();
            state.proven = state.proven.max(kept.sent);
        }
    }

    /// Until when the server has it, for certain.
    pub(crate) fn good_until(&self) -> BootInstant {
        self.state().proven + self.ttl
    }

    /// When it is time to keep it alive.
    pub(crate) fn due(&self) -> BootInstant {
        self.state().proven + self.ttl / 4
    }

    /// When it is not worth keeping any more if nobody uses it.
    pub(crate) fn worthless(&self) -> BootInstant {
        self.state().used + WORTH_KEEPING
    }

    /// Has it carry a claim. False if it takes none, or carries another one with its key.
    pub(crate) fn carry(&self, claim: &Claim, now: BootInstant) -> bool {
        let mut state = self.state();
        if state.is_closed(now) || state.is_gone {
            return false;
        }
        let carries = state.carry(&claim.name, claim.token, claim.mode);
        if carries {
            state.used = now;
        }
        carries
    }

    /// The same for the one claim of a fixed one.
    pub(crate) fn carry_alone(&self, claim: &Claim) {
        self.state().carry(&claim.name, claim.token, claim.mode);
    }

    /// The same for one that nobody knew of, whatever the lease takes. False if it carries one with its key.
    pub(crate) fn carry_unknown(&self, name: &LockName, token: Token, mode: Mode) -> bool {
        self.state().carry(name, token, mode)
    }

    /// It carries the claim no longer.
    pub(crate) fn drop_claim(&self, name: &LockName, token: Token, now: BootInstant) {
        let mut state = self.state();
        if state.claims.get(name) == Some(&token) {
            state.claims.remove(name);
        }
        state.beside.remove(&(name.clone(), token));
        state.used = state.used.max(now);
    }

    /// Has it take no new claims.
    pub(crate) fn retire(&self) {
        self.state().is_retired = true;
    }

    /// It may have one more tombstone. It takes new claims for a while longer only, so that one day it is
    /// empty and its tombstones go with it; but for a while, so that many who give up don't leave as
    /// many leases behind, each to be kept alive.
    pub(crate) fn bears_tombstone(&self, now: BootInstant) {
        let mut state = self.state();
        state.closes = state.closes.min(now + WORTH_KEEPING);
        state.tombstones += 1;
        state.is_retired |= state.tombstones >= TOMBSTONES;
    }

    /// If it carries nothing and isn't worth keeping, has it take no new claims, and says so.
    pub(crate) fn is_over(&self, now: BootInstant) -> bool {
        let mut state = self.state();
        let is_over =
            state.is_empty() && (state.is_closed(now) || now >= state.used + WORTH_KEEPING);
        state.is_retired |= is_over;
        is_over
    }

    pub(crate) fn carries_nothing(&self) -> bool {
        self.state().is_empty()
    }

    pub(crate) fn set_gone(&self) {
        self.state().is_gone = true;
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.state().is_gone
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn carry(&mut self, name: &LockName, token: Token, mode: Mode) -> bool {
        if mode != Mode::Exclusive {
            return self.beside.insert((name.clone(), token));
        }
        let is_free = !self.claims.contains_key(name);
        if is_free {
            self.claims.insert(name.clone(), token);
        }
        is_free
    }

    fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.beside.is_empty()
    }

    fn is_closed(&self, now: BootInstant) -> bool {
        self.is_retired || now >= self.closes
    }
}

/// The leases that claims share, by the seconds that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    leases: Mutex<HashMap<u64, Vec<Arc<Lease>>>>,
    /// Those that were asked for and not heard of yet.
    wanted: Mutex<HashMap<u64, Wanted>>,
    /// Held while one is asked for, so that those who come meanwhile share it.
    pub(crate) asking: tokio::sync::Mutex<()>,
}

/// A lease that was asked for. It is the client that chooses its id, so that asking once more asks for the
/// same one: where the disks are so slow that no answer comes in time, those who ask for another one each
/// time never get any, and leave all of them behind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) id: i64,
    /// When it was asked for first: it can't have been granted before.
    pub(crate) since: BootInstant,
}

impl Wanted {
    fn new(since: BootInstant) -> Self {
        let random = Token::random();
        let (half, _) = random.as_bytes().split_at(size_of::<u64>());
        let bits = half.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        // No id is negative, and 0 leaves the choice to the server.
        Self { id: (bits >> 1 | 1) as i64, since }
    }
}

impl Pool {
    /// The lease to ask for, which may have been asked for before.
    pub(crate) fn wanted(&self, seconds: u64, now: BootInstant) -> Wanted {
        *self.all_wanted().entry(seconds).or_insert_with(|| Wanted::new(now))
    }

    fn all_wanted(&self) -> MutexGuard<'_, HashMap<u64, Wanted>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease that carries the claim from now on.
    pub(crate) fn carry(
        &self,
        seconds: u64,
        claim: &Claim,
        now: BootInstant,
    ) -> Option<Arc<Lease>> {
        let leases = self.leases();
        leases.get(&seconds)?.iter().find(|lease| lease.carry(claim, now)).map(Arc::clone)
    }

    pub(crate) fn add(&self, seconds: u64, lease: Arc<Lease>) {
        self.all_wanted().remove(&seconds);
        self.leases().entry(seconds).or_default().push(lease);
    }

    pub(crate) fn remove(&self, lease: &Lease) {
        self.leases().retain(|_, leases| {
            leases.retain(|one| one.id != lease.id);
            !leases.is_empty()
        });
    }

    /// [`Lease::bears_tombstone`], if it is one of ours.
    pub(crate) fn bears_tombstone(&self, id: i64, now: BootInstant) {
        if let Some(lease) = self.leases().values().flatten().find(|lease| lease.id == id) {
            lease.bears_tombstone(now);
        }
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<u64, Vec<Arc<Lease>>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unit of the server, rounded up.
pub(crate) fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_with_tombstones_closes_after_a_while_or_with_many() {
        let begun = Clock::boot().now();
        let new = || Lease::new(1, Duration::from_secs(30), false, begun);
        let claim = |at: usize| lockwright_conformance::kit::claim(&format!("name-{at}"));
        let (first, soon) = (claim(0), begun + WORTH_KEEPING / 2);
        let lease = new();
        lease.bears_tombstone(begun);
        assert!(lease.carry(&first, soon), "each who gives up would leave a lease behind");
        // Later ones don't keep it open.
        lease.bears_tombstone(soon);
        assert!(!lease.carry(&claim(1), begun + WORTH_KEEPING));
        lease.drop_claim(&first.name, first.token, soon);
        assert!(lease.is_over(begun + WORTH_KEEPING), "its tombstones would stay for ever");
        let lease = new();
        for at in 0..TOMBSTONES {
            assert!(lease.carry(&claim(at), begun));
            lease.bears_tombstone(begun);
        }
        assert!(!lease.carry(&claim(TOMBSTONES), begun));
    }
}
