//! The backend trait, for holds that are rows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockwright_core::backend_util::Subscribers;
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Busy, Claim, Cursor, DistributedLock, Error,
    ErrorKind, Events, Finding, Inspection, LockName, Mode, Page, Profile, Reason, ReleaseMode,
    ReleaseOutcome, Renew, Renewal, RenewalOutcome, Result, SweepReport, Token, Wait, async_trait,
};

use super::dialect::{BadRow, Dialect, Row, Texts};
use super::errors::{Effect, bad_row};
use super::holding::{Holding, inspections, micros_up};
use super::pool::{Pool, Sending};
use super::sql::{Arguments, Sql, Value};
use crate::kind;

/// The minimum time a tombstone is kept.
const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

/// The minimum time for which a writer's poll blocks new readers.
const WAITS: Duration = Duration::from_secs(1);

const BREAK_TRIES: usize = 10;

const PAGE: usize = 200;

const SWEEP: usize = 1_000;

/// No statement runs this long, so none can have missed the last change.
const YOUNGEST_SWEPT: Duration = Duration::from_secs(60);

/// The pause before a retry of locked rows.
const LOCKED_PAUSE: Duration = Duration::from_millis(10);

/// The minimum wait in the server's queue for a locked row, as sessions that take turns leave no
/// gap for a retry.
const WAITS_FOR_ROW: Duration = Duration::from_millis(500);

const WAIT_AT_ONCE: usize = 3;

/// How long batches stay smaller after a failure.
const SMALLER_FOR: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct LeaseBackend<D: Dialect> {
    pool: Arc<Pool<D>>,
    statements: Statements,
    waiting: [Sql; 2],
    profile: Profile,
    waiters: Arc<Subscribers>,
    bell: Option<Box<dyn Bell>>,
    swept: Mutex<String>,
    batch: Mutex<Option<(usize, Instant)>>,
}

type Holds<'a, 'b> = &'a [(usize, &'b Renew<'b>)];

/// `None` for a row that another session has locked.
type Renewals = Vec<(usize, Option<Renewal>)>;

pub(crate) trait Bell: std::fmt::Debug + Send + Sync {
    /// Starts to listen, which later wakes all waiters. Returns a polling interval if it can't.
    fn listen(&self) -> Option<Duration>;
}

macro_rules! statements {
    (often: $($hot:ident),*; seldom: $($other:ident),*) => {
        #[derive(Debug)]
        struct Statements { $($hot: Sql,)* $($other: Sql),* }

        impl Statements {
            fn new(texts: &Texts, expand: impl Fn(&str) -> String) -> Self {
                Self {
                    $($hot: Sql::hot(stringify!($hot), &expand(texts.$hot)),)*
                    $($other: Sql::new(&expand(texts.$other))),*
                }
            }
        }
    };
}

statements!(
    often: acquire, renew, release;
    seldom: reconcile, swap, inspect, list, break_run_out, break_now, sweep_floor, sweep_leases,
        sweep_tombstones, shared_acquire, shared_renew, shared_release, shared_reconcile, shared_end,
        shared_wait, shared_swap, shared_break, shared_break_now, shared_sweep
);

impl<D: Dialect> LeaseBackend<D> {
    pub(crate) fn new(
        pool: Arc<Pool<D>>,
        profile: Profile,
        waiters: Arc<Subscribers>,
        bell: Option<Box<dyn Bell>>,
    ) -> Self {
        let dialect = pool.dialect();
        let statements = Statements::new(dialect.texts(), |text| dialect.expand(text));
        // Only rows of names are waited for: a wait for a reader's row would lock out the other readers.
        let waiting = [dialect.texts().renew, dialect.texts().shared_renew]
            .map(|text| Sql::new(&dialect.expand(text).replacen(" SKIP LOCKED", "", 1)));
        Self {
            pool,
            statements,
            waiting,
            profile,
            waiters,
            bell,
            swept: Mutex::default(),
            batch: Mutex::default(),
        }
    }

