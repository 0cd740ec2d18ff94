use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::backend_util::lock;
use crate::{BootInstant, Error, Result};

use super::renewer::{renewer, reschedule_all};
use super::state::background_release::RELEASE_PATIENCE;
use super::sweeper::sweeper;
use super::{Shared, ignore_panic, until};

/// How long `close` waits for requests that are never polled.
const REQUEST_LIMIT: Duration = Duration::from_secs(1);

/// How long `close` waits for releases that are never polled. A polled one ends within
/// [`RELEASE_PATIENCE`] or continues in the background.
const RELEASE_LIMIT: Duration = RELEASE_PATIENCE.saturating_add(Duration::from_secs(1));

/// How often the thread of [`Shared::sleep_until`] checks that its caller still waits.
const THREAD_SLEEP: Duration = Duration::from_secs(1);

struct Unpark(Thread);

impl Drop for Unpark {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

pub(crate) struct Waiting<'a>(&'a Shared);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.tell_changed();
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

    /// Counts a waiting request. Drop the request before the returned value, so that `close` waits
    /// until its release is counted.
    pub(crate) fn count_waiting(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// Counts and polls a request. A close of the client drops it, which releases its claim.
    pub(crate) async fn unless_closed<T>(
        &self,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let _waiting = self.count_waiting();
        self.until_closed(request).await
    }

    pub(crate) async fn until_closed<T>(
        &self,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
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
        let queued = self.table().turns.take_queued();
        // Each drop wakes a queued request, which then fails.
        queued.into_iter().for_each(|queued| ignore_panic(|| drop(queued)));
        self.end_all_warm();
        ignore_panic(|| self.closing.notify_waiters());
        // An error means that the client's runtime has ended, and with it all releases.
        let _ = self.inside(self.requests_and_releases_end()).await;
    }

    async fn requests_and_releases_end(&self) -> Result<()> {
        let begun = self.clock.now();
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            // A rejected request's release is counted before the request stops waiting, so
            // `waiting` must be read before `releasing`.
            let no_requests = self.waiting.load(Ordering::SeqCst) == 0;
            let no_releases = self.releasing() == 0;
            if self.renewer_ended.load(Ordering::Acquire) || (no_requests && no_releases) {
                return Ok(());
            }
            let limit = if self.background_jobs.load(Ordering::SeqCst) > 0 {
                BootInstant::FAR_FUTURE
            } else if no_releases {
                begun + REQUEST_LIMIT
            } else {
                begun + RELEASE_LIMIT
            };
            if until(&self.clock, limit, changed).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Polls `future`. Outside a runtime, the client's runtime provides timers and connections.
    /// After that runtime's end, returns an error, because a timer would panic.
    pub(crate) async fn inside<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if Handle::try_current().is_ok() {
                return future.as_mut().poll(cx);
            }
            let has_ended = || self.renewer_ended.load(Ordering::Acquire);
            if !has_ended() {
                let runtime = lock(&self.runtime).clone();
                let _inside = runtime.enter();
                let polled = future.as_mut().poll(cx);
                // If the runtime ended during the poll, it may never wake this task.
                if polled.is_ready() || !has_ended() {
                    return polled;
                }
            }
            Poll::Ready(Err(no_runtime()))
        })
        .await
    }

    /// Sleeps on a runtime's timer, or in a thread if the client's runtime has ended.
    pub(crate) async fn sleep_until(&self, instant: BootInstant) {
        let sleep = async {
            self.clock.sleep_until(instant).await;
            Ok(())
        };
        if self.inside(sleep).await.is_ok() {
            return;
        }
        let clock = self.clock.clone();
        let (slept, sleeping) = oneshot::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            let left = || instant.saturating_since(clock.now());
            while !slept.is_closed() && !left().is_zero() {
                std::thread::park_timeout(left().min(THREAD_SLEEP));
            }
        });
        let _unpark = Unpark(sleeper.thread().clone());
        // The thread's end drops `slept`, which ends this wait. If this future is dropped earlier,
        // it drops `sleeping` before `_unpark`, so the thread wakes and ends.
        let _ = sleeping.await;
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
            *lock(&self.runtime) = here.clone();
            // The old runtime's end also ended renewals in progress, so recheck each hold.
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
