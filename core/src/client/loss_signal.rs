use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use crate::{BootInstant, HoldState, Reason, Result};

use super::Hold;
use super::state::releasing::lost;

/// A view of a guard's hold, or of all holds of a [`MultiGuard`](crate::MultiGuard), for other
/// tasks. The view doesn't keep the lock held.
#[derive(Debug, Clone)]
pub struct Signal {
    first: One,
    others: Vec<One>,
}

#[derive(Debug, Clone)]
struct One {
    hold: Arc<Hold>,
    /// The guard's turn. In later turns, the state is `Released`.
    turn: u32,
    seen: u32,
}

impl Signal {
    pub(crate) fn new(hold: &Arc<Hold>) -> Self {
        Self { first: One::new(hold), others: Vec::new() }
    }

    pub(super) fn of<'a>(holds: impl IntoIterator<Item = &'a Arc<Hold>>) -> Option<Self> {
        let mut all = holds.into_iter().map(One::new);
        Some(Self { first: all.next()?, others: all.collect() })
    }

    fn all(&self) -> impl Iterator<Item = &One> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns the state at this instant, including an unreported loss. Of several holds, returns
    /// the worst state: lost, then released, at risk, held.
    pub fn state(&self) -> HoldState {
        let states = self.all().map(One::state);
        states.max_by_key(|state| state.severity()).unwrap_or(HoldState::Held)
    }

    /// Returns when the hold counts as lost; of several holds, the earliest instant.
    pub fn lost_at(&self) -> BootInstant {
        self.others.iter().map(|one| one.hold.lost_at()).fold(self.first.hold.lost_at(), Ord::min)
    }

    /// Returns the deadline; of several holds, the earliest.
    pub fn deadline(&self) -> BootInstant {
        self.others.iter().map(|one| one.hold.deadline()).fold(self.first.hold.deadline(), Ord::min)
    }

    /// Waits until the hold, or the first of several, is released or lost.
    ///
    /// # Cancel safety
    /// May be dropped and called again. No change is missed.
    pub async fn ended(&self) -> HoldState {
        if self.others.is_empty() {
            return self.first.ended().await;
        }
        first_of(self.all().map(One::ended)).await;
        self.state()
    }

    /// Waits for a change since the last call: a renewal, a risk or the end. May report several
    /// changes as one. Returns at once after the end.
    ///
    /// # Cancel safety
    /// May be dropped and called again. No change is missed.
    pub async fn changed(&mut self) -> HoldState {
        if self.others.is_empty() {
            return self.first.changed().await;
        }
        let all = std::iter::once(&mut self.first).chain(&mut self.others);
        first_of(all.map(One::changed)).await;
        self.state()
    }
}

impl One {
    fn new(hold: &Arc<Hold>) -> Self {
        // Enables the hold's notifications.
        let _ = hold.changed();
        Self { turn: hold.turn_number(), seen: hold.version(), hold: Arc::clone(hold) }
    }

    /// Reads the turn after the state: the next turn's state must not be reported.
    fn state(&self) -> HoldState {
        let state = self.hold.state();
        if self.hold.turn_number() == self.turn { state } else { HoldState::Released }
    }

    async fn ended(&self) -> HoldState {
        self.until(|state, _| !state.is_live()).await
    }

    async fn changed(&mut self) -> HoldState {
        let mut version = self.seen;
        let is_news = |state: HoldState, now| {
            version = now;
            version != self.seen || !state.is_live()
        };
        let state = self.until(is_news).await;
        self.seen = version;
        state
    }

    async fn until(&self, mut is_over: impl FnMut(HoldState, u32) -> bool) -> HoldState {
        loop {
            let mut changed = pin!(self.hold.changed().notified());
            changed.as_mut().enable();
            // The version is read first, so that the next call reports a change between the two.
            let version = self.hold.version();
            let state = self.state();
            if is_over(state, version) {
                return state;
            }
            // This timer detects the loss on time even if the renewal task is late.
            let lost_at = self.hold.lost_at();
            tokio::select! {
                () = changed => {}
                () = self.hold.shared.sleep_until(lost_at) => {}
            }
        }
    }
}

/// Returns the first output. The other futures are dropped, so they must be cancel safe.
pub(super) async fn first_of<F: Future>(futures: impl IntoIterator<Item = F>) -> F::Output {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|cx| {
        let mut outputs = futures.iter_mut().map(|future| future.as_mut().poll(cx));
        outputs.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Polls `future` until a hold of `signal` ends. Calls `check` before each poll and after the last.
pub(super) async fn run<F: Future>(
    signal: Signal,
    check: impl Fn() -> Result<()>,
    future: F,
) -> Result<F::Output> {
    let hold = &signal.first.hold;
    let mut ended = pin!(signal.ended());
    let mut future = pin!(future);
    let run = poll_fn(|cx| {
        check()?;
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(check().map(|()| output));
        }
        if ended.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Err(check().err().unwrap_or_else(|| lost(hold, Reason::Expired))))
    });
    hold.shared.inside(run).await
}
