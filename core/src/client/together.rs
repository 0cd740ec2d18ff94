//! Many names that are held: what [`MultiRequest`](super::multi::MultiRequest) gets.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::error::Result;
use crate::token::Fence;

use super::guard::Guard;
use super::signal::Signal;

/// Many names that are held together. Dropped, they are released in the background.
#[must_use = "dropping the guard releases the locks; keep it for as long as they are needed"]
#[derive(Debug)]
pub struct MultiGuard {
    /// In the order in which they were acquired.
    pub(super) guards: Vec<Guard>,
    /// Where each of those stands that were given first, second, and so on.
    pub(super) as_given: Vec<usize>,
}

impl MultiGuard {
    /// Those of the single names, in the order in which they were acquired.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The single guards, from now on independent of each other.
    pub fn into_guards(self) -> Vec<Guard> {
        self.guards
    }

    /// The fence of the hold of `name`, if that is among them. Where several clients have one of that name,
    /// it is that of the client that was given first: `old.multi(["x"]).and(&new, ["x"])` has the fence that
    /// `old` gave.
    ///
    /// Fences of two backends can't be compared: one counts from 1, another by microseconds. Whatever
    /// refuses late writes compares those of one backend, and has a register for each of two, to which
    /// [`fences`](Self::fences) has one each. In a migration, whoever holds both is let in by both registers,
    /// and has written at least once between the end of the last one that holds the old lock alone and the
    /// beginning of the first that holds the new one alone, who is let in by the new register alone.
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.fences(name).next()
    }

    /// The fences of all holds of `name`, in the order in which their clients were given.
    pub fn fences(&self, name: &str) -> impl Iterator<Item = Fence> {
        let guards = self.as_given.iter().map(|at| &self.guards[*at]);
        guards.filter(move |guard| guard.name() == name).map(Guard::fence)
    }

    /// For how long yet all of them are held without a further renewal.
    pub fn remaining(&self) -> Duration {
        remaining(&self.guards)
    }

    /// Whether all of them are still held, by a look at the clock and without asking a server.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), with the name and the reason of the first one that is.
    pub fn check(&self) -> Result<()> {
        check(&self.guards)
    }

    /// Drives `future` for as long as all of them live, and drops it at the moment at which the first
    /// is lost: see [`Guard::run`].
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if one was lost before the future was done, or during its last poll.
    ///
    /// # Cancel safety
    /// Dropping it drops `future`; the guard is unharmed.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        run(&self.guards, future).await
    }

    /// Renews all of them now.
    ///
    /// # Errors
    /// As [`Guard::renew`], of the first that fails; the others are renewed all the same.
    ///
    /// # Cancel safety
    /// May be dropped; some are renewed then.
    pub async fn renew(&self) -> Result<()> {
        renew(&self.guards).await
    }

    /// Gives all of them back, the last one first, and waits for the servers' answers.
    ///
    /// # Errors
    /// As [`Guard::release`], of the first that fails; the others are released all the same.
    ///
    /// # Cancel safety
    /// When dropped, the releases go on in the background.
    pub async fn release(mut self) -> Result<()> {
        let mut failure = Ok(());
        while let Some(guard) = self.guards.pop() {
            failure = failure.and(guard.release().await);
        }
        failure
    }
}

fn check(guards: &[Guard]) -> Result<()> {
    guards.iter().try_for_each(Guard::check)
}

pub(super) fn remaining(guards: &[Guard]) -> Duration {
    guards.iter().map(Guard::remaining).min().unwrap_or_default()
}

/// Renews all of them. The first error, if there is one; the others are renewed all the same.
pub(super) async fn renew(guards: &[Guard]) -> Result<()> {
    let mut failure = Ok(());
    for guard in guards {
        failure = failure.and(guard.renew().await);
    }
    failure
}

/// Drives `future` for as long as all of them live.
pub(super) async fn run<F: Future>(guards: &[Guard], future: F) -> Result<F::Output> {
    let signals: Vec<Signal> = guards.iter().map(Guard::signal).collect();
    let mut ends: Vec<Pin<Box<_>>> = signals.iter().map(|s| Box::pin(s.ended())).collect();
    let mut future = pin!(future);
    let run = std::future::poll_fn(|cx| {
        check(guards)?;
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(check(guards).map(|()| output));
        }
        // Each is polled, so that each wakes; none is polled again after its end.
        let ended = ends.iter_mut().any(|end| end.as_mut().poll(cx).is_ready());
        match (ended, check(guards)) {
            (_, Err(error)) => Poll::Ready(Err(error)),
            (true, Ok(())) => {
                unreachable!("what has ended is lost: nobody else can release it")
            }
            (false, Ok(())) => Poll::Pending,
        }
    });
    match guards.first() {
        Some(guard) => guard.client().inside(run).await,
        None => run.await,
    }
}