    async fn attempt(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let (statement, kind) = match (claim.mode, kind::kind(claim.mode)) {
            (Mode::Exclusive, _) => (&self.statements.acquire, String::new()),
            (_, Some(kind)) => (&self.statements.shared_acquire, kind),
            (other, None) => {
                return Err(Error::unsupported(&format!("the mode {other}"), &self.profile));
            }
        };
        let mut poll = None;
        let mut waits = false;
        if let (Some(bell), Wait::Until(_)) = (&self.bell, wait) {
            // The backend listens before the attempt, so that it misses no notification.
            self.waiters.waits(&claim.name);
            poll = bell.listen();
            waits = poll.is_none();
        }
        let token = claim.token.to_string();
        let identity = identity_text(claim)?;
        let (permits, size) = kind::permits(claim.mode);
        let arguments = [
            ("name", Value::Text(claim.name.as_str())),
            ("token", Value::Text(&token)),
            ("identity", Value::Text(&identity)),
            ("kind", Value::Text(&kind)),
            ("mode", Value::Text(kind::word(claim.mode))),
            ("permits", Value::Int(permits.into())),
            ("size", Value::Int(size.into())),
            ("fences", Value::Int(i64::from(claim.fences.clamp(1, i32::MAX as u32)))),
            ("ttl", Value::Int(micros_up(claim.ttl))),
            ("waits", Value::Bool(waits)),
            ("patience", Value::Int(micros_up(WAITS.max(self.profile.slow_poll * 3)))),
        ];
        let sending = Sending { again: true, ..self.sending(claim) };
        let rows = self.change_so(statement, &arguments, sending).await?;
        let row = self.sound(rows.last().ok_or(BadRow))?;
        if self.sound(row.bool(0))? {
            return Err(Error::new(
                ErrorKind::Lost(Reason::Gone),
                "the request was cancelled before it reached the server; acquire the lock again",
            ));
        }
        let holding = self.sound(Holding::of(row, 1))?;
        if holding.token == Some(token.as_str()) {
            return Ok(AcquireOutcome::Granted(holding.granted()));
        }
        if holding.is_live() && !holding.mode.is_of_the_kind_of(claim.mode) {
            return Err(Error::other_kind(holding.mode, claim.mode));
        }
        let mut busy = holding.busy();
        busy.retry_after = busy.retry_after.map(|after| poll.map_or(after, |poll| after.min(poll)));
        let is_read = holding.mode == Mode::Shared;
        if is_read && claim.mode == Mode::Exclusive && matches!(wait, Wait::Until(_)) {
            self.change_so(&self.statements.shared_wait, &arguments, sending).await?;
            busy.queued = true;
        }
        Ok(AcquireOutcome::Busy(busy))
    }

    async fn take_over(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let statement = match to.mode {
            Mode::Exclusive => &self.statements.swap,
            _ => &self.statements.shared_swap,
        };
        let (permits, size) = kind::permits(to.mode);
        let (from, token) = (from.to_string(), to.token.to_string());
        let identity = identity_text(to)?;
        let arguments = [
            ("name", Value::Text(to.name.as_str())),
            ("from", Value::Text(&from)),
            ("token", Value::Text(&token)),
            ("identity", Value::Text(&identity)),
            ("mode", Value::Text(kind::word(to.mode))),
            ("permits", Value::Int(permits.into())),
            ("size", Value::Int(size.into())),
            ("ttl", Value::Int(micros_up(to.ttl))),
            ("tombstone", Value::Int(micros_up(to.ttl.max(TOMBSTONE)))),
        ];
        let rows = self.change_so(statement, &arguments, self.sending(to)).await?;
        match rows.last() {
            Some(row) => Ok(AcquireOutcome::Granted(self.sound(Holding::of(row, 0))?.granted())),
            None => Ok(AcquireOutcome::Busy(Busy::default())),
        }
    }

