//! Requests for several names. All clients acquire names in the same order, which prevents
//! deadlocks (Havender 1968).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    BootInstant, Error, ErrorKind, Guard, Locks, MultiGuard, Owner, Request, Result, Step,
};

use super::loss_signal::first_of;
use super::multi_guard::{release, remaining, renew, run};
use super::{Shared, until};

/// The shortest pause between two renewals of the locks acquired so far.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two checks for an alias: a second name of a held lock.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Locks {
    /// Returns a request for several mutexes, all or none.
    pub fn multi(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MultiRequest {
        MultiRequest { parts: Vec::new(), options: Options::default() }.and(self, names)
    }
}

/// A request for several names, all or none.
///
/// ```no_run
/// # async fn example(locks: lockwright_core::Locks) -> lockwright_core::Result<()> {
/// let both = locks.multi(["accounts/1", "accounts/2"]).acquire().await?;
/// // … transfer from one account to the other …
/// both.release().await
/// # }
/// ```
#[must_use = "a request does nothing until it is sent by acquire or try_acquire"]
#[derive(Debug, Clone)]
pub struct MultiRequest {
    parts: Vec<Part>,
    options: Options,
}

#[derive(Debug, Clone)]
struct Part {
    place: usize,
    locks: Locks,
    name: String,
}

enum Tried {
    Taken(Guard),
    Busy { is_apart: bool },
}

#[derive(Debug, Clone, Default)]
struct Options {
    ttl: Option<Duration>,
    is_fixed: bool,
    max_hold: Option<Duration>,
    /// `None` for the shortest default of the names, `Some(None)` for no limit.
    wait: Option<Option<Duration>>,
    owner: Option<Owner>,
}

impl MultiRequest {
    /// Adds names that the client `locks` acquires. If several clients have the same kind of
    /// backend, all programs must add these clients in the same order, or two requests may
    /// deadlock.
    pub fn and(mut self, locks: &Locks, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        for name in names {
            let (place, name) = (self.parts.len(), name.as_ref().to_owned());
            self.parts.push(Part { place, locks: locks.clone(), name });
        }
        self
    }

    /// Sets the TTL.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Disables renewal. If the request waited, all holds are renewed once at the end, so they end
    /// together. Otherwise each ends one TTL after its grant.
    pub fn fixed(mut self) -> Self {
        self.options.is_fixed = true;
        self
    }

