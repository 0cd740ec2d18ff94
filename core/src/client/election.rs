use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::identity::check_text;
use crate::{BootInstant, Error, Fence, Identity, Leadership, Locks, Mode, Request, Result, Token};

use super::acquire::TRY_AGAIN;
use super::with::release_after;

impl Locks {
    /// Returns the election of this name.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election { locks: self.clone(), name: name.as_ref().to_owned() }
    }
}

/// An election of one leader: the holder of the mutex with the election's name.
///
/// ```no_run
/// # async fn example(locks: lockwright_core::Locks) -> lockwright_core::Result<()> {
/// let election = locks.election("scheduler");
/// election.lead("10.0.0.7:8080", async move |leadership| { /* lead */ }).await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Election {
    locks: Locks,
    name: String,
}

impl Election {
    /// Returns a request to lead. Any client can read `value`, which has at most
    /// [`Identity::LONGEST_VALUE`] bytes and no control characters.
    pub fn campaign(&self, value: impl AsRef<str>) -> Request<Leadership> {
        let value = value.as_ref();
        let mut request = Request::new(self.locks.shared(), &self.name, Mode::Exclusive);
        match check_text("leader's value", value, Identity::LONGEST_VALUE) {
            Ok(()) => {
                let mut identity = self.locks.identity().clone();
                identity.value = Some(Arc::from(value));
                request.options.identity = Some(Arc::new(identity));
            }
            Err(error) => request.name = request.name.and(Err(error)),
        }
        request
    }

    /// Campaigns with `value` (see [`campaign`](Self::campaign)) and the name's default TTL, without a
    /// wait limit, and polls `work` while this client leads. When `work` completes, resigns and returns
    /// the output.
    ///
    /// After a loss, drops `work`, also its output if the loss came during the last poll, and
    /// campaigns and calls `work` again. After a [transient](Error::is_transient) error, campaigns
    /// again.
    ///
    /// `work` is polled as by [`Leadership::run`], with the same limits.
    ///
    /// The returned future is `Send` if `work` and its future are. In a spawned task, `work` must be
    /// an `async move` closure or a function: the compiler rejects an async closure that borrows.
    ///
    /// # Errors
    /// - [`Closed`](crate::ErrorKind::Closed) after [`Locks::close`], which drops `work` and resigns.
    /// - [`Lost`](crate::ErrorKind::Lost) without the output, if the server reports at the
    ///   resignation that the leadership had ended: see [`Request::with`].
    /// - Those of [`Request::acquire`] that aren't transient.
    ///
    /// # Cancel safety
    /// Dropping the returned future drops `work`, and resigns in the background.
    pub async fn lead<T>(
        &self,
        value: impl AsRef<str>,
        work: impl AsyncFn(&Leadership) -> T,
    ) -> Result<T> {
        let shared = self.locks.shared();
        let name = shared.full_name(&self.name)?;
        let led = shared.unless_closed(self.complete(value.as_ref(), work)).await;
        let (leadership, output) = led.map_err(|error| shared.with_context(error, &name))?;
        release_after(leadership, output).await
    }

    async fn complete<T>(
        &self,
        value: &str,
        work: impl AsyncFn(&Leadership) -> T,
    ) -> Result<(Leadership, T)> {
        let shared = self.locks.shared();
        loop {
            let error = match self.campaign(value).no_limit().acquire().await {
                Ok(leadership) => match leadership.run(work(&leadership)).await {
                    Ok(output) => return Ok((leadership, output)),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            // The campaign has already retried, with pauses up to the longest.
            let pause = match error.lost_reason() {
                Some(_) => TRY_AGAIN.0,
                None if error.is_transient() => TRY_AGAIN.1,
                None => return Err(error),
            };
            shared.clock.sleep(shared.spread(pause)).await;
        }
    }

    /// Returns the leader, or `None` if no client leads. On Redis, this may be a candidate that
    /// hasn't confirmed its grant, for at most 2 s.
    ///
    /// # Errors
    /// As [`Locks::inspect`].
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let inspection = self.locks.inspect(&self.name).await?;
        Ok(inspection.holders.into_iter().next().map(|holder| Leader {
            value: holder.identity.as_ref().and_then(|identity| identity.value.clone()),
            identity: holder.identity,
            fence: holder.fence,
            token: holder.token,
        }))
    }

    /// Observes the leader by polling: by default every second, or more often if the profile's slow
    /// poll is shorter.
    pub fn observe(&self) -> Observer {
        let each = self.locks.profile().slow_poll.min(Duration::from_secs(1));
        let (next_look, looking) = (BootInstant::from_nanos(0), JoinSet::new());
        Observer { election: self.clone(), each, reported: None, next_look, looking }
    }
}

/// The leader of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The value of the leader's [campaign](Election::campaign), if known.
    pub value: Option<Arc<str>>,
    /// The leader's identity, if known.
    pub identity: Option<Identity>,
    /// The leader's fence, if known.
    pub fence: Option<Fence>,
    /// The leader's token; `None` if another library holds the lock.
    pub token: Option<Token>,
}

/// An observer of the leader.
#[derive(Debug)]
pub struct Observer {
    election: Election,
    each: Duration,
    reported: Option<Option<Leader>>,
    next_look: BootInstant,
    /// The query in progress. It continues if a call of `next` is dropped.
    looking: JoinSet<Result<Option<Leader>>>,
}

impl Observer {
    /// Sets the polling interval.
    pub fn each(mut self, time: Duration) -> Self {
        self.each = time;
        self
    }

    /// Waits until the leader differs from the last reported one. The first call returns at once.
    /// Polling may miss a short leadership.
    ///
    /// # Cancel safety
    /// May be dropped: the next call continues the query in progress.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        let shared = Arc::clone(self.election.locks.shared());
        shared.inside(self.look()).await
    }

    async fn look(&mut self) -> Result<Option<Leader>> {
        let clock = self.election.locks.shared().clock.clone();
        loop {
            if self.looking.is_empty() {
                clock.sleep_until(self.next_look).await;
                let election = self.election.clone();
                self.looking.spawn(async move { election.leader().await });
            }
            let Some(answer) = self.looking.join_next().await else { continue };
            self.next_look = clock.now() + self.each;
            let ended = |error| Error::unavailable("the query was cancelled").with_source(error);
            let leader = answer.map_err(ended)??;
            let token = |leader: &Option<Leader>| leader.as_ref().map(|leader| leader.token);
            if self.reported.as_ref().map(token) != Some(token(&leader)) {
                self.reported = Some(leader.clone());
                return Ok(leader);
            }
        }
    }
}
