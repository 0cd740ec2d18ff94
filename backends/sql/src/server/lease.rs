//! The trait, for holds that are rows.
//!
//! One request for each thing that is done; what it does on the server is in the dialect's texts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_core::{
    Attempt, BreakHow, Broken, Claim, Cursor, DistributedLock, Ended, Error, ErrorKind, Events,
    Finding, Inspection, LockName, Mode, Page, Profile, Reason, Renew, Renewal, RenewalOutcome,
    Result, Seen, Settle, Swept, Token, Wait, async_trait,
};

use super::dialect::{BadRow, Dialect, Row, Texts};
use super::errors::{Effect, bad_row};
use super::holding::{Holding, micros_up};
use super::pool::Pool;
use super::sql::{Arguments, Sql, Value};
use super::waiters::Waiters;

/// For how long a token that must not come back is remembered at least.
const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

/// How often a break of "whoever holds" looks again when the holder has changed meanwhile.
const BREAK_TRIES: usize = 10;

/// How many names a page of a listing has.
const PAGE: usize = 200;

/// How many rows one step of a sweep looks at, and how many tombstones it deletes.
const SWEEP: usize = 1_000;

/// No row is swept that was touched within this time, whatever was asked for: longer than any
/// statement takes, so that none that is under way can have missed the row's last change.
const YOUNGEST_SWEPT: Duration = Duration::from_secs(60);

/// A backend whose holds are rows.
#[derive(Debug)]
pub(crate) struct LeaseBackend<D: Dialect> {
    pool: Arc<Pool<D>>,
    statements: Statements,
    profile: Profile,
    waiters: Arc<Waiters>,
    bell: Option<Box<dyn Bell>>,
    /// Up to which name a sweep has come.
    swept: Mutex<String>,
}

/// What listens for releases on the server.
pub(crate) trait Bell: std::fmt::Debug + Send + Sync {
    /// Makes sure that somebody listens from soon on, and tells all waiters when they do. Where
    /// nothing can be heard: how often to ask instead.
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
    seldom: settle, inspect, list, break_run_out, break_now, sweep_floor, sweep_leases,
        sweep_tombstones
);

impl<D: Dialect> LeaseBackend<D> {
    /// With a bell, waiters are told; without, they poll.
    pub(crate) fn new(
        pool: Arc<Pool<D>>,
        profile: Profile,
        waiters: Arc<Waiters>,
        bell: Option<Box<dyn Bell>>,
    ) -> Self {
        let dialect = pool.dialect();
        let statements = Statements::new(dialect.texts(), |text| dialect.expand(text));
        Self { pool, statements, profile, waiters, bell, swept: Mutex::default() }
    }

    async fn attempt(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        if claim.mode != Mode::Exclusive {
            return Err(Error::unsupported(&format!("the mode {}", claim.mode), &self.profile));
        }
        let mut poll = None;
        let mut waits = false;
        if let (Some(bell), Wait::Until(_)) = (&self.bell, wait) {
            // Before the attempt: a release right after it must not go unheard.
            self.waiters.waits(&claim.name);
            poll = bell.listen();
            waits = poll.is_none();
        }
        let token = claim.token.to_string();
        let identity = serde_json::to_string(&*claim.identity).map_err(|cause| {
            Error::invalid_input("the identity can't be written as JSON").with_source(cause)
        })?;
        let arguments = [
            ("name", Value::Text(claim.name.as_str())),
            ("token", Value::Text(&token)),
            ("identity", Value::Text(&identity)),
            ("fences", Value::Int(i64::from(claim.fences.clamp(1, i32::MAX as u32)))),
            ("ttl", Value::Int(micros_up(claim.ttl))),
            ("waits", Value::Bool(waits)),
        ];
        let rows = self.change(&self.statements.acquire, &arguments).await?;
        let row = self.sound(rows.last().ok_or(BadRow))?;
        if self.sound(row.bool(0))? {
            return Err(Error::new(
                ErrorKind::Lost(Reason::Gone),
                "this claim was ended before it arrived; ask with a new token",
            ));
        }
        let holding = self.sound(Holding::of(row, 1))?;
        if holding.token == Some(token.as_str()) {
            Ok(Attempt::Granted(holding.granted()))
        } else {
            let mut busy = holding.busy();
            busy.retry_after =
                busy.retry_after.map(|after| poll.map_or(after, |poll| after.min(poll)));
            Ok(Attempt::Busy(busy))
        }
    }

    async fn end(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        let token = claim.token.to_string();
        let arguments = [
            ("name", Value::Text(claim.name.as_str())),
            ("token", Value::Text(&token)),
            ("tombstone", Value::Int(micros_up(claim.ttl.max(TOMBSTONE)))),
            ("channel", Value::Text(self.pool.dialect().channel())),
        ];
        let statement = match settle {
            Settle::Answered => &self.statements.release,
            Settle::Unanswered => &self.statements.settle,
        };
        let rows = self.change(statement, &arguments).await?;
        match rows.last() {
            Some(row) if self.sound(row.bool(0))? => Ok(Ended::Released),
            _ => Ok(Ended::NotHeld),
        }
    }

