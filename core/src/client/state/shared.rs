use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend_util::lock;
use crate::client::ignore_panic;
use crate::client::in_runtime::InRuntime;
use crate::client::metrics::{Metrics, Totals};
use crate::client::waiters::Waiters;
use crate::validity::Term;
use crate::{BootInstant, Clock, DistributedLock, Error, Identity, LockName, ReleaseMode, Result};

use super::{Job, Settings, Shared};

impl Shared {
    pub(crate) fn new(
        backend: InRuntime,
        settings: Settings,
        identity: Identity,
        clock: Clock,
    ) -> Self {
        Self {
            usual_lengths: settings.rules.lengths(settings.defaults.ttl),
            settings,
            identity: Arc::new(identity),
            clock,
            table: Mutex::default(),
            waiters: Waiters::default(),
            metrics: Metrics::default(),
            renewer: Arc::default(),
            jobs: Mutex::default(),
            hold_events: Mutex::default(),
            has_hold_events: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            ended_lost: AtomicU64::new(0),
            background_jobs: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            changed: Notify::new(),
            trouble: Notify::new(),
            closing: Notify::new(),
            closed: AtomicBool::new(false),
            renewer_ended: AtomicBool::new(false),
            runtime: Mutex::new(backend.runtime.clone()),
            backend,
        }
    }

    /// Queues a job for the renewal task, even outside a runtime.
    pub(crate) fn in_background(job: Job) {
        let shared = Arc::clone(&job.shared);
        shared.background_jobs.fetch_add(1, Ordering::SeqCst);
        let mut jobs = lock(&shared.jobs);
        if !shared.renewer_ended.load(Ordering::Acquire) {
            jobs.push_back(job);
        }
        // Unlock first: if the renewal task has ended, the return drops the job, which may lock the
        // mutex.
        drop(jobs);
        shared.renewer.notify_one();
    }

    /// Drops the queued jobs, which would keep the client alive. Unreleased holds expire.
    pub(crate) fn renewer_has_ended(&self) {
        let jobs = {
            let mut jobs = lock(&self.jobs);
            self.renewer_ended.store(true, Ordering::Release);
            std::mem::take(&mut *jobs)
        };
        drop(jobs);
        // Warm holds would keep the client alive.
        self.end_all_warm();
        self.handle_hold_events();
        ignore_panic(|| self.changed.notify_waiters());
        ignore_panic(|| self.trouble.notify_waiters());
    }

    pub(crate) fn done_in_background(&self) {
        self.background_jobs.fetch_sub(1, Ordering::SeqCst);
        self.tell_changed();
    }

    pub(crate) fn count_ended(&self, was_live: bool) {
        let counter = if was_live { &self.ended } else { &self.ended_lost };
        counter.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn done_in_place(&self, was_live: bool) {
        if !was_live {
            self.ended_lost.fetch_sub(1, Ordering::SeqCst);
        }
        self.tell_changed();
    }

    pub(crate) fn releasing(&self) -> u64 {
        let totals = self.table().holds.totals();
        // A release that moves to the background enters `background_jobs` before it leaves the
        // other counters, so read `background_jobs` last.
        let in_place = self.ended_and_registered(totals) + self.ended_lost.load(Ordering::SeqCst);
        in_place + self.background_jobs.load(Ordering::SeqCst)
    }

    pub(crate) fn ended_and_registered(&self, totals: Totals) -> u64 {
        self.ended.load(Ordering::SeqCst).saturating_sub(totals.released)
    }

    pub(crate) fn tell_changed(&self) {
        if self.is_closed() {
            ignore_panic(|| self.changed.notify_waiters());
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn full_name(&self, name: &str) -> Result<LockName> {
        if self.settings.namespace.is_empty() {
            LockName::new(name)
        } else {
            LockName::prefixed(&self.settings.namespace, name)
        }
    }

    pub(crate) fn user_name(&self, full: &LockName) -> LockName {
        full.clone().without_prefix(&self.settings.namespace)
    }

    pub(crate) fn with_context(&self, error: Error, name: &LockName) -> Error {
        let error = error.with_name(&self.user_name(name));
        match error.backend() {
            Some(_) => error,
            None => error.with_backend(self.backend.profile().backend),
        }
    }

    /// Returns whether a release ends with its first answer. If not, an unanswered acquire may
    /// still be granted, so the release is repeated.
    pub(crate) fn one_answer_reconciles(&self, release_mode: ReleaseMode) -> bool {
        release_mode == ReleaseMode::Plain || self.backend.profile().tombstones
    }

    pub(crate) fn note_busy(&self, name: &LockName) {
        self.waiters.recently_busy.note(name, self.clock.now());
    }

    /// Returns whether this client noticed another client's hold or request in the last TTL.
    pub(crate) fn was_busy(&self, name: &LockName, now: BootInstant, ttl: Duration) -> bool {
        self.waiters.recently_busy.was_noted_after(name, now - ttl)
    }

    pub(crate) fn spread(&self, time: Duration) -> Duration {
        self.settings.jitter.spread(time)
    }

    pub(crate) fn term(
        &self,
        start: BootInstant,
        ttl: Duration,
        in_effect: Option<Duration>,
    ) -> Term {
        if ttl == self.settings.defaults.ttl && in_effect.is_none() {
            self.usual_lengths.from(start)
        } else {
            self.settings.rules.term(start, ttl, in_effect)
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.renewer.notify_one();
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("backend", &self.backend.profile().backend)
            .finish_non_exhaustive()
    }
}
