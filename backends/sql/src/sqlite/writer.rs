//! The task that owns the connection. A request whose caller drops its future is carried out or
//! never begun. Requests that arrive while the disk is busy share one transaction with one sync.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    BootInstant, BreakMode, BreakTarget, Broken, Claim, Clock, Cursor, Error, Finding, LockName,
    Mode, Page, Renewal, Result, SweepReport, Token,
};
use sqlx::Connection;
use tokio::sync::{mpsc, oneshot};

use super::connection::{BUSY_LIMIT, Database, Open, patiently};
use super::doctor;
use super::errors::{Failure, is_busy, is_foreign_row};
use super::statements::{Acquire, Acquired, Tables};
use super::wakeup::Waiters;

#[derive(Debug)]
pub(super) enum Request {
    Acquire(Acquire),
    Swap { from: Token, to: Acquire },
    Renew(Vec<Claim>),
    Release { claim: Claim, tombstone: bool },
    Break { name: LockName, seen: BreakTarget, how: BreakMode, broken: String },
    Inspect(LockName),
    List { prefix: String, after: Option<Cursor> },
    Held(Vec<(LockName, u32)>),
    Sweep(Duration),
    Examine,
}

#[derive(Debug)]
pub(super) enum Answer {
    /// Never [`Acquired::Again`] in an answer to a caller.
    Acquired(Acquired),
    Renewed(Vec<Renewal>),
    /// `None` if there was no hold, and otherwise whether a waiter may now acquire the name.
    Released(Option<bool>),
    Broken(Broken),
    Inspection(lockwright_core::Inspection),
    Page(Page),
    Held(std::collections::HashSet<String>),
    Swept(SweepReport),
    Findings(Vec<Finding>),
}

#[derive(Debug)]
pub(super) struct Job {
    request: Request,
    answer: oneshot::Sender<Result<Answer>>,
}

#[derive(Debug, Clone)]
pub(super) struct Jobs(pub(super) mpsc::UnboundedSender<Job>);

/// The limit on the wait for the write lock, the disk and earlier requests.
const ANSWER_LIMIT: Duration = Duration::from_secs(3 * BUSY_LIMIT.as_secs());

impl Jobs {
    pub(super) fn start(
        database: &Database,
        open: Open,
        waiters: &Arc<Waiters>,
        clock: Clock,
    ) -> Self {
        let (jobs, queue) = mpsc::unbounded_channel();
        let writer = Writer {
            database: database.clone(),
            open: Some(open),
            waiters: waiters.clone(),
            next_sweep: clock.now(),
            clock,
        };
        tokio::spawn(writer.serve(queue));
        Self(jobs)
    }

    /// # Cancel safety
    /// After a drop, the request is still carried out, except reads and acquires that haven't
    /// begun.
    pub(super) async fn ask(&self, request: Request) -> Result<Answer> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Job { request, answer }).map_err(|_| {
            Error::unavailable(
                "the task that owns the lock file has ended, because the runtime that it was \
                 opened on is gone; open it on one that lives as long as it is used",
            )
            .with_backend("sqlite")
        })?;
        let error = match tokio::time::timeout(ANSWER_LIMIT, answered).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) => {
                Error::indeterminate("the task that owns the lock file ended before it answered")
            }
            Err(_) => Error::indeterminate(format!(
                "the lock file didn't answer within {ANSWER_LIMIT:?}; look at its disk"
            )),
        };
        Err(error.with_backend("sqlite"))
    }
}

impl Request {
    fn only_reads(&self) -> bool {
        matches!(self, Self::Inspect(_) | Self::List { .. } | Self::Held(_) | Self::Examine)
    }

    fn is_moot_unheard(&self) -> bool {
        self.only_reads() || matches!(self, Self::Acquire(_))
    }

    fn is_one_statement(&self) -> bool {
        match self {
            Self::Acquire(asked) => asked.claim.mode == Mode::Exclusive,
            Self::Release { claim, tombstone } => !tombstone && claim.mode == Mode::Exclusive,
            _ => false,
        }
    }
}