    /// Limits the duration of each hold, counted from its grant.
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.options.max_hold = Some(time);
        self
    }

    /// Limits how long [`acquire`](Self::acquire) waits. The default is the shortest limit that a
    /// request for one of the names would have.
    pub fn wait_for(mut self, limit: Duration) -> Self {
        self.options.wait = Some(Some(limit));
        self
    }

    /// Removes the default wait limit from [`acquire`](Self::acquire).
    pub fn no_limit(mut self) -> Self {
        self.options.wait = Some(None);
        self
    }

    /// Allows re-entry: see [`Request::reentrant`].
    pub fn reentrant(mut self, owner: &Owner) -> Self {
        self.options.owner = Some(owner.clone());
        self
    }

    /// Waits for all of the names.
    ///
    /// # Errors
    /// As [`Request::acquire`]. Also [`Conflict`](ErrorKind::Conflict) if two names are one lock on
    /// the server, [`Lost`](ErrorKind::Lost) as soon as an acquired lock is lost, and
    /// [`InvalidInput`](ErrorKind::InvalidInput) without names. After an error, acquired locks are
    /// released.
    ///
    /// # Cancel safety
    /// May be dropped. Acquired locks are released in the background.
    pub async fn acquire(self) -> Result<MultiGuard> {
        let parts = self.in_order()?;
        let options = self.options_of(&parts);
        let now = parts[0].locks.shared().clock.now();
        let limit = options.wait.flatten().map(|wait| now + wait);
        let mut held = Vec::with_capacity(parts.len());
        let mut has_waited = false;
        for part in &parts {
            let taking = part.take(&options, &held, limit, &mut has_waited);
            match part.while_held(&held, self.options.is_fixed, taking).await {
                Ok(guard) => held.push(guard),
                Err(error) => {
                    give_back(held).await;
                    return Err(error);
                }
            }
        }
        self.finished(&parts, held, has_waited).await
    }

    /// Tries each name once. If a lock isn't free, releases the acquired locks and returns `None`.
    /// Errors and cancel safety are those of [`acquire`](Self::acquire), without timeouts.
    pub async fn try_acquire(self) -> Result<Option<MultiGuard>> {
        let parts = self.in_order()?;
        let mut held = Vec::with_capacity(parts.len());
        for part in &parts {
            let refused = match part.request(&self.options).try_acquire().await {
                Ok(Some(guard)) => {
                    held.push(guard);
                    continue;
                }
                Ok(None) => part.is_apart_from(&held).await,
                Err(error) => Err(error),
            };
            give_back(held).await;
            return refused.map(|_| None);
        }
        self.finished(&parts, held, false).await.map(Some)
    }

    fn in_order(&self) -> Result<Vec<&Part>> {
        let mut seen = HashSet::new();
        let mut parts: Vec<&Part> =
            self.parts.iter().filter(|part| seen.insert(part.id())).collect();
        // The sort is stable: equal names of one kind of backend keep the given order.
        parts.sort_by(|one, other| one.order(other));
        if parts.is_empty() {
            return Err(Error::invalid_input("a multi-lock has no name; add at least one"));
        }
        Ok(parts)
    }

    fn options_of(&self, parts: &[&Part]) -> Options {
        let defaults = || parts.iter().filter_map(|part| part.request(&self.options).options.wait);
        let wait = self.options.wait.unwrap_or_else(|| defaults().min());
        Options { wait: Some(wait), ..self.options.clone() }
    }

    async fn finished(
        &self,
        parts: &[&Part],
        held: Vec<Guard>,
        has_waited: bool,
    ) -> Result<MultiGuard> {
        let mut as_given: Vec<usize> = (0..held.len()).collect();
        as_given.sort_unstable_by_key(|at| parts[*at].place);
        let guard = MultiGuard { guards: held, as_given };
        // This renewal makes all fixed holds end together.
        let renewed = match self.options.is_fixed && has_waited {
            true => guard.renew().await,
            false => guard.check(),
        };
        let ready = || guard.guards.iter().try_for_each(|guard| guard.ready());
        match renewed.and_then(|()| ready()) {
            Ok(()) => Ok(guard),
            Err(error) => {
                give_back(guard.guards).await;
                Err(error)
            }
        }
    }
}

