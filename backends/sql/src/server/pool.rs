//! A few connections, a limit for each request.
//!
//! Not sqlx's own pool: that asks the server once more each time a connection is given back. Here
//! a connection is given back only after a whole answer; one whose request failed, was dropped or
//! timed out is closed, and nothing of it can reach the next request.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockwright_core::Result;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant as Deadline, timeout_at};

use super::dialect::{Dialect, Row};
use super::errors::{self, Effect, Failure};
use super::sql::{Arguments, Sql};

/// Limits of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How many connections there are at most.
    pub(crate) connections: usize,
    /// How long getting one may take.
    pub(crate) connect: Duration,
    /// How long the server may take to answer.
    pub(crate) answer: Duration,
}

/// How often a request that lost against another one is sent again.
const TRIES: u32 = 5;

/// A connection that wasn't used for so long is closed at the next occasion.
const IDLE: Duration = Duration::from_secs(300);

pub(crate) struct Pool<D: Dialect> {
    dialect: D,
    limits: Limits,
    permits: Semaphore,
    idle: Mutex<Idle<D::Connection>>,
}

struct Idle<C> {
    connections: Vec<(C, Instant)>,
    /// Moves when all connections were found dead, so that none from before is given back.
    generation: u64,
}

impl<D: Dialect> std::fmt::Debug for Pool<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
enum Request<'a> {
    Sql(&'a Sql, Arguments<'a>),
    Text(&'a str),
}

/// A connection that was taken out. Dropping it closes it.
struct Taken<'a, C> {
    connection: C,
    generation: u64,
    _permit: SemaphorePermit<'a>,
}

impl<D: Dialect> Pool<D> {
    /// Connects to nothing yet.
    pub(crate) fn new(dialect: D, limits: Limits) -> Self {
        Self {
            dialect,
            limits,
            permits: Semaphore::new(limits.connections.max(1)),
            idle: Mutex::new(Idle { connections: Vec::new(), generation: 0 }),
        }
    }

    pub(crate) fn dialect(&self) -> &D {
        &self.dialect
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Sends a text and answers its rows. A request that certainly had no effect, because it lost
    /// against another one, is sent again.
    ///
    /// When this is dropped in the middle, the request may still be carried out.
    pub(crate) async fn fetch(
        &self,
        sql: &Sql,
        arguments: Arguments<'_>,
        effect: Effect,
    ) -> Result<Vec<Row>> {
        self.insist(effect, Request::Sql(sql, arguments)).await
    }

    /// The same, for a text without parameters.
    pub(crate) async fn fetch_text(&self, text: String, effect: Effect) -> Result<Vec<Row>> {
        self.insist(effect, Request::Text(&text)).await
    }

    async fn insist(&self, effect: Effect, request: Request<'_>) -> Result<Vec<Row>> {
        let mut tries = 1;
        loop {
            match self.try_fetch(request, effect).await {
                Ok(rows) => return Ok(rows),
                Err(failure) if failure.again && tries < TRIES => tries += 1,
                Err(failure) => return Err(failure.error),
            }
        }
    }

    async fn try_fetch(&self, request: Request<'_>, effect: Effect) -> Result<Vec<Row>, Failure> {
        let mut taken = self.take().await?;
        let limit = self.limits.answer;
        let connection = &mut taken.connection;
        let answer = async {
            match request {
                Request::Sql(sql, arguments) => {
                    self.dialect.execute(connection, sql, arguments).await
                }
                Request::Text(text) => self.dialect.fetch(connection, text.to_owned()).await,
            }
        };
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(rows)) => {
                self.give_back(taken);
                Ok(rows)
            }
            Ok(Err(cause)) => {
                let failure = errors::failed(cause, effect, &self.dialect);
                if failure.lost {
                    self.forget(taken.generation);
                }
                Err(failure)
            }
            Err(_) => {
                // The others may be as silent: they would cost a request each to find out.
                self.forget(taken.generation);
                Err(errors::timed_out(effect, limit, self.dialect.backend()))
            }
        }
    }

    async fn take(&self) -> Result<Taken<'_, D::Connection>, Failure> {
        let limit = self.limits.connect;
        let late = || errors::not_connected_in(limit, self.dialect.backend());
        let deadline = Deadline::now() + limit;
        let permit = match timeout_at(deadline, self.permits.acquire()).await {
            Ok(Ok(permit)) => permit,
            // Nobody closes the semaphore.
            Ok(Err(_)) | Err(_) => return Err(late()),
        };
        let generation = {
            let mut idle = self.idle();
            // The one that was used last: the others grow old, and go.
            if let Some((connection, used)) = idle.connections.pop()
                && used.elapsed() < IDLE
            {
                let generation = idle.generation;
                return Ok(Taken { connection, generation, _permit: permit });
            }
            idle.generation
        };
        match timeout_at(deadline, self.dialect.connect()).await {
            Ok(Ok(connection)) => Ok(Taken { connection, generation, _permit: permit }),
            Ok(Err(cause)) => Err(errors::not_connected(cause, &self.dialect)),
            Err(_) => Err(late()),
        }
    }

    fn give_back(&self, taken: Taken<'_, D::Connection>) {
        let mut idle = self.idle();
        if taken.generation == idle.generation {
            idle.connections.push((taken.connection, Instant::now()));
            if idle.connections.first().is_some_and(|(_, used)| used.elapsed() > IDLE) {
                idle.connections.remove(0);
            }
        }
    }

    /// Closes what is idle, and what is given back from before.
    fn forget(&self, generation: u64) {
        let dead = {
            let mut idle = self.idle();
            if idle.generation != generation {
                return;
            }
            idle.generation += 1;
            std::mem::take(&mut idle.connections)
        };
        drop(dead);
    }

    fn idle(&self) -> MutexGuard<'_, Idle<D::Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