    async fn end(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let token = claim.token.to_string();
        let arguments = [
            ("name", Value::Text(claim.name.as_str())),
            ("token", Value::Text(&token)),
            ("tombstone", Value::Int(micros_up(claim.ttl.max(TOMBSTONE)))),
            ("channel", Value::Text(self.pool.dialect().channel())),
        ];
        let alone = claim.mode == Mode::Exclusive;
        let statement = match (alone, release_mode) {
            (true, ReleaseMode::Plain) => &self.statements.release,
            (true, ReleaseMode::Reconcile) => &self.statements.reconcile,
            (false, ReleaseMode::Plain) => &self.statements.shared_release,
            (false, ReleaseMode::Reconcile) => &self.statements.shared_reconcile,
        };
        // A repeated reconcile changes nothing.
        let again = release_mode == ReleaseMode::Reconcile;
        let sending = Sending { again, ..self.sending(claim) };
        let mut ended = self.held(&self.change_so(statement, &arguments, sending).await?)?;
        if alone && !ended {
            // The claim may have waited for readers.
            let shared_end = &self.statements.shared_end;
            ended = self.held(&self.change_so(shared_end, &arguments, sending).await?)?;
        }
        Ok(if ended { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
    }

    fn held(&self, rows: &[Row]) -> Result<bool> {
        rows.last().map_or(Ok(false), |row| self.sound(row.bool(0)))
    }

    async fn break_it(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
    ) -> Result<Broken> {
        for _ in 0..BREAK_TRIES {
            // The tombstone needs a token, also for [`BreakTarget::Any`].
            let tokens = match seen {
                BreakTarget::Token(token) => vec![token],
                BreakTarget::Any => self.holders(name).await?,
            };
            let mut longest = None;
            for token in &tokens {
                longest = longest.max(self.break_one(name, *token, how, note).await?);
            }
            match (longest, how) {
                (Some(left), BreakMode::RunOut) => return Ok(Broken::RunsOut(left)),
                (Some(left), BreakMode::Now) => return Ok(Broken::Freed(left)),
                (None, _) if seen == BreakTarget::Any && !tokens.is_empty() => {}
                (None, _) => return Ok(Broken::NotHeld),
            }
        }
        Err(Error::unavailable("the holder changes too fast to be broken; try again"))
    }

    /// Returns the time that the hold had left.
    async fn break_one(
        &self,
        name: &LockName,
        token: Token,
        how: BreakMode,
        note: &str,
    ) -> Result<Option<Duration>> {
        let token = token.to_string();
        let arguments = [
            ("name", Value::Text(name.as_str())),
            ("token", Value::Text(&token)),
            ("broken", Value::Text(note)),
            ("tombstone", Value::Int(micros_up(TOMBSTONE))),
            ("channel", Value::Text(self.pool.dialect().channel())),
        ];
        let (alone, shared, left) = match how {
            BreakMode::RunOut => (&self.statements.break_run_out, &self.statements.shared_break, 0),
            BreakMode::Now => (&self.statements.break_now, &self.statements.shared_break_now, 2),
        };
        let mut left_at = 0;
        let mut rows = self.change(alone, &arguments).await?;
        if rows.is_empty() {
            rows = self.change(shared, &arguments).await?;
            left_at = left;
        }
        match rows.last().map(|row| row.int(left_at)) {
            Some(Ok(micros)) if micros > 0 || left_at == 0 => {
                Ok(Some(Duration::from_micros(micros.try_into().unwrap_or(0))))
            }
            Some(Err(bad)) if left_at == 0 => self.sound(Err(bad)),
            _ => Ok(None),
        }
    }

    async fn holders(&self, name: &LockName) -> Result<Vec<Token>> {
        let holders = self.look(name).await?.holders;
        Ok(holders.into_iter().filter_map(|holder| holder.token).collect())
    }

    async fn look(&self, name: &LockName) -> Result<Inspection> {
        let arguments = [("name", Value::Text(name.as_str()))];
        let rows = self.read(&self.statements.inspect, &arguments).await?;
        let found = self.sound(inspections(&rows))?.pop();
        Ok(found.unwrap_or_else(|| Inspection::free(name.clone())))
    }

    async fn renew_with(
        &self,
        (statement, waiting): (&Sql, &Sql),
        mut holds: Vec<(usize, &Renew<'_>)>,
        deadline: Instant,
    ) -> Result<Renewals> {
        // The order prevents deadlocks of concurrent batches.
        holds.sort_by(|(_, one), (_, other)| one.claim.name.cmp(&other.claim.name));
        let size = match *self.batch.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((size, failed)) if failed.elapsed() < SMALLER_FOR => size,
            _ => holds.len(),
        };
        let mut renewals = self.renew_some(statement, &holds, size, deadline).await?;
        self.grow_batch(size);
        keep_locked(&mut holds, &renewals);
        if !holds.is_empty() {
            tokio::time::sleep(LOCKED_PAUSE).await;
            let Ok(answers) = self.renew_some(statement, &holds, size, deadline).await else {
                return Ok(renewals);
            };
            replace(&mut renewals, answers);
            keep_locked(&mut holds, &renewals);
        }
        let mut chunks = holds.chunks(WAIT_AT_ONCE);
        while let Some(chunk) = chunks.next() {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            let share = left / u32::try_from(chunks.len() + 1).unwrap_or(u32::MAX);
            let until = now + share.max(WAITS_FOR_ROW).min(left);
            let waiting = chunk
                .iter()
                .map(|hold| self.renew_once(waiting, std::slice::from_ref(hold), until, true));
            for answers in join_all(waiting).await.into_iter().flatten() {
                replace(&mut renewals, answers);
            }
        }
        Ok(renewals)
    }

    fn grow_batch(&self, size: usize) {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        *batch = batch.map(|(halved, since)| (grown(halved, size), since));
    }

    /// A failed batch is halved. Returns an error only if all batches fail.
    async fn renew_some(
        &self,
        statement: &Sql,
        holds: Holds<'_, '_>,
        size: usize,
        deadline: Instant,
    ) -> Result<Renewals> {
        if holds.is_empty() {
            return Ok(Renewals::new());
        }
        if holds.len() <= size.max(1) {
            let begun = Instant::now();
            let error = match self.renew_once(statement, holds, deadline, false).await {
                Err(error) if holds.len() > 1 => error,
                answer => return answer,
            };
            let smaller = Some((holds.len() / 2, begun));
            *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = smaller;
            if deadline.saturating_duration_since(Instant::now()) < begun.elapsed() {
                return Err(error);
            }
        }
        let (some, others) = holds.split_at(holds.len() / 2);
        let size = size.min(others.len());
        let (some, others) = tokio::join!(
            Box::pin(self.renew_some(statement, some, size, deadline)),
            Box::pin(self.renew_some(statement, others, size, deadline)),
        );
        match (some, others) {
            (Ok(mut some), Ok(others)) => {
                some.extend(others);
                Ok(some)
            }
            (Ok(known), Err(_)) | (Err(_), Ok(known)) => Ok(known),
            (Err(error), Err(_)) => Err(error),
        }
    }

    async fn renew_once(
        &self,
        statement: &Sql,
        holds: Holds<'_, '_>,
        deadline: Instant,
        waits: bool,
    ) -> Result<Renewals> {
        let asked: Vec<_> = holds
            .iter()
            .map(|(_, hold)| {
                (hold.claim.name.as_str(), hold.claim.token.to_string(), micros_up(hold.claim.ttl))
            })
            .collect();
        let asked = serde_json::to_string(&asked).map_err(|cause| {
            Error::invalid_input("the holds can't be written as JSON").with_source(cause)
        })?;
        let within = deadline.saturating_duration_since(Instant::now());
        let answer = self.pool.limits().answer;
        let sending = Sending { within, answer, renews: true, again: false, waits };
        let rows = self.change_so(statement, &[("holds", Value::Text(&asked))], sending).await?;
        let mut renewals = Renewals::new();
        for row in &rows {
            let (at, renewal) = self.renewal(row)?;
            renewals.extend(holds.get(at).map(|(place, _)| (*place, renewal)));
        }
        Ok(renewals)
    }

    fn renewal(&self, row: &Row) -> Result<(usize, Option<Renewal>)> {
        let at = self.sound(row.int(0))?;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let waiters = self.sound(row.bool(2))?;
        let outcome = match self.sound(row.text(1))? {
            Some("renewed") => RenewalOutcome::Renewed { valid: None },
            Some("broken") => RenewalOutcome::NotHeld(Reason::Broken),
            Some("skipped") => return Ok((at, None)),
            Some("expired") => RenewalOutcome::NotHeld(Reason::Expired),
            _ => RenewalOutcome::NotHeld(Reason::Gone),
        };
        Ok((at, Some(Renewal { outcome, waiters })))
    }

    /// Returns limits that leave time for a second try.
    fn sending(&self, claim: &Claim) -> Sending {
        let limits = self.pool.limits();
        Sending {
            within: claim.patience(),
            answer: limits.answer,
            renews: false,
            again: false,
            waits: false,
        }
    }

    async fn change_so(
        &self,
        sql: &Sql,
        arguments: Arguments<'_>,
        sending: Sending,
    ) -> Result<Vec<Row>> {
        self.pool.fetch_so(sql, arguments, Effect::Changes, sending).await
    }

    async fn change(&self, sql: &Sql, arguments: Arguments<'_>) -> Result<Vec<Row>> {
        self.pool.fetch(sql, arguments, Effect::Changes).await
    }

    async fn read(&self, sql: &Sql, arguments: Arguments<'_>) -> Result<Vec<Row>> {
        self.pool.fetch(sql, arguments, Effect::Reads).await
    }

    fn sound<T>(&self, read: Result<T, BadRow>) -> Result<T> {
        read.map_err(|bad| bad_row(bad, self.profile.backend))
    }
}

/// Returns the next limit of a batch after a complete renewal by batches of `size`. Any number of renewals may double
/// it.
fn grown(limit: usize, size: usize) -> usize {
    if limit == size { limit.saturating_mul(2) } else { limit }
}

fn keep_locked(holds: &mut Vec<(usize, &Renew<'_>)>, renewals: &Renewals) {
    let is_locked = |place| renewals.iter().any(|(at, renewal)| *at == place && renewal.is_none());
    holds.retain(|(place, _)| is_locked(*place));
}

fn replace(renewals: &mut Renewals, answers: Renewals) {
    renewals.retain(|(place, _)| answers.iter().all(|(answered, _)| answered != place));
    renewals.extend(answers);
}

fn identity_text(claim: &Claim) -> Result<String> {
    serde_json::to_string(&*claim.identity).map_err(|cause| {
        Error::invalid_input("the identity can't be written as JSON").with_source(cause)
    })
}

#[async_trait]
impl<D: Dialect> DistributedLock for LeaseBackend<D> {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.waiters.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let answer = self.attempt(claim, wait).await;
        answer.map_err(|error| error.with_backend(self.profile.backend).with_name(&claim.name))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let deadline = Instant::now() + Renew::time_to_answer(holds);
        let (alone, shared): (Vec<_>, Vec<_>) =
            holds.iter().enumerate().partition(|(_, hold)| hold.claim.mode == Mode::Exclusive);
        // In parallel, neither statement delays the other's holds.
        let (alone, shared) = tokio::join!(
            self.renew_with((&self.statements.renew, &self.waiting[0]), alone, deadline),
            self.renew_with((&self.statements.shared_renew, &self.waiting[1]), shared, deadline),
        );
        let mut renewals = vec![Renewal::INDETERMINATE; holds.len()];
        // One statement's answers are kept even if the other failed.
        let known = match (alone, shared) {
            (Err(error), Err(_)) => return Err(error),
            (Err(error), Ok(known)) | (Ok(known), Err(error)) if known.is_empty() => {
                return Err(error);
            }
            (alone, shared) => {
                alone.unwrap_or_default().into_iter().chain(shared.unwrap_or_default())
            }
        };
        for (place, renewal) in known {
            if let (Some(at), Some(renewal)) = (renewals.get_mut(place), renewal) {
                *at = renewal;
            }
        }
        Ok(renewals)
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let answer = self.take_over(from, to).await;
        answer.map_err(|error| error.with_backend(self.profile.backend).with_name(&to.name))
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        self.end(claim, release_mode).await.map_err(|error| error.with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.look(name).await.map_err(|error| error.with_name(name))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        // In byte order, names with the prefix are contiguous.
        let last = format!("{prefix}{}", "\u{10FFFF}".repeat(LockName::MAX_LEN / 4));
        let after = from.as_ref().map(|cursor| cursor.0.as_str());
        let arguments = [
            ("first", Value::Text(prefix)),
            ("last", Value::Text(&last)),
            ("after", Value::from(after)),
            ("limit", Value::Int(PAGE as i64)),
        ];
        let (list, slowly) = (&self.statements.list, self.pool.slowly());
        let rows = self.pool.fetch_so(list, &arguments, Effect::Reads, slowly).await?;
        let mut page = Page::default();
        page.names.extend(self.sound(inspections(&rows))?);
        if page.names.len() == PAGE {
            page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
        }
        Ok(page)
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let note = format!("{by}: {reason}");
        let answer = self.break_it(name, seen, how, &note).await;
        answer.map_err(|error| error.with_backend(self.profile.backend).with_name(name))
    }

    /// Raises the floor to the highest fence of the rows to delete, and commits, before it deletes rows at or below the
    /// floor. Later claims start above the floor. An earlier claim has seen the row's last state, which is a minute
    /// old, and starts above the row.
    async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        let after = self.swept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let arguments = [
            ("after", Value::Text(&after)),
            ("idle", Value::Int(micros_up(idle.max(YOUNGEST_SWEPT)))),
            ("limit", Value::Int(SWEEP as i64)),
        ];
        let slowly = self.pool.slowly();
        self.change_so(&self.statements.sweep_floor, &arguments, slowly).await?;
        let rows = self.change_so(&self.statements.sweep_leases, &arguments, slowly).await?;
        let (leases, seen, last) = match rows.last() {
            Some(row) => {
                (self.sound(row.int(0))?, self.sound(row.int(1))?, self.sound(row.text(2))?)
            }
            None => (0, 0, None),
        };
        let rows = self.change_so(&self.statements.sweep_tombstones, &arguments, slowly).await?;
        let tombstones = rows.last().map_or(Ok(0), |row| self.sound(row.int(0)))?;
        let rows = self.change_so(&self.statements.shared_sweep, &arguments, slowly).await?;
        let shared = rows.last().map_or(Ok(0), |row| self.sound(row.int(0)))?;

        let at_the_end = seen < SWEEP as i64;
        let next = if at_the_end { "" } else { last.unwrap_or_default() };
        next.clone_into(&mut self.swept.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(SweepReport {
            rows: u64::try_from(leases + tombstones + shared).unwrap_or(0),
            more: !at_the_end || tombstones.max(shared) >= SWEEP as i64,
        })
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.pool.dialect().examine(&self.pool).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_without_overflow() {
        assert_eq!([grown(8, 8), grown(8, 1_000)], [16, 8]);
        let mut limit = 1;
        for _ in 0..200 {
            limit = grown(limit, limit);
        }
        assert_eq!(limit, usize::MAX);
    }
}
