use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright_core::backend_util::{RecentNames, Subscribers, lock};
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Busy, Claim, Clock, Cursor, DistributedLock,
    Error, ErrorKind, Events, Fault, Faults, Fencing, Finding, Granted, Inspection, LockName, Mode,
    Modes, Page, Profile, Reason, ReleaseMode, ReleaseOutcome, Renew, Renewal, Result, Scope,
    SweepReport, Token, Wait, WakeUp, async_trait,
};

mod break_lock;
mod renew;
mod turns;

use crate::kind::{self, identity_text};
use crate::server::hold_row::{Holding, inspections, micros_up};
use crate::server::{Arguments, BadRow, Dialect, Effect, Pool, Row, Sending, Sql, Value, pool};
use turns::Turns;

/// The minimum lifetime of a tombstone.
const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

/// The longest polling interval while a writer waits for readers, or readers for a writer.
const WRITER_POLL: Duration = Duration::from_secs(1);

/// How long a waiting writer's poll blocks new readers.
const WRITER_PATIENCE: Duration = WRITER_POLL.saturating_mul(3);

/// The interval until the listener is active.
const START_POLL: Duration = Duration::from_secs(1);

const PAGE: usize = 200;

const SWEEP: usize = 1_000;

/// A sweep deletes only rows unchanged for this time. No statement runs that long, so any that runs
/// during the deletion began after the row's last change.
const YOUNGEST_SWEPT: Duration = Duration::from_secs(60);

/// The least TTL with which a waiting claim sends cheaper requests before `acquire`. A shorter one
/// leaves too little time.
const QUICK_TTL: Duration = Duration::from_secs(2);

pub(crate) struct LeaseBackend<D: Dialect> {
    pool: Arc<Pool<D>>,
    statements: Statements,
    waiting: [Sql; 2],
    /// A query for the name's row or its first shared holder. Returns no row if the token has a
    /// tombstone. `None` behind a proxy, which may send reads to a replica.
    look: Option<Sql>,
    inspect: Sql,
    list: Sql,
    profile: Profile,
    waiters: Arc<Subscribers>,
    listener: Option<Box<dyn ReleaseListener>>,
    turns: Turns,
    swept: Mutex<String>,
    batch: Mutex<Option<(usize, Instant)>>,
    clock: Clock,
    /// The names recently granted to this client. `acquire_free` needs the name's row, which no
    /// sweep deletes within [`YOUNGEST_SWEPT`] of a grant.
    grants: RecentNames,
}

pub(crate) fn profile(backend: &'static str, wake_up: WakeUp, slow_poll: Duration) -> Profile {
    let mut profile = Profile::new(backend);
    profile.scope = Scope::Network;
    profile.fencing = Fencing::Clocked;
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.wake_up = wake_up;
    profile.survives = Faults::of(&[Fault::ClientCrash, Fault::Partition, Fault::ServerRestart]);
    profile.tombstones = true;
    profile.breakable = true;
    profile.tickets = true;
    profile.keeps_after_release = true;
    profile.ttl = Duration::from_millis(100)..=Profile::LONGEST_TTL;
    profile.renew_batch = 500;
    profile.slow_poll = slow_poll;
    profile
}

pub(crate) trait ReleaseListener: Send + Sync {
    /// Starts a listener unless one runs, and returns `None`. A new listener first wakes all
    /// waiters. If the client can't listen, returns the polling interval.
    fn listen(&self) -> Option<Duration>;

    fn is_active(&self) -> bool;
}

struct Asking<'a> {
    claim: &'a Claim,
    arguments: Arguments<'a>,
    sending: Sending,
    /// `None` if the claim doesn't wait, otherwise whether the name's row must record a waiter.
    waits: Option<bool>,
}

/// The result of the requests before `acquire`. `Continue(true)` means that an unanswered request
/// may have acquired the lock.
type Quickly = ControlFlow<AcquireOutcome, bool>;

const LOOKED_FOR: &str =
    "name = :name AND NOT EXISTS (SELECT 1 FROM {tombstone} WHERE token = :token)";

