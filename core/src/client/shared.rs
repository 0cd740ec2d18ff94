//! What all parts of one client share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::DistributedLock;
use crate::claim::Settle;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{Event, Reason};
use crate::identity::Identity;
use crate::name::LockName;
use crate::token::{Token, TokenSource};
use crate::validity::Rules;

use super::background::Job;
use super::metrics::Metrics;
use super::parking::Parking;
use super::registry::Registry;
use super::turns::Turns;

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) namespace: String,
    pub(crate) rules: Rules,
    pub(crate) tokens: TokenSource,
}

/// What all parts of one client share: its handles, its holds, its keeper.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn DistributedLock>,
    pub(crate) settings: Settings,
    pub(crate) identity: Arc<Identity>,
    pub(crate) clock: Clock,
    pub(crate) turns: Turns,
    pub(crate) parking: Parking,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    /// Rouses the keeper.
    pub(crate) keeper: Notify,
    /// Releases that wait for the keeper to start them.
    pub(crate) jobs: Mutex<VecDeque<Job>>,
    /// Facts about holds that the backend told and the keeper hasn't looked at.
    pub(crate) facts: Mutex<Vec<(Token, Fact)>>,
    /// Releases under way, in place or in the background.
    releasing: AtomicUsize,
    /// Told when the last release is done, and when the keeper has gone.
    pub(crate) idle: Notify,
    pub(crate) closed: AtomicBool,
    /// All handles of the user's have gone.
    pub(crate) orphaned: AtomicBool,
    pub(crate) keeper_gone: AtomicBool,
}

/// What a backend can tell about a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    AtRisk,
    Lost(Reason),
}

impl Shared {
    pub(crate) fn new(
        backend: Arc<dyn DistributedLock>,
        settings: Settings,
        identity: Identity,
        clock: Clock,
    ) -> Self {
        Self {
            backend,
            settings,
            identity: Arc::new(identity),
            clock,
            turns: Turns::default(),
            parking: Parking::default(),
            registry: Registry::default(),
            metrics: Metrics::default(),
            keeper: Notify::new(),
            jobs: Mutex::default(),
            facts: Mutex::default(),
            releasing: AtomicUsize::new(0),
            idle: Notify::new(),
            closed: AtomicBool::new(false),
            orphaned: AtomicBool::new(false),
            keeper_gone: AtomicBool::new(false),
        }
    }

    /// Takes in what the backend tells. Called from any thread, so it only notes and notifies.
    pub(crate) fn on_event(&self, event: Event) {
        match event {
            Event::Wake(name) => self.parking.wake(&name),
            Event::Handed(token, granted) => self.parking.hand(token, granted),
            Event::AtRisk(token) => self.note(token, Fact::AtRisk),
            Event::Lost(token, reason) => self.note(token, Fact::Lost(reason)),
            // Nothing is kept without use yet, so there is nothing to give back.
            Event::Recall(_) => {}
        }
    }

    fn note(&self, token: Token, fact: Fact) {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).push((token, fact));
        self.keeper.notify_one();
    }

    /// Has the keeper release a claim. May be called from any thread, also outside a runtime.
    pub(crate) fn in_background(&self, job: Job) {
        self.begin_release();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.keeper.notify_one();
    }

    pub(crate) fn begin_release(&self) {
        self.releasing.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end_release(&self) {
        if self.releasing.fetch_sub(1, Ordering::AcqRel) == 1
            && (self.closed.load(Ordering::Acquire) || self.orphaned.load(Ordering::Acquire))
        {
            self.idle.notify_waiters();
            self.keeper.notify_one();
        }
    }

    pub(crate) fn releasing(&self) -> usize {
        self.releasing.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The name on the server of what the user calls `name`.
    pub(crate) fn full_name(&self, name: &str) -> Result<LockName> {
        if self.settings.namespace.is_empty() {
            LockName::new(name)
        } else {
            LockName::prefixed(&self.settings.namespace, name)
        }
    }

    /// What the user calls the name `full` on the server.
    pub(crate) fn user_name(&self, full: &LockName) -> LockName {
        full.clone().without_prefix(&self.settings.namespace)
    }

    /// The error as the user sees it: with the name that the user gave, and the backend.
    pub(crate) fn tell(&self, error: Error, name: &LockName) -> Error {
        let error = error.with_name(&self.user_name(name));
        match error.backend() {
            Some(_) => error,
            None => error.with_backend(self.backend.profile().backend),
        }
    }

    /// Whether a claim is settled once its release was answered. Where an acquire was left
    /// unanswered it may still arrive, and only a tombstone keeps it out.
    pub(crate) fn one_answer_settles(&self, settle: Settle) -> bool {
        settle == Settle::Answered || self.backend.profile().tombstones
    }

    /// A fresh claim's token.
    pub(crate) fn token(&self) -> Token {
        self.settings.tokens.next()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("backend", &self.backend.profile().backend)
            .finish_non_exhaustive()
    }
}