impl Part {
    fn backend(&self) -> &'static str {
        self.locks.shared().backend.profile().backend
    }

    fn order(&self, other: &Self) -> Ordering {
        let key = |part: &Self| {
            let namespace = part.locks.shared().settings.namespace.clone();
            (namespace + &part.name, part.backend())
        };
        key(self).cmp(&key(other))
    }

    fn id(&self) -> (*const Shared, &str) {
        (Arc::as_ptr(self.locks.shared()), &self.name)
    }

    fn request(&self, options: &Options) -> Request<Guard> {
        let mut request = self.locks.mutex(&self.name);
        if let Some(ttl) = options.ttl {
            request = request.ttl(ttl);
        }
        if options.is_fixed {
            request = request.fixed();
        }
        if let Some(time) = options.max_hold {
            request = request.max_hold(time);
        }
        if let Some(owner) = &options.owner {
            request = request.reentrant(owner);
        }
        request
    }

    async fn take(
        &self,
        options: &Options,
        held: &[Guard],
        limit: Option<BootInstant>,
        has_waited: &mut bool,
    ) -> Result<Guard> {
        if held.is_empty() {
            return self.wait(options, limit).await;
        }
        let shared = self.locks.shared();
        // A limit of zero is one try, whose answer is awaited without a limit.
        let limit_of_try = limit.filter(|_| options.wait != Some(Some(Duration::ZERO)));
        let trying = pin!(self.try_beside(options, held));
        let tried = match limit_of_try {
            None => Some(trying.await),
            Some(limit) => until(&shared.clock, limit, trying).await,
        };
        let (is_apart, failure) = match tried {
            None => return Err(self.timed_out(Step::Answer, None)),
            Some(Ok(Tried::Taken(guard))) => return Ok(guard),
            Some(Ok(Tried::Busy { is_apart })) => (is_apart, None),
            Some(Err(error)) if error.is_transient() => (false, Some(error)),
            Some(Err(error)) => return Err(error),
        };
        if limit_of_try.is_some_and(|limit| shared.clock.now() >= limit) {
            let step = if failure.is_some() { Step::Answer } else { Step::Holder };
            return Err(self.timed_out(step, failure));
        }
        *has_waited = true;
        tokio::select! {
            biased;
            taken = self.wait(options, limit) => taken,
            conflict = self.one_of(held), if !is_apart => Err(conflict),
        }
    }

    async fn try_beside(&self, options: &Options, held: &[Guard]) -> Result<Tried> {
        match self.request(options).try_acquire().await? {
            Some(guard) => Ok(Tried::Taken(guard)),
            None => self.is_apart_from(held).await.map(|is_apart| Tried::Busy { is_apart }),
        }
    }

    fn timed_out(&self, step: Step, failure: Option<Error>) -> Error {
        let shared = self.locks.shared();
        let name = match shared.full_name(&self.name) {
            Ok(name) => name,
            Err(error) => return error,
        };
        shared.metrics.timed_out.add(1);
        let error = Error::timed_out(step, &name);
        let error = match failure {
            Some(failure) => error.with_source(failure),
            None => error,
        };
        shared.with_context(error, &name)
    }

    async fn closed(held: &[Guard]) -> Error {
        let closed = held.iter().map(|guard| async move {
            guard.client().closed().await;
            guard.closed()
        });
        first_of(closed).await
    }

    async fn wait(&self, options: &Options, limit: Option<BootInstant>) -> Result<Guard> {
        let request = self.request(options);
        match limit {
            None => request.no_limit().acquire().await,
            Some(limit) => {
                let shared = self.locks.shared();
                let left = limit.saturating_since(shared.clock.now());
                request.wait_for(left).acquire().await
            }
        }
    }

    async fn while_held<F>(&self, held: &[Guard], is_fixed: bool, taking: F) -> Result<Guard>
    where
        F: Future<Output = Result<Guard>>,
    {
        run(held, async {
            tokio::select! {
                biased;
                error = Self::closed(held), if !held.is_empty() => Err(error),
                taken = taking => taken,
                never = self.renewing(held), if is_fixed && !held.is_empty() => match never {},
            }
        })
        .await?
    }

    async fn renewing(&self, held: &[Guard]) -> Infallible {
        loop {
            let pause = (remaining(held) / 3).max(SHORTEST_PAUSE);
            self.locks.shared().clock.sleep(pause).await;
            let _ = renew(held).await;
        }
    }

    /// Polls whether this name is an alias of a held lock. Returns only if it is, or if the server
    /// rejects the query.
    async fn one_of(&self, held: &[Guard]) -> Error {
        let shared = self.locks.shared();
        let each = shared.backend.profile().slow_poll.min(LONGEST_PAUSE);
        loop {
            shared.clock.sleep(shared.spread(each)).await;
            match self.is_apart_from(held).await {
                Ok(true) => std::future::pending().await,
                Ok(false) => {}
                Err(conflict) => return conflict,
            }
        }
    }

    /// Returns true if this name isn't an alias of a held lock, false if that is unknown, and a
    /// conflict for an alias.
    async fn is_apart_from(&self, held: &[Guard]) -> Result<bool> {
        if held.is_empty() {
            return Ok(true);
        }
        let holders = match self.locks.inspect(&self.name).await {
            Ok(seen) => seen.holders,
            Err(error) if error.is_transient() => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_holder = |guard: &&Guard| holders.iter().any(|h| h.token == Some(guard.token()));
        let Some(other) = held.iter().find(is_holder) else { return Ok(!holders.is_empty()) };
        let shared = self.locks.shared();
        let message = format!(
            "the name is the same lock on the server as {:?}, which this request already holds; remove \
             one of them",
            other.name()
        );
        let name = shared.full_name(&self.name)?;
        Err(shared.with_context(Error::new(ErrorKind::Conflict, message), &name))
    }
}

async fn give_back(held: Vec<Guard>) {
    // Dropping a closed client's guard releases the lock without a wait for the server.
    let _ = release(held.into_iter().filter(|guard| !guard.client().is_closed())).await;
}