const BATCH: usize = 64;

struct Writer {
    database: Database,
    /// `None` after a failure, until the next request opens the file.
    open: Option<Open>,
    waiters: Arc<Waiters>,
    clock: Clock,
    next_sweep: BootInstant,
}

impl Writer {
    async fn serve(mut self, mut queue: mpsc::UnboundedReceiver<Job>) {
        let mut batch = Vec::with_capacity(BATCH);
        while queue.recv_many(&mut batch, BATCH).await > 0 {
            batch.retain(|job: &Job| !(job.answer.is_closed() && job.request.is_moot_unheard()));
            // An idle process doesn't sweep, because a process suspended during a sweep blocks all
            // others.
            self.sweep().await;
            self.serve_batch(&mut batch).await;
        }
        if let Some(open) = self.open {
            let _ = open.connection.close().await;
        }
    }

    async fn serve_batch(&mut self, batch: &mut Vec<Job>) {
        if let Err(error) = self.make_sure_of_the_file().await {
            for job in batch.drain(..) {
                let _ = job.answer.send(Err(again(&error)));
            }
            return;
        }
        let (reads, writes): (Vec<_>, Vec<_>) =
            batch.drain(..).partition(|job| job.request.only_reads());
        for Job { request, answer } in reads {
            let result = self.run(&request, false).await;
            let _ = answer.send(result.map_err(|e| Failure::without_effect(e).to_error("")));
        }
        let requests: Vec<&Request> = writes.iter().map(|job| &job.request).collect();
        let results = match &requests[..] {
            [] => return,
            [one] => vec![self.alone(one).await],
            several => match self.together(several).await {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                // One request may have made the transaction fail, so each gets its own.
                Err(failure) if !failure.is_in_doubt && !failure.was_busy() => {
                    let mut results = Vec::with_capacity(several.len());
                    for request in several {
                        results.push(self.alone(request).await);
                    }
                    results
                }
                Err(failure) => several.iter().map(|_| Err(failure.clone())).collect(),
            },
        };
        self.finish(writes, results);
    }

    /// Answers the callers. Notifies the waiters first: this process may end once a caller is
    /// answered.
    fn finish(&mut self, jobs: Vec<Job>, results: Vec<Result<Answer, Failure>>) {
        if results.iter().any(|r| r.as_ref().is_err_and(|failure| failure.is_in_doubt)) {
            self.open = None;
        }
        let freed =
            jobs.iter().zip(&results).filter_map(|(job, result)| match (&job.request, result) {
                (Request::Release { claim, .. }, Ok(Answer::Released(Some(true)))) => {
                    Some(claim.name.clone())
                }
                (Request::Break { name, .. }, Ok(Answer::Broken(Broken::Freed(_)))) => {
                    Some(name.clone())
                }
                _ => None,
            });
        self.waiters.announce(freed.collect());
        for (job, result) in jobs.into_iter().zip(results) {
            let _ = job.answer.send(result.map_err(|failure| failure.to_error("")));
        }
    }

    async fn make_sure_of_the_file(&mut self) -> Result<()> {
        if let Some(open) = &self.open
            && !self.database.is_still(open)
        {
            self.open = None;
            return Err(Error::unavailable(format!(
                "the lock file {:?} was removed or replaced while it was in use; holds in the old \
                 file and in the new one may overlap: stop all processes that use it before that",
                self.database.path
            ))
            .with_backend("sqlite"));
        }
        if self.open.is_none() {
            self.open = Some(self.database.reopen().await?);
        }
        Ok(())
    }

    async fn alone(&mut self, request: &Request) -> Result<Answer, Failure> {
        if request.is_one_statement() {
            match patiently!(BUSY_LIMIT, self.run(request, false)) {
                Ok(Answer::Acquired(Acquired::Again)) => {}
                Ok(answer) => return Ok(answer),
                // Retries in a transaction, whose rollback proves that the request had no effect.
                Err(e) if is_foreign_row(&e) => {}
                Err(e) => return Err(Failure::of_statement(e)),
            }
        }
        let mut answers = self.together(&[request]).await?;
        Ok(answers.pop().unwrap_or_else(|| unreachable!("one answer for one request")))
    }

