//! Holders and waiters for fault tests of clusters. Failed checks panic.

use std::time::Duration;

use lockwright_conformance::history::{History, Hold};
use lockwright_core::{BootInstant, Clock, Error, ErrorKind, Guard, HoldState, Locks};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const NAME: &str = "orders";

/// The tolerance for server elections and a busy machine.
const SLACK: Duration = Duration::from_secs(20);

const LOOK: Duration = Duration::from_millis(10);

/// Clients of one lock that share a boot clock.
#[derive(Clone)]
pub(crate) struct Participants {
    ttl: Duration,
    limit: Duration,
    history: History,
}

pub(crate) struct Holder {
    pub(crate) guard: Guard,
    who: &'static str,
    asked: BootInstant,
    granted: BootInstant,
    all: Participants,
}

pub(crate) fn participants(ttl: Duration) -> Participants {
    Participants { ttl, limit: (ttl + SLACK) * 3, history: History::default() }
}

impl Participants {
    /// Acquires the lock, and retries while no server is available.
    pub(crate) async fn hold(&self, who: &'static str, locks: &Locks) -> Holder {
        let end = now() + self.limit;
        loop {
            let asked = now();
            let left = end.saturating_since(asked);
            let request = locks.mutex(NAME).ttl(self.ttl).wait_for(left);
            match request.acquire().await {
                Ok(guard) => {
                    return Holder { guard, who, asked, granted: now(), all: self.clone() };
                }
                Err(error) if is_passing(&error) && now() < end => sleep(LOOK).await,
                // Only `Debug` shows the error's cause.
                Err(error) => panic!("{who}: {error:?}"),
            }
        }
    }

    /// Starts a waiter, and returns once it is queued.
    pub(crate) async fn wait(&self, who: &'static str, locks: &Locks) -> JoinHandle<Holder> {
        let (all, waiting) = (self.clone(), locks.clone());
        let waiter = tokio::spawn(async move { all.hold(who, &waiting).await });
        let queued = async {
            while locks.inspect(NAME).await.ok().and_then(|seen| seen.waiters) < Some(1) {
                sleep(LOOK).await;
            }
        };
        timeout(self.limit, queued).await.unwrap_or_else(|_| panic!("{who} isn't in the queue"));
        waiter
    }

    /// Asserts that `holder` renews, and `waiter` is granted only after the release.
    pub(crate) async fn survives(&self, holder: Holder, waiter: JoinHandle<Holder>) {
        holder.goes_on().await;
        assert!(!waiter.is_finished(), "the waiter was granted while the lock was held");
        let fence = holder.guard.fence();
        holder.release().await;
        let next = self.turn_of(waiter).await;
        assert!(next.guard.fence() > fence, "{:?} after {fence:?}", next.guard.fence());
        next.release().await;
        self.check();
    }

    /// Asserts that the holder's client reports the loss before the waiter's grant, which comes
    /// less than `bound + SLACK` after `since`.
    pub(crate) async fn is_lost(
        &self,
        holder: &Holder,
        waiter: JoinHandle<Holder>,
        since: BootInstant,
        bound: Duration,
    ) -> Holder {
        let noticed = holder.until_lost().await;
        let next = self.turn_of(waiter).await;
        assert!(
            noticed < next.granted,
            "the loss was signalled {:?} late",
            noticed.saturating_since(next.granted)
        );
        let took = next.granted.saturating_since(since);
        assert!(took < bound + SLACK, "late: the next client was granted after {took:?}");
        assert!(next.guard.fence() > holder.guard.fence());
        next
    }

    pub(crate) async fn comes_back(&self, locks: &Locks, before: Holder) {
        let fence = before.guard.fence();
        before.release().await;
        let again = self.hold("again", locks).await;
        assert!(again.guard.fence() > fence);
        again.release().await;
        self.check();
    }

    pub(crate) fn check(&self) {
        assert!(self.history.contended() > 0, "inconclusive: no client waited");
        assert_eq!(self.history.check(true), [], "{:#?}", self.history.holds());
    }

    pub(crate) async fn turn_of(&self, waiter: JoinHandle<Holder>) -> Holder {
        timeout(self.limit, waiter)
            .await
            .expect("the waiter is granted")
            .expect("the waiter doesn't panic")
    }
}

impl Holder {
    /// Releases the lock, in the background if no server is available.
    pub(crate) async fn release(self) {
        self.note_end(now());
        match self.guard.release().await {
            Err(error) if !is_passing(&error) => panic!("{}: {error}", self.who),
            _ => {}
        }
    }

    pub(crate) async fn until_lost(&self) -> BootInstant {
        let ended = timeout(self.all.limit, self.guard.signal().ended()).await;
        let noticed = now();
        let ended = ended.expect("the loss is signalled");
        assert!(matches!(ended, HoldState::Lost(_)), "{}: {ended:?}", self.who);
        assert!(
            self.guard.check().is_err(),
            "{}: the loss was signalled, but the check succeeds",
            self.who
        );
        self.note_end(noticed);
        noticed
    }

    /// Waits for one TTL, and for a renewal sent after this call.
    pub(crate) async fn goes_on(&self) {
        let (from, ttl) = (now(), self.all.ttl);
        // A deadline is less than one TTL after its renewal was sent, so a deadline after
        // `from + ttl` means a renewal after `from`.
        let is_confirmed = || self.guard.deadline() > from + ttl && now() > from + ttl;
        while !is_confirmed() {
            let state = self.guard.signal().state();
            assert!(state.is_live(), "{}: {state:?}", self.who);
            assert!(now() < from + ttl * 3 + SLACK, "late: {}: the hold is not renewed", self.who);
            sleep(LOOK).await;
        }
        self.guard.check().unwrap_or_else(|error| panic!("{}: {error:?}", self.who));
    }

    fn note_end(&self, until: BootInstant) {
        let (who, name) = (self.who.to_owned(), NAME.to_owned());
        let (token, fence, mode) = (self.guard.token(), self.guard.fence(), self.guard.mode());
        let (asked, granted) = (self.asked, self.granted);
        self.all.history.add(Hold { who, name, mode, token, fence, asked, granted, until });
    }
}

fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate)
}

pub(crate) fn now() -> BootInstant {
    Clock::boot().now()
}
