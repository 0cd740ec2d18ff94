//! A small connection pool with a time limit for each request.
//!
//! A connection is reused only after a complete answer. Otherwise, the client ends its session, so
//! no late answer reaches the next request. sqlx's pool, which pings the server after each request,
//! is used only if the program [gives its own](Dialect::borrows).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright_core::backend_util::lock;
use lockwright_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant as Deadline, timeout_at};

use super::abandoned::{self, Abandoned, Session};
use super::{
    Arguments, BadRow, Dialect, Effect, Failure, Row, SessionLimit, SessionPermit, Sql, Use, errors,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) answer: Duration,
    /// The limit for listings, sweeps and new tables.
    pub(crate) slow: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) until: Deadline,
    pub(crate) answer: Duration,
    /// True for renewals, which have one reserved connection.
    pub(crate) renews: bool,
    /// True to repeat an unanswered request after the server has ended its session.
    pub(crate) again: bool,
    /// True if the request may wait for another session's lock, so its timeout indicates no dead
    /// connection.
    pub(crate) waits: bool,
}

const TRIES: u32 = 5;

const IDLE: Duration = Duration::from_secs(300);

/// If a request is dropped after this time without an answer, the connections of its
/// [generation](Idle::generation) are probably dead, and the pool closes them.
const SILENCE: Duration = Duration::from_millis(100);

pub(crate) struct Pool<D: Dialect> {
    dialect: Arc<D>,
    limits: Limits,
    sessions: SessionLimit,
    turns: Arc<Semaphore>,
    /// Limits requests other than renewals, with one permit less than `turns`.
    ordinary: Arc<Semaphore>,
    idle: Mutex<Idle<D::Connection>>,
    abandoned: Arc<Abandoned<D>>,
}

struct Idle<C> {
    connections: Vec<(Connected<C>, Instant)>,
    /// Incremented when all connections seem dead. Those of earlier generations aren't returned to
    /// the pool.
    generation: u64,
    answered: Instant,
}

pub(crate) type Turn = (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

struct Connected<C> {
    connection: Option<C>,
    /// `None` behind a pooler.
    session: Option<Session>,
    permit: SessionPermit,
}

struct Taken<'a, D: Dialect> {
    pool: &'a Pool<D>,
    connected: Option<Connected<D::Connection>>,
    turn: Option<Turn>,
    generation: u64,
    sent: Option<Instant>,
    is_old: bool,
    runtime: Handle,
}

impl<D: Dialect> Pool<D> {
    pub(crate) fn new(dialect: D, limits: Limits, sessions: SessionLimit) -> Self {
        let dialect = Arc::new(dialect);
        let requests = sessions.share(Use::Request).max(1);
        Self {
            abandoned: Arc::new(Abandoned::new(Arc::clone(&dialect), limits)),
            dialect,
            limits,
            sessions,
            turns: Arc::new(Semaphore::new(requests)),
            ordinary: Arc::new(Semaphore::new(requests.saturating_sub(1).max(1))),
            idle: Mutex::new(Idle { connections: vec![], generation: 0, answered: Instant::now() }),
        }
    }

    pub(crate) fn dialect(&self) -> &D {
        &self.dialect
    }