    async fn together(&mut self, requests: &[&Request]) -> Result<Vec<Answer>, Failure> {
        let begun = patiently!(BUSY_LIMIT, self.execute("BEGIN IMMEDIATE"));
        begun.map_err(Failure::without_effect)?;
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            // `run` reads the clock under the write lock.
            match self.run(request, true).await {
                // Under the write lock, only a missing row of `lockwright_meta` causes `Again`.
                Ok(Answer::Acquired(Acquired::Again)) => {
                    return Err(self.roll_back(sqlx::Error::RowNotFound).await);
                }
                Ok(answer) => answers.push(answer),
                Err(e) => return Err(self.roll_back(e).await),
            }
        }
        match self.execute("COMMIT").await {
            Ok(()) => Ok(answers),
            // Without WAL mode, readers may block the commit, which has then written nothing.
            Err(e) if is_busy(&e) => Err(self.roll_back(e).await),
            Err(e) => Err(Failure::in_doubt(e)),
        }
    }

    async fn roll_back(&mut self, because: sqlx::Error) -> Failure {
        match self.execute("ROLLBACK").await {
            Ok(()) => Failure::without_effect(because),
            // `finish` closes the connection, which ends the transaction.
            Err(_) => Failure::in_doubt(because),
        }
    }

    async fn execute(&mut self, sql: &'static str) -> sqlx::Result<()> {
        sqlx::query(sql).execute(self.tables()?.connection).await.map(drop)
    }

    async fn run(&mut self, request: &Request, in_transaction: bool) -> sqlx::Result<Answer> {
        let mut tables = self.tables()?;
        Ok(match request {
            Request::Acquire(asked) => {
                Answer::Acquired(tables.acquire(asked, in_transaction).await?)
            }
            Request::Swap { from, to } => Answer::Acquired(tables.swap(*from, to).await?),
            Request::Renew(claims) => Answer::Renewed(tables.renew(claims).await?),
            Request::Release { claim, tombstone } => {
                Answer::Released(tables.release(claim, *tombstone).await?)
            }
            Request::Break { name, seen, how, broken } => {
                Answer::Broken(tables.break_lock(name, *seen, *how, broken).await?)
            }
            Request::Inspect(name) => Answer::Inspection(tables.inspect(name).await?),
            Request::List { prefix, after } => {
                Answer::Page(tables.list(prefix, after.as_ref()).await?)
            }
            Request::Held(names) => Answer::Held(tables.held(names).await?),
            Request::Sweep(idle) => Answer::Swept(tables.sweep(*idle).await?),
            Request::Examine => Answer::Findings(doctor::examine(tables.connection).await?),
        })
    }

    fn tables(&mut self) -> sqlx::Result<Tables<'_>> {
        let open = self.open.as_mut().ok_or(sqlx::Error::WorkerCrashed)?;
        let connection = &mut open.connection;
        Ok(Tables { connection, now: self.clock.now(), boot: &self.database.boot })
    }

    async fn sweep(&mut self) {
        const KEPT: Duration = Duration::from_secs(10 * 60);
        const PAUSE: Duration = Duration::from_secs(60);
        const SHORT_PAUSE: Duration = Duration::from_secs(1);

        if self.clock.now() < self.next_sweep {
            return;
        }
        let Ok(mut tables) = self.tables() else { return };
        let now = tables.now;
        // Ignores a failure, which the next request reports.
        let swept = tables.sweep(KEPT).await.unwrap_or_default();
        self.next_sweep = now + if swept.more { SHORT_PAUSE } else { PAUSE };
    }
}

fn again(error: &Error) -> Error {
    let again = Error::new(error.kind(), error.message()).with_backend("sqlite");
    match std::error::Error::source(error) {
        Some(cause) => again.with_source(cause.to_string()),
        None => again,
    }
}
