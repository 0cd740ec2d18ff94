//! Offers: how a lock is handed to the first waiter in its queue.
//!
//! The script that frees a lock makes the first waiter its holder for two seconds at most, and
//! publishes this offer on the waiter's channel. The waiter's client confirms the offer by a
//! renewal. Otherwise, it lapses. Offers are short, because a suspended client blocks the lock
//! until its offer lapses.
//!
//! # Start of the hold
//!
//! The server reports when it queued the claim and when it made the offer. The hold starts at the
//! claim's sending time plus the time between these (less 1 % for clock drift), but at the latest
//! when the offer arrives. With Sentinel and in a Cluster, the times may be of different clocks, so
//! the client sends the claim again.
//!
//! # Expiry
//!
//! When an offer lapses, the client whose release made it requests the next offer. If that client
//! has died, the waiters retry: each when the hold or offer in its last reply ends, and the next
//! two waiters also when the present offer lapses.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{
    BootInstant, Claim, Clock, Event, Fence, Granted, LockName, RenewalMode, Token,
};
use tokio::time::{Instant, sleep_until};

use crate::errors::Effect;
use crate::keys::Keys;
use crate::scripts;
use crate::servers::Servers;

/// The pause after an offer's end, because timers are coarse.
const GRACE: Duration = Duration::from_millis(20);

/// Delays the next waiters' retries, so the client whose release made the offer acts first.
const BEHIND: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Offers {
    pub(crate) channel: String,
    pub(crate) id: String,
    pub(crate) clock: Clock,
    waiting: Mutex<HashMap<Token, Waiting>>,
    made: Mutex<HashMap<LockName, Instant>>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// When the client sent the claim, and when the server queued it (server time in µs).
    queued: Option<(BootInstant, u64)>,
    ask_again: bool,
    /// The last offer's server time, because in a Cluster, every connection delivers each offer.
    offered_at: Option<u64>,
    name: Option<LockName>,
    asks_at: Option<Instant>,
}

pub(crate) fn recalled(text: &str) -> Option<Event> {
    Some(Event::Recall(text.strip_prefix("recall ")?.parse().ok()?))
}

impl Default for Offers {
    fn default() -> Self {
        let id = Token::random().to_string();
        Self {
            channel: format!("lockwright:offered:{id}"),
            id,
            clock: Clock::boot(),
            waiting: Mutex::default(),
            made: Mutex::default(),
        }
    }
}

impl Offers {
    /// Registers a claim before its request is sent, because an offer may arrive before the reply.
    pub(crate) fn asks(&self, token: Token) {
        let waiting = Waiting { ask_again: true, ..Waiting::default() };
        lock(&self.waiting).entry(token).or_insert(waiting);
    }

    pub(crate) fn asked(&self, token: Token) {
        let mut waiting = lock(&self.waiting);
        if waiting.get(&token).is_some_and(|known| known.queued.is_none()) {
            waiting.remove(&token);
        }
    }

    pub(crate) fn waits(&self, claim: &Claim, sent: BootInstant, micros: u64, ask_again: bool) {
        // Only a new request grants a fixed hold its full TTL.
        let ask_again = ask_again || claim.renewal_mode == RenewalMode::Off;
        let mut waiting = lock(&self.waiting);
        let known = waiting.entry(claim.token).or_default();
        known.queued = Some((sent, micros));
        known.ask_again = ask_again;
        known.name = Some(claim.name.clone());
    }

    pub(crate) fn forget(&self, token: Token) {
        let mut waiting = lock(&self.waiting);
        if !waiting.is_empty() {
            waiting.remove(&token);
        }
    }

    /// Parses token, first fence, fences, server time in µs, lifetime in ms.
    pub(crate) fn receive(&self, text: &str) -> Option<Event> {
        let received = self.clock.now();
        let mut words = text.split(' ');
        let token: Token = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let mut granted = Granted::new(Fence::new(number()?));
        granted.fences = u32::try_from(number()?).ok()?;
        let (micros, life) = (number()?, Duration::from_millis(number()?));
        let mut waiting = lock(&self.waiting);
        // A withdrawn claim, whose release ends the offer, isn't found.
        let known = waiting.get_mut(&token).filter(|known| known.offered_at != Some(micros))?;
        known.offered_at = Some(micros);
        (granted.start, granted.valid) = match known.queued {
            Some((sent, queued)) if queued <= micros && !known.ask_again => {
                let waited = Duration::from_micros(micros - queued);
                let start = sent + (waited - waited / 100);
                waiting.remove(&token);
                (Some(start.min(received)), Some(life))
            }
            // Zero validity makes the client send a new request.
            _ => (Some(received), Some(Duration::ZERO)),
        };
        Some(Event::Handed(token, granted))
    }

    /// Parses `behind TOKEN MS`: a waiter behind an offer, and the offer's lifetime. Returns when
    /// to wake the waiter, unless that is already planned.
    pub(crate) fn receive_behind(&self, text: &str) -> Option<(Token, Instant)> {
        let (token, life) = text.strip_prefix("behind ")?.split_once(' ')?;
        let (token, life) = (token.parse().ok()?, Duration::from_millis(life.parse().ok()?));
        let mut waiting = lock(&self.waiting);
        let known = waiting.get_mut(&token).filter(|known| known.name.is_some())?;
        let at = Instant::now() + life + BEHIND;
        known.asks_at.replace(at).is_none().then_some((token, at))
    }

    /// Returns the lock to request now, or the new time if a further offer delays the request.
    pub(crate) fn asks_now(&self, token: Token) -> Option<Result<LockName, Instant>> {
        let mut waiting = lock(&self.waiting);
        let known = waiting.get_mut(&token)?;
        match known.asks_at {
            Some(later) if later > Instant::now() => Some(Err(later)),
            _ => {
                known.asks_at = None;
                known.name.clone().map(Ok)
            }
        }
    }
}