const LISTED: &str = "name >= :first AND (:after IS NULL OR name > :after) AND name <= :last \
                      AND token IS NOT NULL AND expires > {now} ORDER BY name LIMIT :limit";

macro_rules! statements {
    (often: $($hot:ident),*; seldom: $($other:ident),*) => {
        /// SQL about lease rows. The files in `postgres/queries` describe the parameters and
        /// columns for all servers. Times are the server's, in µs.
        #[derive(Debug)]
        pub(crate) struct StatementTexts {
            pub(crate) schema: &'static str,
            pub(crate) inspect: &'static str,
            $(pub(crate) $hot: &'static str,)*
            $(pub(crate) $other: &'static str),*
        }

        #[derive(Debug)]
        struct Statements { $($hot: Sql,)* $($other: Sql),* }

        impl Statements {
            fn new<D: Dialect>(dialect: &D) -> Self {
                Self {
                    $($hot: Sql::to_prepare(&dialect.expand(D::TEXTS.$hot), D::PLACEHOLDER),)*
                    $($other: Sql::new(&dialect.expand(D::TEXTS.$other))),*
                }
            }
        }
    };
}

statements!(
    often: acquire_free, acquire, renew, release;
    seldom: reconcile, swap, break_run_out, break_now, sweep_floor, sweep_leases,
        sweep_tombstones, shared_acquire, shared_renew, shared_release, shared_reconcile, shared_end,
        shared_wait, shared_swap, shared_break, shared_break_now, shared_sweep
);

macro_rules! statement_texts {
    ($schema:expr; $($name:ident),+; $($joined:ident: $($part:ident)+),+) => {
        StatementTexts {
            schema: $schema,
            $($name: include_str!(concat!("queries/", stringify!($name), ".sql")),)+
            $($joined: concat!($(include_str!(concat!("queries/", stringify!($part), ".sql"))),+)),+
        }
    };
    ($schema:expr) => {
        $crate::server::lease::statement_texts!($schema;
            acquire_free, acquire, renew, release, reconcile, swap, inspect,
            break_run_out, break_now, sweep_floor, sweep_leases, sweep_tombstones, shared_renew,
            shared_end, shared_wait, shared_sweep;
            shared_acquire: shared_lock shared_acquire,
            shared_release: shared_lock shared_end,
            shared_reconcile: shared_tombstone shared_lock shared_end,
            shared_swap: shared_lock shared_swap,
            shared_break: shared_lock shared_break,
            shared_break_now: shared_lock shared_tombstone_broken shared_end)
    };
}
pub(crate) use statement_texts;

impl<D: Dialect> LeaseBackend<D> {
    pub(crate) fn new(
        pool: Arc<Pool<D>>,
        profile: Profile,
        waiters: Arc<Subscribers>,
        listener: Option<Box<dyn ReleaseListener>>,
        is_direct: bool,
    ) -> Self {
        let dialect = pool.dialect();
        // Only the first SKIP LOCKED is removed: these renewals wait for a name's row, but not for
        // a reader's, which would block the name's other readers.
        let waiting = [D::TEXTS.renew, D::TEXTS.shared_renew]
            .map(|text| Sql::new(&dialect.expand(text).replacen(" SKIP LOCKED", "", 1)));
        let inspect = |which| dialect.expand(&D::TEXTS.inspect.replace("{which}", which));
        let look = inspect(LOOKED_FOR) + " LIMIT 1";
        Self {
            inspect: Sql::new(&inspect("name = :name")),
            list: Sql::new(&inspect(LISTED)),
            statements: Statements::new(dialect),
            pool,
            waiting,
            look: is_direct.then(|| Sql::to_prepare(&look, D::PLACEHOLDER)),
            profile,
            waiters,
            listener,
            turns: Turns::default(),
            swept: Mutex::default(),
            batch: Mutex::default(),
            clock: Clock::boot(),
            grants: RecentNames::default(),
        }
    }

    async fn attempt(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let may_wait = matches!(wait, Wait::Until(_));
        let mut waits = false;
        let mut longest = None;
        if let Some(listener) = self.listener.as_ref().filter(|_| may_wait) {
            // The client listens before the attempt, to miss no notification.
            self.waiters.waits(&claim.name);
            longest = listener.listen();
            waits = longest.is_none();
            longest = longest.or_else(|| (!listener.is_active()).then_some(START_POLL));
        }
        let takes_turns = waits && claim.mode == Mode::Exclusive;
        if takes_turns
            && let Wait::Until(limit) = wait
            && let Some(pause) = self.turns.pause(claim, Instant::now())
        {
            let left = limit.saturating_since(self.clock.now());
            // The TTL includes the pause, which must be short.
            tokio::time::sleep(pause.min(left / 2).min(claim.ttl / 16)).await;
        }
        let mut outcome = self.decide(claim, may_wait, waits).await?;
        if takes_turns && matches!(outcome, AcquireOutcome::Granted(_)) {
            self.turns.granted(claim, Instant::now());
        }
        if let (AcquireOutcome::Busy(busy), Some(longest)) = (&mut outcome, longest) {
            busy.retry_after = busy.retry_after.map(|after| after.min(longest));
        }
        Ok(outcome)
    }

    async fn decide(&self, claim: &Claim, may_wait: bool, waits: bool) -> Result<AcquireOutcome> {
        let (statement, kind) = match kind::kind(claim.mode) {
            None => (&self.statements.acquire, String::new()),
            Some(kind) => (&self.statements.shared_acquire, kind),
        };
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
            ("patience", Value::Int(micros_up(WRITER_PATIENCE))),
        ];
        let sending = Sending { again: true, ..self.sending(claim) };
        let mut is_unsure = false;
        if claim.mode == Mode::Exclusive {
            let waits = may_wait.then_some(waits);
            let asking = Asking { claim, arguments: &arguments, sending, waits };
            match self.acquire_quickly(&asking).await? {
                Quickly::Break(outcome) => return Ok(outcome),
                Quickly::Continue(unsure) => is_unsure = unsure,
            }
        }
        let rows = self.change_so(statement, &arguments, sending).await;
        let rows = rows.map_err(|error| pool::doubted(error, is_unsure))?;
        let row = self.pool.sound(rows.last().ok_or(BadRow))?;
        if self.pool.sound(row.bool(0))? {
            return Err(Error::new(
                ErrorKind::Lost(Reason::Gone),
                "the request was cancelled before it reached the server; acquire the lock again",
            ));
        }
        let holding = self.pool.sound(Holding::of(row, 1))?;
        if holding.token == Some(token.as_str()) {
            self.grants.note(&claim.name, self.clock.now());
            return Ok(AcquireOutcome::Granted(holding.granted()));
        }
        if holding.is_live() && !holding.mode.is_of_the_kind_of(claim.mode) {
            return Err(Error::other_kind(claim.mode));
        }
        let mut busy = holding.busy();
        let is_read = holding.mode == Mode::Shared;
        if is_read && claim.mode == Mode::Exclusive && may_wait {
            let sending = Sending { again: true, ..self.sending(claim) };
            self.change_so(&self.statements.shared_wait, &arguments, sending).await?;
            busy.queued = true;
        }
        if is_read && may_wait {
            // A waiting writer's record rejects readers and expires without a wake-up, so waiters
            // of a name with readers poll.
            busy.retry_after = busy.retry_after.map(|after| after.min(WRITER_POLL));
        }
        Ok(AcquireOutcome::Busy(busy))
    }

    /// Tries to decide an exclusive claim by cheaper requests than `acquire`.
    async fn acquire_quickly(&self, asking: &Asking<'_>) -> Result<Quickly> {
        let claim = asking.claim;
        let look = match &self.look {
            _ if asking.waits.is_none() => None,
            Some(look) if claim.ttl >= QUICK_TTL => Some(look),
            _ => return Ok(Quickly::Continue(false)),
        };
        if let Some(look) = look
            && let Some(outcome) = self.look_for_holder(look, asking).await?
        {
            return Ok(outcome);
        }
        if !self.grants.was_noted_after(&claim.name, self.clock.now() - YOUNGEST_SWEPT) {
            return Ok(Quickly::Continue(false));
        }
        let outcome = self.acquire_free(asking).await?;
        if let (Quickly::Continue(false), Some(look)) = (&outcome, look) {
            // Another client may have acquired the name since the first look.
            return Ok(self.look_for_holder(look, asking).await?.unwrap_or(outcome));
        }
        if outcome.is_continue() {
            // The name's next claim skips `acquire_free`, which may wait for the row's lock.
            // `acquire` can reject a claim without that lock.
            self.grants.forget(&claim.name);
        }
        Ok(outcome)
    }

    /// Returns `None` if the name may be free, and `Continue` if `acquire` must decide: the hold is
    /// shared, has the claim's token, or lacks a recorded waiter. Otherwise returns `Busy`.
    async fn look_for_holder(&self, look: &Sql, asking: &Asking<'_>) -> Result<Option<Quickly>> {
        let Asking { claim, arguments, sending, waits } = *asking;
        let rows = self.pool.fetch_so(look, arguments, Effect::Reads, sending).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let holding = self.pool.sound(Holding::of(row, 0))?;
        if !holding.is_live() {
            return Ok(None);
        }
        let is_other = holding.token != Some(claim.token.to_string().as_str());
        let is_recorded = waits != Some(true) || holding.waiting;
        Ok(Some(match holding.mode == Mode::Exclusive && is_other && is_recorded {
            true => Quickly::Break(AcquireOutcome::Busy(holding.busy())),
            false => Quickly::Continue(false),
        }))
    }

    async fn acquire_free(&self, asking: &Asking<'_>) -> Result<Quickly> {
        let Asking { claim, arguments, sending, .. } = *asking;
        let statement = &self.statements.acquire_free;
        let answer = self.pool.fetch_doubting(statement, arguments, Effect::Changes, sending).await;
        let (rows, is_unsure) = match answer {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::Indeterminate => return Err(error),
            // The row may be locked, so `acquire` must decide.
            Err(_) => (Vec::new(), false),
        };
        let free = rows.last().filter(|row| row.bool(0).unwrap_or(false));
        let fence = free.and_then(|row| row.fence(1).ok()).filter(|fence| fence.get() > 0);
        let Some(fence) = fence else { return Ok(Quickly::Continue(is_unsure)) };
        self.grants.note(&claim.name, self.clock.now());
        let mut granted = Granted::new(fence);
        granted.fences = claim.fences.clamp(1, i32::MAX as u32);
        granted.waiters = free.is_some_and(|row| row.bool(2).unwrap_or(false));
        Ok(Quickly::Break(AcquireOutcome::Granted(granted)))
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
        let Some(row) = rows.last() else { return Ok(AcquireOutcome::Busy(Busy::default())) };
        Ok(AcquireOutcome::Granted(self.pool.sound(Holding::of(row, 0))?.granted()))
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
        let sending = || Sending { again, ..self.sending(claim) };
        let change = self.pool.fetch_doubting(statement, &arguments, Effect::Changes, sending());
        let (rows, is_unsure) = change.await?;
        let mut ended = self.held(&rows)?;
        if self.listener.is_some() {
            let is_notified = |row: &Row| row.text(1).is_ok_and(|sent| sent.is_some());
            self.turns.released(claim, rows.last().is_some_and(is_notified));
        }
        if alone && !ended {
            // The claim may be recorded as a waiting writer.
            let shared_end = &self.statements.shared_end;
            ended = self.held(&self.change_so(shared_end, &arguments, sending()).await?)?;
        }
        if !ended && is_unsure {
            let message =
                "an earlier try of the release was not answered, and may have ended the hold";
            return Err(Error::indeterminate(message));
        }
        Ok(if ended { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
    }

    fn held(&self, rows: &[Row]) -> Result<bool> {
        rows.last().map_or(Ok(false), |row| self.pool.sound(row.bool(0)))
    }

    async fn look(&self, name: &LockName) -> Result<Inspection> {
        let arguments = [("name", Value::Text(name.as_str()))];
        let rows = self.pool.fetch(&self.inspect, &arguments, Effect::Reads).await?;
        let found = self.pool.sound(inspections(&rows))?.pop();
        Ok(found.unwrap_or_else(|| Inspection::free(name.clone())))
    }

    fn sending(&self, claim: &Claim) -> Sending {
        let until = tokio::time::Instant::now() + claim.patience();
        Sending { until, ..self.pool.sending(self.pool.limits().answer) }
    }

    async fn change_so(
        &self,
        sql: &Sql,
        arguments: Arguments<'_>,
        sending: Sending,
    ) -> Result<Vec<Row>> {
        self.pool.fetch_so(sql, arguments, Effect::Changes, sending).await
    }
}

impl<D: Dialect> std::fmt::Debug for LeaseBackend<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseBackend").field("profile", &self.profile).finish_non_exhaustive()
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

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let answer = self.attempt(claim, wait).await;
        answer.map_err(|error| error.with_backend(self.profile.backend).with_name(&claim.name))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        self.renew_all(holds).await
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
        // Names are in byte order, so this range has all names with the prefix.
        let last = format!("{prefix}{}", "\u{10FFFF}".repeat(LockName::MAX_LEN / 4));
        let after = from.as_ref().map(|cursor| cursor.0.as_str());
        let arguments = [
            ("first", Value::Text(prefix)),
            ("last", Value::Text(&last)),
            ("after", after.map_or(Value::Null, Value::Text)),
            ("limit", Value::Int(PAGE as i64)),
        ];
        let slowly = self.pool.slowly();
        let rows = self.pool.fetch_so(&self.list, &arguments, Effect::Reads, slowly).await?;
        let mut page = Page::default();
        page.names.extend(self.pool.sound(inspections(&rows))?);
        if page.names.len() == PAGE {
            page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
        }
        // MySQL ignores spaces at the prefix's end, so a name may lack the prefix. A hold may have
        // ended while the query ran.
        page.names
            .retain(|found| found.name.as_str().starts_with(prefix) && !found.holders.is_empty());
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

    /// Deletes old rows. A name's fences must grow even after its row is deleted.
    ///
    /// So the sweep first raises the floor, above which new rows' fences start, to the old rows'
    /// highest fence, and commits. Then it deletes old rows with fences up to the floor. An acquire
    /// that reads the new floor grants a fence above it. An acquire that read the old floor has
    /// also read the row, because of [`YOUNGEST_SWEPT`], and grants a fence above the row's.
    async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        let after = lock(&self.swept).clone();
        let arguments = [
            ("after", Value::Text(&after)),
            ("idle", Value::Int(micros_up(idle.max(YOUNGEST_SWEPT)))),
            ("limit", Value::Int(SWEEP as i64)),
        ];
        let change = |sql| self.change_so(sql, &arguments, self.pool.slowly());
        change(&self.statements.sweep_floor).await?;
        let rows = change(&self.statements.sweep_leases).await?;
        let examined = rows.last().ok_or(BadRow);
        let examined = examined.and_then(|row| Ok((row.int(0)?, row.int(1)?, row.text(2)?)));
        let (mut swept, seen, last) = self.pool.sound(examined)?;
        let mut most = 0;
        for sweep in [&self.statements.sweep_tombstones, &self.statements.shared_sweep] {
            let gone = change(sweep).await?.last().ok_or(BadRow).and_then(|row| row.int(0));
            let gone = self.pool.sound(gone)?;
            (swept, most) = (swept + gone, most.max(gone));
        }

        let at_the_end = seen < SWEEP as i64;
        let next = if at_the_end { "" } else { last.unwrap_or_default() };
        next.clone_into(&mut lock(&self.swept));
        Ok(SweepReport {
            rows: u64::try_from(swept).unwrap_or(0),
            more: !at_the_end || most >= SWEEP as i64,
        })
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.pool.dialect().examine(&self.pool).await
    }
}
