use std::pin::pin;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::error::{Error, Result};

use super::renewer::{renewer, reschedule_all};
use super::state::Shared;
use super::sweeper::sweeper;

/// How long `close` waits for requests that are never polled.
const TURN_AWAY: Duration = Duration::from_secs(1);

struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.tell_idle();
    }
}

impl Shared {
    pub(crate) fn ready(self: &Arc<Self>) -> Result<()> {
        if self.is_closed() {
            return Err(Error::closed());
        }
        if self.renewer_ended.load(Ordering::Acquire) {
            return self.restart_tasks();
        }
        Ok(())
    }

    /// Polls a request. Closing the client drops the request, which releases its claim.
    pub(crate) async fn unless_closed<T>(
        &self,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // `_waiting` is dropped last, so that `close` waits until the request's release is counted.
        let _waiting = Waiting::begin(self);
        self.inside(async {
            tokio::select! {
                biased;
                () = self.closed() => Err(Error::closed()),
                answer = request => answer,
            }
        })
        .await
    }

    pub(crate) async fn closed(&self) {
        let mut closing = pin!(self.closing.notified());
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
    }

    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let turned_away = self.table().turns.turn_away_all();
        drop(turned_away);
        self.closing.notify_waiters();
        let turned_away_by = self.clock.now() + TURN_AWAY;
        loop {
            let mut idle = pin!(self.idle.notified());
            idle.as_mut().enable();
            // A request that is turned away first counts its release, and then stops waiting.
            let nobody_waits = self.waiting.load(Ordering::SeqCst) == 0;
            let is_done = self.releasing() == 0;
            if self.renewer_ended.load(Ordering::Acquire) || (is_done && nobody_waits) {
                return;
            }
            if !is_done {
                idle.await;
                continue;
            }
            tokio::select! {
                () = idle => {}
                () = self.clock.sleep_until(turned_away_by) => return,
            }
        }
    }

    /// Polls `future`. Outside a runtime, the client's runtime provides timers and connections.
    pub(crate) async fn inside<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let client_runtime = Handle::try_current().is_err().then(|| self.runtime());
            let _inside = client_runtime.as_ref().map(Handle::enter);
            future.as_mut().poll(cx)
        })
        .await
    }

    fn runtime(&self) -> Handle {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn has_runtime(&self) -> Result<()> {
        if self.renewer_ended.load(Ordering::Acquire) && Handle::try_current().is_err() {
            return Err(no_runtime());
        }
        Ok(())
    }

    pub(super) fn start_tasks(self: &Arc<Self>, runtime: &Handle) {
        runtime.spawn(renewer(self));
        if let Some(idle) = self.settings.sweep {
            runtime.spawn(sweeper(self, idle));
        }
    }

    #[cold]
    fn restart_tasks(self: &Arc<Self>) -> Result<()> {
        let here = Handle::try_current().map_err(|error| no_runtime().with_source(error))?;
        if self.renewer_ended.swap(false, Ordering::AcqRel) {
            *self.runtime.lock().unwrap_or_else(PoisonError::into_inner) = here.clone();
            // The renewals in progress ended with the old runtime, so each hold is rechecked.
            reschedule_all(self, self.clock.now());
            self.start_tasks(&here);
        }
        // A runtime that is shutting down drops the new task at once, which sets `renewer_ended`
        // again.
        match self.renewer_ended.load(Ordering::Acquire) {
            true => Err(no_runtime()),
            false => Ok(()),
        }
    }
}

fn no_runtime() -> Error {
    Error::unavailable(
        "the tokio runtime that renews this client's locks has ended; make the request inside another \
         runtime, or create the client on a runtime that lives longer",
    )
}