    pub(crate) fn shared_dialect(&self) -> Arc<D> {
        Arc::clone(&self.dialect)
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn sessions(&self) -> &SessionLimit {
        &self.sessions
    }

    pub(crate) fn abandon(
        &self,
        runtime: &Handle,
        session: Session,
        permit: SessionPermit,
    ) -> oneshot::Receiver<()> {
        self.abandoned.add(runtime, session, (Some(permit), None))
    }

    pub(crate) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message).with_backend(self.dialect.backend())
    }

    pub(crate) fn sound<T>(&self, read: Result<T, BadRow>) -> Result<T> {
        read.map_err(|bad| errors::bad_row(bad, self.dialect.backend()))
    }

    pub(crate) fn refusal(&self) -> Option<String> {
        self.abandoned.refusal()
    }

    pub(crate) fn slowly(&self) -> Sending {
        self.sending(self.limits.slow)
    }

    pub(crate) fn sending(&self, answer: Duration) -> Sending {
        let until = Deadline::now() + self.limits.connect + answer;
        Sending { until, answer, renews: false, again: false, waits: false }
    }

    /// Fetches rows. Retries a request that failed because of a concurrent one.
    ///
    /// # Cancel safety
    /// The server may still carry out a dropped request.
    pub(crate) async fn fetch(
        &self,
        sql: &Sql,
        arguments: Arguments<'_>,
        effect: Effect,
    ) -> Result<Vec<Row>> {
        self.fetch_so(sql, arguments, effect, self.sending(self.limits.answer)).await
    }

    pub(crate) async fn fetch_so(
        &self,
        sql: &Sql,
        arguments: Arguments<'_>,
        effect: Effect,
        sending: Sending,
    ) -> Result<Vec<Row>> {
        Ok(self.fetch_doubting(sql, arguments, effect, sending).await?.0)
    }

    pub(crate) async fn fetch_text(&self, text: String, effect: Effect) -> Result<Vec<Row>> {
        self.fetch_so(&Sql::raw(text), &[], effect, self.slowly()).await
    }

    /// Also returns whether an earlier, unanswered try of a change may have taken effect.
    pub(crate) async fn fetch_doubting(
        &self,
        sql: &Sql,
        arguments: Arguments<'_>,
        effect: Effect,
        mut sending: Sending,
    ) -> Result<(Vec<Row>, bool)> {
        let mut tries = 1;
        let mut is_unsure = false;
        loop {
            let mut when_ended = None;
            match self.try_fetch(sql, arguments, effect, sending, &mut when_ended).await {
                Ok(rows) => return Ok((rows, is_unsure)),
                // The program's pool may return several unusable connections, until the time limit.
                Err(failure) if failure.again && failure.lost && self.dialect.borrows() => {}
                Err(failure) if failure.again && tries < TRIES => tries += 1,
                Err(failure) => {
                    let has_ended = match when_ended {
                        Some(ended) if sending.again => {
                            matches!(timeout_at(sending.until, ended).await, Ok(Ok(())))
                        }
                        _ => false,
                    };
                    if !has_ended {
                        return Err(doubted(failure.error, is_unsure));
                    }
                    is_unsure = effect == Effect::Changes;
                    sending.again = false;
                }
            }
        }
    }

    async fn try_fetch(
        &self,
        sql: &Sql,
        arguments: Arguments<'_>,
        effect: Effect,
        sending: Sending,
        when_ended: &mut Option<oneshot::Receiver<()>>,
    ) -> Result<Vec<Row>, Failure> {
        let mut taken = self.take(sending).await?;
        let left = sending.until.saturating_duration_since(Deadline::now());
        let may_repeat = sending.again && !self.dialect.borrows();
        let limit = sending.answer.min(if may_repeat { left * 3 / 5 } else { left });
        taken.sent = Some(Instant::now());
        let answered = {
            let Some(Connected { connection: Some(connection), .. }) = &mut taken.connected else {
                unreachable!("it is connected")
            };
            let answer = self.dialect.execute(connection, sql, arguments);
            tokio::time::timeout(limit, answer).await
        };
        match answered {
            Ok(Ok(rows)) => {
                self.give_back(taken);
                Ok(rows)
            }
            Ok(Err(cause)) => {
                let failure = errors::failed(cause, effect, &*self.dialect);
                taken.sent = None;
                if failure.lost {
                    self.forget(taken.generation, None, &taken.runtime);
                }
                Err(failure)
            }
            Err(_) => {
                if sending.waits {
                    taken.sent = None;
                } else {
                    // A renewal's timeout always closes the generation's connections, so the next
                    // renewal gets no dead one.
                    let sent = taken.sent.filter(|_| !sending.renews);
                    self.forget(taken.generation, sent, &taken.runtime);
                }
                if taken.is_old {
                    *when_ended = taken.end();
                }
                Err(errors::timed_out(effect, limit, self.dialect.backend()).into())
            }
        }
    }

    async fn take(&self, sending: Sending) -> Result<Taken<'_, D>, Failure> {
        let deadline = sending.until;
        let begun = Deadline::now();
        let backend = self.dialect.backend();
        let busy = || errors::no_session_in(begun.elapsed(), self.refusal(), backend);
        let turn = async {
            let ordinary = match sending.renews {
                true => None,
                false => Some(Arc::clone(&self.ordinary).acquire_owned().await.ok()?),
            };
            let any = Arc::clone(&self.turns).acquire_owned().await.ok()?;
            Some((ordinary, any))
        };
        let turn = timeout_at(deadline, turn).await.ok().flatten().ok_or_else(busy)?;
        let mut taken = Taken {
            pool: self,
            connected: None,
            turn: Some(turn),
            generation: 0,
            sent: None,
            is_old: true,
            runtime: Handle::current(),
        };
        {
            let mut idle = lock(&self.idle);
            taken.generation = idle.generation;
            // Takes the most recently used one, so unneeded ones reach the idle limit.
            if let Some((connected, used)) = idle.connections.pop() {
                if used.elapsed() < IDLE {
                    taken.connected = Some(connected);
                    return Ok(taken);
                }
                idle.connections.push((connected, used));
                let old = std::mem::take(&mut idle.connections);
                drop(idle);
                self.end_idle(old, &taken.runtime);
            }
        }
        taken.is_old = false;
        let mut deadline = deadline.min(Deadline::now() + self.limits.connect);
        if self.dialect.borrows() {
            // Leaves time for the answer. A late one would cost the program a connection.
            let left = sending.until.saturating_duration_since(Deadline::now());
            deadline = deadline.min(sending.until - sending.answer.min(left / 4));
        }
        let limit = deadline.saturating_duration_since(Deadline::now());
        let permit = self.sessions.permit(Use::Request, deadline).await.ok_or_else(busy)?;
        let (dialect, limits) = (self.shared_dialect(), self.limits);
        let opening = async move { dialect.open(limits).await };
        let connected = Connected { connection: None, session: None, permit };
        let connected = taken.connected.insert(connected);
        let opened = if self.dialect.borrows() {
            // Without a task, so a dropped request also stops waiting for the pool.
            Ok(Ok(timeout_at(deadline, opening).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))))
        } else {
            let (session, opened) = abandoned::open(&taken.runtime, opening);
            connected.session = Some(session);
            timeout_at(deadline, opened).await
        };
        match opened {
            Ok(Ok(Ok((connection, session)))) => {
                connected.connection = Some(connection);
                connected.session = session.map(Session::Open);
                Ok(taken)
            }
            Ok(Ok(Err(cause))) => {
                taken.connected = None;
                Err(errors::not_connected(&cause, &*self.dialect).into())
            }
            Ok(Err(_)) | Err(_) => Err(errors::not_connected_in(limit, backend).into()),
        }
    }

    fn give_back(&self, mut taken: Taken<'_, D>) {
        if self.dialect.borrows() {
            taken.sent = None;
            return;
        }
        let mut idle = lock(&self.idle);
        if taken.generation == idle.generation {
            let now = Instant::now();
            idle.answered = now;
            idle.connections.extend(taken.connected.take().map(|connected| (connected, now)));
            if idle.connections.first().is_some_and(|(_, used)| used.elapsed() > IDLE) {
                let old = vec![idle.connections.remove(0)];
                drop(idle);
                self.end_idle(old, &taken.runtime);
            }
        } else {
            taken.sent = None;
        }
    }

    /// Closes the generation's connections after a failed request, unless the server is just slow:
    /// it answered another in the second half of the time since `sent`.
    fn forget(&self, generation: u64, sent: Option<Instant>, runtime: &Handle) {
        let dead = {
            let mut idle = lock(&self.idle);
            let is_slow = sent.is_some_and(|sent| idle.answered > sent + sent.elapsed() / 2);
            if idle.generation != generation || is_slow {
                return;
            }
            idle.generation += 1;
            std::mem::take(&mut idle.connections)
        };
        self.end_idle(dead, runtime);
    }

    fn end_idle(&self, idle: Vec<(Connected<D::Connection>, Instant)>, runtime: &Handle) {
        for (connected, _) in idle {
            let Connected { connection, session, permit } = connected;
            drop(connection);
            if let Some(session) = session {
                self.abandoned.add(runtime, session, (Some(permit), None));
            }
        }
    }
}