/// Starts a task that offers the lock again when an offer lapses, at most one per name.
pub(crate) fn expire_offer(servers: &Arc<Servers>, name: &LockName, life: Duration) {
    let until = Instant::now() + life + GRACE;
    match lock(&servers.wakeups().offers.made).entry(name.clone()) {
        Entry::Occupied(mut later) => *later.get_mut() = until.max(*later.get()),
        Entry::Vacant(first) => {
            first.insert(until);
            // Not the caller's runtime, which may end earlier.
            servers.runtime().spawn(expire_offers(Arc::downgrade(servers), name.clone(), until));
        }
    }
}

async fn expire_offers(servers: Weak<Servers>, name: LockName, mut until: Instant) {
    loop {
        sleep_until(until).await;
        let Some(servers) = servers.upgrade() else { return };
        {
            let mut made = lock(&servers.wakeups().offers.made);
            match made.get(&name) {
                Some(later) if *later > until => {
                    until = *later;
                    continue;
                }
                _ => drop(made.remove(&name)),
            }
        }
        let Some(life) = grant_next(&servers, &name).await else { return };
        let mut made = lock(&servers.wakeups().offers.made);
        if made.contains_key(&name) {
            return;
        }
        until = Instant::now() + life + GRACE;
        made.insert(name.clone(), until);
    }
}

/// Requests the next offer. Returns its lifetime, or `None` if waiters must poll.
async fn grant_next(servers: &Servers, name: &LockName) -> Option<Duration> {
    let keys = Keys::new(&servers.config().key_prefix, name).ok()?;
    let arguments =
        [servers.counts_receivers(), servers.wakeups().released.as_str(), name.as_str()];
    let keys = keys.described();
    match servers.run(scripts::OFFER_AGAIN.call(&keys, &arguments, Effect::Changes)).await {
        Ok(redis::Value::Int(life @ 1..)) => Some(Duration::from_millis(life.unsigned_abs())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers;

    use super::*;

    fn claim(renewal_mode: RenewalMode) -> Claim {
        Claim { renewal_mode, ..test_helpers::claim("a") }
    }

    fn offered(offers: &Offers, claim: &Claim, micros: u64) -> Granted {
        match offers.receive(&format!("{} 7 1 {micros} 2000", claim.token)) {
            Some(Event::Handed(token, granted)) if token == claim.token => granted,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_hold_that_was_handed_over_begins_before_the_offer() {
        let offers = Offers::default();
        let claim = claim(RenewalMode::Auto);
        let sent = offers.clock.now() - Duration::from_secs(100);
        offers.waits(&claim, sent, 5_000_000, false);
        let granted = offered(&offers, &claim, 15_000_000);
        assert_eq!(granted.start, Some(sent + Duration::from_millis(9_900)));
        assert_eq!((granted.fence.get(), granted.valid), (7, Some(Duration::from_secs(2))));

        let again = offers.receive(&format!("{} 7 1 15000000 2000", claim.token));
        assert_eq!(again, None, "reported once");

        // The server's clock steps ahead between claim and offer.
        offers.waits(&claim, sent, 5_000_000, false);
        let before = offers.clock.now();
        let start = offered(&offers, &claim, 5_000_000_000).start.unwrap();
        assert!(before <= start && start <= offers.clock.now());
    }

    #[test]
    fn waiter_behind_offers_asks_once_after_the_last_of_them() {
        let offers = Offers::default();
        let claim = claim(RenewalMode::Auto);
        let behind = |life: u64| offers.receive_behind(&format!("behind {} {life}", claim.token));
        assert_eq!(behind(0), None, "it isn't waiting");
        offers.asks(claim.token);
        assert_eq!(behind(0), None, "it isn't queued yet");
        offers.waits(&claim, offers.clock.now(), 1, false);
        assert!(behind(0).is_some());
        assert_eq!(behind(60_000), None, "it is planned already");
        assert!(matches!(offers.asks_now(claim.token), Some(Err(_))), "later");
        offers.forget(claim.token);
        assert_eq!(offers.asks_now(claim.token), None);
        for odd in ["behind", "behind x", "behind x 1", "x"] {
            assert_eq!(offers.receive_behind(odd), None);
        }
    }

    #[test]
    fn unusable_offer_is_requested_again() {
        let offers = Offers::default();
        let (early, fixed) = (claim(RenewalMode::Auto), claim(RenewalMode::Off));
        offers.asks(early.token);
        let replicated = claim(RenewalMode::Auto);
        offers.waits(&fixed, offers.clock.now(), 1, false);
        offers.waits(&replicated, offers.clock.now(), 1, true);
        for claim in [&early, &fixed, &replicated] {
            assert_eq!(offered(&offers, claim, 2).valid, Some(Duration::ZERO));
        }
        assert_eq!(offers.receive(&format!("{} 7 1 2 2000", replicated.token)), None);
        let requeued = claim(RenewalMode::Auto);
        offers.waits(&requeued, offers.clock.now(), 3, false);
        assert_eq!(offered(&offers, &requeued, 2).valid, Some(Duration::ZERO), "it lapsed");
        for odd in ["", "x", &format!("{} 1", early.token)] {
            assert_eq!(offers.receive(odd), None);
        }
        let withdrawn = claim(RenewalMode::Auto);
        for queued in [false, true] {
            offers.asks(withdrawn.token);
            if queued {
                offers.waits(&withdrawn, offers.clock.now(), 1, false);
                offers.forget(withdrawn.token);
            } else {
                offers.asked(withdrawn.token);
            }
            assert_eq!(offers.receive(&format!("{} 7 1 2 2000", withdrawn.token)), None);
        }
    }
}
