//! The leases of a client. Auto-renewed claims of one TTL share a lease. Each fixed claim has its
//! own. A lease carries only one exclusive claim of a name, because the claim's key consists of the
//! name and the lease.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{Error as ClientError, LeaseKeepAliveStream, LeaseKeeper};
use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Claim, Clock, LockName, Mode, Token};
use tokio::time::timeout;

use crate::members::Link;

const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

const REVOKE_TIMEOUT: Duration = Duration::from_secs(1);

const TOMBSTONES: usize = 100;

#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// The granted TTL, which may be longer than requested.
    pub(crate) ttl: Duration,
    pub(crate) is_fixed: bool,
    state: Mutex<State>,
    stream: tokio::sync::Mutex<Option<Stream>>,
}

#[derive(Debug)]
struct State {
    /// The server keeps the lease for at least one TTL from this time.
    proven: BootInstant,
    answered: Option<KeptAlive>,
    /// The tokens of the lease's claims, including claims that may still arrive. A lease can have
    /// several readers or permits of one name, whose keys contain the token.
    claims: HashMap<(LockName, Option<Token>), Token>,
    is_retired: bool,
    closes: BootInstant,
    tombstones: usize,
    is_gone: bool,
    used: BootInstant,
}

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

/// An answered keep-alive. It doesn't prove a renewal: the leader that answered may have been
/// replaced. The proof is a later response that needed a majority, over the same connection in the
/// same Raft term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptAlive {
    sent: BootInstant,
    link: u64,
    term: u64,
}

impl Lease {
    pub(crate) fn new(id: i64, ttl: Duration, is_fixed: bool, sent: BootInstant) -> Self {
        let state = State {
            proven: sent,
            answered: None,
            claims: HashMap::new(),
            is_retired: is_fixed,
            closes: BootInstant::FAR_FUTURE,
            tombstones: 0,
            is_gone: false,
            used: sent,
        };
        Self { id, ttl, is_fixed, state: Mutex::new(state), stream: tokio::sync::Mutex::default() }
    }

    /// Sends a keep-alive. Dropping the future closes the stream, so that a later keep-alive
    /// doesn't receive this one's response.
    pub(crate) async fn keep_alive(&self, link: &Link, clock: &Clock) -> Result<(), ClientError> {
        let begun = clock.now();
        let mut slot = self.stream.lock().await;
        let is_done = |kept: KeptAlive| kept.link == link.number && kept.sent >= begun;
        if self.kept_alive().is_some_and(is_done) {
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
        lock(&self.state).answered = Some(KeptAlive { sent, link: link.number, term });
        *slot = Some(stream);
        Ok(())
    }

    pub(crate) fn kept_alive(&self) -> Option<KeptAlive> {
        lock(&self.state).answered
    }

    /// Records a response that needed a majority. It proves the keep-alive `kept` if both have this
    /// `link` and `term`.
    pub(crate) fn prove(&self, kept: Option<KeptAlive>, link: u64, term: u64) {
        if let Some(kept) = kept.filter(|kept| (kept.link, kept.term) == (link, term)) {
            let mut state = lock(&self.state);
            state.proven = state.proven.max(kept.sent);
        }
    }

    pub(crate) fn valid_until(&self) -> BootInstant {
        lock(&self.state).proven + self.ttl
    }

    pub(crate) fn due(&self) -> BootInstant {
        lock(&self.state).proven + self.ttl / 4
    }

    pub(crate) fn idle_deadline(&self) -> BootInstant {
        lock(&self.state).used + IDLE_TIMEOUT
    }

    pub(crate) fn accepts(&self, claim: &Claim, now: BootInstant) -> bool {
        let key = key(&claim.name, claim.token, claim.mode);
        lock(&self.state).accepts(&key, now)
    }

    pub(crate) fn admit(&self, claim: &Claim, now: BootInstant) -> bool {
        let mut state = lock(&self.state);
        let key = key(&claim.name, claim.token, claim.mode);
        state.accepts(&key, now) && state.add(key, claim.token, now)
    }

    /// Adds a claim, even if the lease accepts no more. Returns false if another claim has its key.
    pub(crate) fn add_claim(
        &self,
        name: &LockName,
        token: Token,
        mode: Mode,
        now: BootInstant,
    ) -> bool {
        lock(&self.state).add(key(name, token, mode), token, now)
    }

    pub(crate) fn drop_claim(&self, name: &LockName, token: Token, now: BootInstant) {
        let mut state = lock(&self.state);
        for mode in [Mode::Exclusive, Mode::Shared] {
            if let Entry::Occupied(claim) = state.claims.entry(key(name, token, mode))
                && *claim.get() == token
            {
                claim.remove();
            }
        }
        state.used = state.used.max(now);
    }

    pub(crate) fn retire(&self) {
        lock(&self.state).is_retired = true;
    }

    /// Counts a tombstone. A minute after its first, or at once after `TOMBSTONES`, a lease accepts
    /// no more claims, so it ends with its tombstones. Closing a lease at its first would cost a
    /// lease per canceled request.
    pub(crate) fn count_tombstone(&self, now: BootInstant) {
        let mut state = lock(&self.state);
        state.closes = state.closes.min(now + IDLE_TIMEOUT);
        state.tombstones += 1;
        state.is_retired |= state.tombstones >= TOMBSTONES;
    }

    pub(crate) fn is_finished(&self, now: BootInstant) -> bool {
        let mut state = lock(&self.state);
        let is_finished =
            state.claims.is_empty() && (state.is_closed(now) || now >= state.used + IDLE_TIMEOUT);
        state.is_retired |= is_finished;
        is_finished
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.state).claims.is_empty()
    }

