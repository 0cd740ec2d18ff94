use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::error::Result;
use crate::token::Fence;

use super::guard::Guard;
use super::loss_signal::Signal;
use super::state::Hold;

/// Several locks held together. Dropping the guard releases them in the background.
#[must_use = "dropping the guard releases the locks; keep it for as long as they are needed"]
#[derive(Debug)]
pub struct MultiGuard {
    pub(super) guards: Vec<Guard>,
    /// Indices in `guards`, in the order in which the names were added to the request.
    pub(super) as_given: Vec<usize>,
}

impl MultiGuard {
    pub(super) fn new(hold: Arc<Hold>) -> Self {
        Self { guards: vec![Guard::new(hold)], as_given: vec![0] }
    }

    /// Returns the guards, in the order of acquisition.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the guards.
    pub fn into_guards(self) -> Vec<Guard> {
        self.guards
    }

    /// Returns the first of the [`fences`](Self::fences) of `name`.
    ///
    /// Fences of two backends can't be compared, so a resource must store the highest fence of
    /// each.
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.fences(name).next()
    }

    /// Returns the fences of all holds of `name`, in the order in which the names were added to the
    /// request.
    pub fn fences(&self, name: &str) -> impl Iterator<Item = Fence> {
        let guards = self.as_given.iter().map(|at| &self.guards[*at]);
        guards.filter(move |guard| guard.name() == name).map(Guard::fence)
    }

    /// Returns the time until the first hold counts as lost.
    pub fn remaining(&self) -> Duration {
        remaining(&self.guards)
    }

    /// Returns when the first hold counts as lost: see [`Guard::lost_at`].
    pub fn lost_at(&self) -> BootInstant {
        self.first(Guard::lost_at)
    }

    /// Returns the first deadline: see [`Guard::deadline`].
    pub fn deadline(&self) -> BootInstant {
        self.first(Guard::deadline)
    }

    fn first(&self, instant: impl Fn(&Guard) -> BootInstant) -> BootInstant {
        self.guards.iter().map(instant).min().expect("a request for several names has a name")
    }

    /// Returns a view of all holds for other tasks.
    pub fn signal(&self) -> Signal {
        signal(&self.guards).expect("a request for several names has a name")
    }

    /// Checks that all locks are held: see [`Guard::check`]. The error is that of the first lost
    /// hold.
    pub fn check(&self) -> Result<()> {
        check(&self.guards)
    }

    /// Polls `future` while all holds are live: see [`Guard::run`].
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        run(&self.guards, future).await
    }

    /// Renews all holds.
    ///
    /// # Errors
    /// As [`Guard::renew`], for the first hold that fails. The others are still renewed.
    ///
    /// # Cancel safety
    /// May be dropped. Then only some holds may be renewed.
    pub async fn renew(&self) -> Result<()> {
        renew(&self.guards).await
    }

    /// Releases all holds, the last first.
    ///
    /// # Errors
    /// As [`Guard::release`], for the first hold that fails. The others are still released.
    ///
    /// # Cancel safety
    /// The releases continue in the background.
    pub async fn release(mut self) -> Result<()> {
        let mut failure = Ok(());
        while let Some(guard) = self.guards.pop() {
            failure = failure.and(guard.release().await);
        }
        failure
    }
}

fn signal(guards: &[Guard]) -> Option<Signal> {
    Signal::of(guards.iter().map(Guard::hold))
}

fn check(guards: &[Guard]) -> Result<()> {
    guards.iter().try_for_each(Guard::check)
}

pub(super) fn remaining(guards: &[Guard]) -> Duration {
    guards.iter().map(Guard::remaining).min().unwrap_or_default()
}

pub(super) async fn renew(guards: &[Guard]) -> Result<()> {
    let mut failure = Ok(());
    for guard in guards {
        failure = failure.and(guard.renew().await);
    }
    failure
}

pub(super) async fn run<F: Future>(guards: &[Guard], future: F) -> Result<F::Output> {
    let Some(signal) = signal(guards) else { return Ok(future.await) };
    let mut ended = pin!(signal.ended());
    let mut future = pin!(future);
    let run = std::future::poll_fn(|cx| {
        check(guards)?;
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(check(guards).map(|()| output));
        }
        match (ended.as_mut().poll(cx).is_ready(), check(guards)) {
            (_, Err(error)) => Poll::Ready(Err(error)),
            (true, Ok(())) => {
                unreachable!("what has ended is lost: nobody else can release it")
            }
            (false, Ok(())) => Poll::Pending,
        }
    });
    guards[0].client().inside(run).await
}