/// Makes an error `Indeterminate` if `is_unsure`: an earlier try may have taken effect.
pub(crate) fn doubted(error: Error, is_unsure: bool) -> Error {
    if !is_unsure || error.kind() == ErrorKind::Indeterminate {
        return error;
    }
    let message =
        "the server did not answer, and a second try failed; the request may have been carried out";
    Error::indeterminate(message).with_source(error)
}

impl<D: Dialect> Drop for Pool<D> {
    fn drop(&mut self) {
        self.abandoned.close();
    }
}

impl<D: Dialect> Taken<'_, D> {
    fn end(&mut self) -> Option<oneshot::Receiver<()>> {
        let turn = self.turn.take();
        let Connected { connection, session, permit } = self.connected.take()?;
        drop(connection);
        Some(self.pool.abandoned.add(&self.runtime, session?, (Some(permit), turn)))
    }
}

impl<D: Dialect> Drop for Taken<'_, D> {
    fn drop(&mut self) {
        if self.connected.is_none() {
            return;
        }
        // sqlx's pool takes a connection back in a task.
        let runtime = self.pool.dialect.borrows().then(|| self.runtime.clone());
        let _entered = runtime.as_ref().map(Handle::enter);
        if self.sent.is_some_and(|sent| sent.elapsed() > SILENCE) {
            self.pool.forget(self.generation, self.sent, &self.runtime);
        }
        drop(self.end());
    }
}