    pub(crate) fn set_gone(&self) {
        lock(&self.state).is_gone = true;
    }

    pub(crate) fn is_gone(&self) -> bool {
        lock(&self.state).is_gone
    }
}

fn key(name: &LockName, token: Token, mode: Mode) -> (LockName, Option<Token>) {
    (name.clone(), (mode != Mode::Exclusive).then_some(token))
}

impl State {
    fn is_closed(&self, now: BootInstant) -> bool {
        self.is_retired || now >= self.closes
    }

    fn accepts(&self, key: &(LockName, Option<Token>), now: BootInstant) -> bool {
        !self.is_closed(now) && !self.is_gone && !self.claims.contains_key(key)
    }

    fn add(&mut self, key: (LockName, Option<Token>), token: Token, now: BootInstant) -> bool {
        let Entry::Vacant(free) = self.claims.entry(key) else { return false };
        free.insert(token);
        self.used = self.used.max(now);
        true
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// The leases, each with its requested TTL in seconds.
    leases: Mutex<Vec<(u64, Arc<Lease>)>>,
    wanted: Mutex<HashMap<u64, LeaseRequest>>,
    pub(crate) asking: tokio::sync::Mutex<()>,
}

/// A request for a lease. The client chooses the id, so that retries don't create more leases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseRequest {
    pub(crate) id: i64,
    /// When the id was chosen: the earliest possible time of the lease's grant.
    pub(crate) since: BootInstant,
}

impl LeaseRequest {
    fn new(since: BootInstant) -> Self {
        let random = Token::random();
        let (half, _) = random.as_bytes().split_at(size_of::<u64>());
        let bits = half.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Self { id: (bits >> 1 | 1) as i64, since }
    }
}

impl Pool {
    pub(crate) fn lease_request(&self, seconds: u64, now: BootInstant) -> LeaseRequest {
        *lock(&self.wanted).entry(seconds).or_insert_with(|| LeaseRequest::new(now))
    }

    pub(crate) fn find(&self, seconds: u64, claim: &Claim, now: BootInstant) -> Option<Arc<Lease>> {
        let leases = lock(&self.leases);
        let mut alike = leases.iter().filter(|(asked, _)| *asked == seconds);
        alike.find(|(_, lease)| lease.accepts(claim, now)).map(|(_, lease)| Arc::clone(lease))
    }

    pub(crate) fn add(&self, seconds: u64, lease: Arc<Lease>) {
        lock(&self.wanted).remove(&seconds);
        lock(&self.leases).push((seconds, lease));
    }

    pub(crate) fn remove(&self, lease: &Lease) {
        lock(&self.leases).retain(|(_, one)| one.id != lease.id);
    }

    pub(crate) fn count_tombstone(&self, id: i64, now: BootInstant) {
        if let Some((_, lease)) = lock(&self.leases).iter().find(|(_, lease)| lease.id == id) {
            lease.count_tombstone(now);
        }
    }
}

pub(crate) async fn revoke(link: Option<Arc<Link>>, id: i64) {
    if let Some(link) = link {
        let _ = timeout(REVOKE_TIMEOUT, link.client.lease_client().revoke(id)).await;
    }
}

pub(crate) fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_closes_some_time_after_tombstones_or_with_many() {
        let begun = Clock::boot().now();
        let new = || Lease::new(1, Duration::from_secs(30), false, begun);
        let claim = |at: usize| lockwright_conformance::test_helpers::claim(&format!("name-{at}"));
        let (first, soon) = (claim(0), begun + IDLE_TIMEOUT / 2);
        let lease = new();
        lease.count_tombstone(begun);
        assert!(lease.accepts(&first, soon), "each canceled claim would leave a lease behind");
        assert!(lease.add_claim(&first.name, first.token, first.mode, soon));
        assert!(!lease.accepts(&first, soon), "two claims would have the same key");
        lease.count_tombstone(soon);
        assert!(!lease.accepts(&claim(1), begun + IDLE_TIMEOUT));
        lease.drop_claim(&first.name, first.token, soon);
        assert!(lease.is_finished(begun + IDLE_TIMEOUT), "its tombstones would never expire");
        let lease = new();
        for at in 0..TOMBSTONES {
            assert!(lease.accepts(&claim(at), begun));
            lease.count_tombstone(begun);
        }
        assert!(!lease.accepts(&claim(TOMBSTONES), begun));
    }
}
