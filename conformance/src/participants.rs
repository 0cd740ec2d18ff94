//! Holders and waiters who note what they believe, while members of a cluster die, freeze, are cut
//! off or restarted.
//!
//! What fault tests of several backends share: each participant is a client of its own, as another
//! process has one, and notes when it began and ceased to believe that it holds. All share one boot
//! clock, so that the notes can be compared. A promise that isn't kept is a panic that says which.

use std::time::Duration;

use lockwright_core::{BootInstant, Clock, Error, ErrorKind, Guard, HoldState, Locks, Mode};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::history::{History, Hold};

/// How often something is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(10);

/// Those who want one lock, with one TTL.
#[derive(Debug, Clone)]
pub struct Participants {
    name: String,
    ttl: Duration,
    slack: Duration,
    limit: Duration,
    history: History,
}

/// One who holds.
#[derive(Debug)]
pub struct Holder {
    /// The hold.
    pub guard: Guard,
    who: &'static str,
    invoked: BootInstant,
    granted: BootInstant,
    all: Participants,
}

impl Participants {
    /// Of the lock `name`. `slack` is how much later than promised something may happen that isn't
    /// about safety: elections, and a machine that is busy with other tests.
    pub fn new(name: &str, ttl: Duration, slack: Duration) -> Self {
        let limit = (ttl + slack) * 3;
        Self { name: name.to_owned(), ttl, slack, limit, history: History::default() }
    }

    /// Takes the lock. Who is told that nobody can be asked now, as in the middle of an election,
    /// asks again.
    ///
    /// # Panics
    /// When it is refused for another reason, or not granted for long.
    pub async fn hold(&self, who: &'static str, locks: &Locks) -> Holder {
        let end = now() + self.limit;
        loop {
            let invoked = now();
            let left = end.saturating_since(invoked);
            let asked = locks.mutex(&self.name).ttl(self.ttl).wait_for(left);
            match asked.acquire().await {
                Ok(guard) => {
                    return Holder { guard, who, invoked, granted: now(), all: self.clone() };
                }
                Err(error) if is_passing(&error) && now() < end => sleep(LOOK).await,
                // With what it was caused by: a time that is over says little.
                Err(error) => panic!("{who}: {error:?}"),
            }
        }
    }

    /// Waits for the lock in the background. It stands in the queue when this returns.
    pub async fn wait(&self, who: &'static str, locks: &Locks) -> JoinHandle<Holder> {
        let (all, waiting) = (self.clone(), locks.clone());
        let waiter = tokio::spawn(async move { all.hold(who, &waiting).await });
        let queued = async {
            while locks.inspect(&self.name).await.ok().and_then(|seen| seen.waiters) < Some(1) {
                sleep(LOOK).await;
            }
        };
        timeout(self.limit, queued).await.unwrap_or_else(|_| panic!("{who} isn't in the queue"));
        waiter
    }

    /// Shows of a fault that the hold survives it: it is renewed, nobody else gets it meanwhile, and
    /// the next one gets it when it is released.
    pub async fn survives(&self, holder: Holder, waiter: JoinHandle<Holder>) {
        holder.goes_on().await;
        assert!(!waiter.is_finished(), "the other one has it too");
        let fence = holder.guard.fence();
        holder.release().await;
        let next = self.turn_of(waiter).await;
        assert!(next.guard.fence() > fence, "{:?} after {fence:?}", next.guard.fence());
        next.release().await;
        self.check();
    }

    /// Shows of a fault that cuts the holder off: it is told in time, and the next one gets the lock
    /// later than that, but within `bound` and the slack. Answers who that is.
    pub async fn is_lost(
        &self,
        holder: &Holder,
        waiter: JoinHandle<Holder>,
        since: BootInstant,
        bound: Duration,
    ) -> Holder {
        let told = holder.until_lost().await;
        let next = self.turn_of(waiter).await;
        assert!(told < next.granted, "told {:?} late", told.saturating_since(next.granted));
        let took = next.granted.saturating_since(since);
        assert!(took < bound + self.slack, "the next one had to wait for {took:?}");
        assert!(next.guard.fence() > holder.guard.fence());
        next
    }

    /// Shows that the client that lost its hold gets the lock again when `before` has released it,
    /// without being made anew.
    pub async fn comes_back(&self, locks: &Locks, before: Holder) {
        let fence = before.guard.fence();
        before.release().await;
        let again = self.hold("again", locks).await;
        assert!(again.guard.fence() > fence);
        again.release().await;
        self.check();
    }

    /// Nobody believed at the same time as another, and fences grew.
    pub fn check(&self) {
        assert!(self.history.contended() > 0, "nobody waited: it showed nothing");
        assert_eq!(self.history.check(true), [], "{:#?}", self.history.holds());
    }

    /// The one who waits gets the lock.
    pub async fn turn_of(&self, waiter: JoinHandle<Holder>) -> Holder {
        timeout(self.limit, waiter).await.expect("it is its turn").expect("it doesn't panic")
    }
}

impl Holder {
    /// Gives the lock back. Where nobody can be asked now, that goes on in the background.
    ///
    /// # Panics
    /// When it isn't held any more.
    pub async fn release(self) {
        self.note_end(now());
        match self.guard.release().await {
            Err(error) if !is_passing(&error) => panic!("{}: {error}", self.who),
            _ => {}
        }
    }

    /// Waits until it is told that its hold is lost, and says when that was.
    pub async fn until_lost(&self) -> BootInstant {
        let ended = timeout(self.all.limit, self.guard.signal().ended()).await;
        let told = now();
        let ended = ended.expect("it is told");
        assert!(matches!(ended, HoldState::Lost(_)), "{}: {ended:?}", self.who);
        assert!(self.guard.check().is_err(), "{}: the signal and the look agree", self.who);
        self.note_end(told);
        told
    }

    /// Waits until its hold was confirmed by something that was asked for after this moment, and the
    /// TTL that it had then has passed: it goes on because it was renewed.
    pub async fn goes_on(&self) {
        let (from, ttl) = (now(), self.all.ttl);
        // A deadline is the TTL, less the allowance for drift, after what confirmed it.
        let is_confirmed = || self.guard.deadline() > from + ttl && now() > from + ttl;
        while !is_confirmed() {
            let state = self.guard.signal().state();
            assert!(state.is_live(), "{}: {state:?}", self.who);
            assert!(now() < from + ttl * 3 + self.all.slack, "{}: not renewed", self.who);
            sleep(LOOK).await;
        }
        self.guard.check().unwrap_or_else(|error| panic!("{}: {error}", self.who));
    }

    fn note_end(&self, ended: BootInstant) {
        self.all.history.add(Hold {
            who: self.who.to_owned(),
            name: self.all.name.clone(),
            mode: Mode::Exclusive,
            token: self.guard.token(),
            fence: self.guard.fence(),
            asked: self.invoked,
            granted: self.granted,
            until: ended,
        });
    }
}

/// Whether the same request may succeed later.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate)
}

/// On the clock that all of them share.
pub fn now() -> BootInstant {
    Clock::boot().now()
}
