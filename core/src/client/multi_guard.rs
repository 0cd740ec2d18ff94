use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::{BootInstant, Fence, Guard, Result, Signal};

use super::Hold;
use super::loss_signal;

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

    /// Returns the first of the [`fences`](Self::fences) of `name`. Fences of two backends can't be
    /// compared, so a resource must store the highest fence per backend.
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.fences(name).next()
    }

    /// Returns the fences of `name`, one per client, in the order in which the clients' names were
    /// added to the request.
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

    /// Checks that all locks are held: see [`Guard::check`]. If several are lost, the error is
    /// about the one acquired first.
    pub fn check(&self) -> Result<()> {
        check(&self.guards)
    }

    /// Polls `future` while all holds are live: see [`Guard::run`].
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        run(&self.guards, future).await
    }

    /// Renews all holds in parallel.
    ///
    /// # Errors
    /// As [`Guard::renew`], for a hold that fails. The others are still renewed.
    ///
    /// # Cancel safety
    /// May be dropped. Some holds may then be renewed, and others not.
    pub async fn renew(&self) -> Result<()> {
        renew(&self.guards).await
    }

    /// Releases all holds in parallel.
    ///
    /// # Errors
    /// As [`Guard::release`], for a hold that fails. The others are still released.
    ///
    /// # Cancel safety
    /// The releases continue in the background.
    pub async fn release(self) -> Result<()> {
        release(self.guards.into_iter()).await
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
    all(guards.iter().map(Guard::renew)).await
}

pub(super) async fn release(guards: impl DoubleEndedIterator<Item = Guard>) -> Result<()> {
    all(guards.rev().map(Guard::release)).await
}

/// Polls all futures to their end. Returns the first error, in their order.
async fn all(futures: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    let mut all: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, result) in &mut all {
            if result.is_none() {
                *result = match future.as_mut().poll(cx) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                };
            }
        }
        if all.iter().all(|(_, result)| result.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.into_iter().filter_map(|(_, result)| result).collect()
}

pub(super) async fn run<F: Future>(guards: &[Guard], future: F) -> Result<F::Output> {
    match signal(guards) {
        Some(signal) => loss_signal::run(signal, || check(guards), future).await,
        None => Ok(future.await),
    }
}