    async fn break_it(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        note: &str,
    ) -> Result<Broken> {
        for _ in 0..BREAK_TRIES {
            // A token must be named for its tombstone, also when any will do.
            let token = match seen {
                Seen::Token(token) => token,
                Seen::Any => match self.holder(name).await? {
                    Some(token) => token,
                    None => return Ok(Broken::NotHeld),
                },
            };
            let token = token.to_string();
            let arguments = [
                ("name", Value::Text(name.as_str())),
                ("token", Value::Text(&token)),
                ("broken", Value::Text(note)),
                ("tombstone", Value::Int(micros_up(TOMBSTONE))),
                ("channel", Value::Text(self.pool.dialect().channel())),
            ];
            let (statement, broken): (_, fn(Duration) -> Broken) = match how {
                BreakHow::RunOut => (&self.statements.break_run_out, Broken::RunsOut),
                BreakHow::Now => (&self.statements.break_now, Broken::Freed),
            };
            let rows = self.change(statement, &arguments).await?;
            match rows.last() {
                Some(row) => {
                    let micros = u64::try_from(self.sound(row.int(0))?).unwrap_or(0);
                    return Ok(broken(Duration::from_micros(micros)));
                }
                None if seen == Seen::Any => {}
                None => return Ok(Broken::NotHeld),
            }
        }
        Err(Error::unavailable("the holder changes too fast to be broken; try again"))
    }

    async fn holder(&self, name: &LockName) -> Result<Option<Token>> {
        Ok(self.look(name).await?.holders.first().and_then(|holder| holder.token))
    }

    async fn look(&self, name: &LockName) -> Result<Inspection> {
        let arguments = [("name", Value::Text(name.as_str()))];
        let rows = self.read(&self.statements.inspect, &arguments).await?;
        match rows.first() {
            Some(row) => self.sound(Holding::of(row, 0).and_then(|row| row.inspection())),
            None => Ok(Inspection::free(name.clone())),
        }
    }

    fn renewal(&self, row: &Row) -> Result<(usize, Renewal)> {
        let at = self.sound(row.int(0))?;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let waiters = self.sound(row.bool(2))?;
        let outcome = match self.sound(row.text(1))? {
            Some("renewed") => RenewalOutcome::Renewed { valid: None },
            Some("broken") => RenewalOutcome::NotHeld(Reason::Broken),
            Some("expired") => RenewalOutcome::NotHeld(Reason::Expired),
            _ => RenewalOutcome::NotHeld(Reason::Gone),
        };
        Ok((at, Renewal { outcome, waiters }))
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

#[async_trait]
impl<D: Dialect> DistributedLock for LeaseBackend<D> {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.waiters.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        let answer = self.attempt(claim, wait).await;
        answer.map_err(|error| error.with_backend(self.profile.backend).with_name(&claim.name))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let asked: Vec<_> = holds
            .iter()
            .map(|hold| {
                (hold.claim.name.as_str(), hold.claim.token.to_string(), micros_up(hold.claim.ttl))
            })
            .collect();
        let asked = serde_json::to_string(&asked).map_err(|cause| {
            Error::invalid_input("the holds can't be written as JSON").with_source(cause)
        })?;
        let rows = self.change(&self.statements.renew, &[("holds", Value::Text(&asked))]).await?;
        let nobody_knows = Renewal::INDETERMINATE;
        let mut renewals = vec![nobody_knows; holds.len()];
        for row in &rows {
            let (at, renewal) = self.renewal(row)?;
            if let Some(place) = renewals.get_mut(at) {
                *place = renewal;
            }
        }
        Ok(renewals)
    }

    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        self.end(claim, settle).await.map_err(|error| error.with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.look(name).await.map_err(|error| error.with_name(name))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        // Names are in byte order, so those with the prefix stand together, up to this one.
        let last = format!("{prefix}{}", "\u{10FFFF}".repeat(LockName::MAX_LEN / 4));
        let after = from.as_ref().map(|cursor| cursor.0.as_str());
        let arguments = [
            ("first", Value::Text(prefix)),
            ("last", Value::Text(&last)),
            ("after", Value::from(after)),
            ("limit", Value::Int(PAGE as i64)),
        ];
        let rows = self.read(&self.statements.list, &arguments).await?;
        let mut page = Page::default();
        for row in &rows {
            let inspection = self.sound(Holding::of(row, 0).and_then(|row| row.inspection()))?;
            page.names.push(inspection);
        }
        if rows.len() == PAGE {
            page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
        }
        Ok(page)
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let note = format!("{by}: {reason}");
        let answer = self.break_it(name, seen, how, &note).await;
        answer.map_err(|error| error.with_backend(self.profile.backend).with_name(name))
    }

    /// First the table's floor is raised to the highest fence of the rows that will go, and that is
    /// committed; then rows go whose fences are at or below the floor. Whoever takes the name
    /// afterwards starts above the floor. One whose statement began before the floor was raised
    /// has seen the row in its last state, as that is a minute old, and starts above the row.
    async fn sweep(&self, idle: Duration) -> Result<Swept> {
        let after = self.swept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let arguments = [
            ("after", Value::Text(&after)),
            ("idle", Value::Int(micros_up(idle.max(YOUNGEST_SWEPT)))),
            ("limit", Value::Int(SWEEP as i64)),
        ];
        self.change(&self.statements.sweep_floor, &arguments).await?;
        let rows = self.change(&self.statements.sweep_leases, &arguments).await?;
        let (leases, seen, last) = match rows.last() {
            Some(row) => {
                (self.sound(row.int(0))?, self.sound(row.int(1))?, self.sound(row.text(2))?)
            }
            None => (0, 0, None),
        };
        let rows = self.change(&self.statements.sweep_tombstones, &arguments).await?;
        let tombstones = rows.last().map_or(Ok(0), |row| self.sound(row.int(0)))?;

        let at_the_end = seen < SWEEP as i64;
        let next = if at_the_end { "" } else { last.unwrap_or_default() };
        next.clone_into(&mut self.swept.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Swept {
            rows: u64::try_from(leases + tombstones).unwrap_or(0),
            more: !at_the_end || tombstones >= SWEEP as i64,
        })
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.pool.dialect().examine(&self.pool).await
    }
}
