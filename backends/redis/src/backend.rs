use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Busy, Claim, Cursor, DistributedLock, Error,
    ErrorKind, Events, Finding, Inspection, LockName, Mode, Page, Profile, Reason, ReleaseMode,
    ReleaseOutcome, Renew, Renewal, Result, Token, Wait, async_trait,
};
use redis::Value;

use crate::acquire::{self, Outcome, alien, ended, millis_rounded_up};
use crate::cluster::slot_migration;
use crate::errors::{Effect, error, odd_answer};
use crate::keys::Keys;
use crate::topology::Topology;
use crate::{OFFER, PATIENCE, Redis, answer, doctor, list, offers, replicas, scripts, tracking};

const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

/// Longer holds need the full script, which always extends the fence counter's expiry, by which
/// listings find the lock.
const LONGEST_FAST_TTL: Duration = Duration::from_secs(24 * 60 * 60);

const BREAK_TRIES: usize = 10;

#[async_trait]
impl DistributedLock for Redis {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.servers.wakeups().subscribers.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let attempt = self.attempt(claim, wait).await;
        self.counted(claim, attempt, ErrorKind::Unavailable).await
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let attempt = self.take_over(from, to).await;
        // If too few replicas acknowledge the grant, `counted` releases the transferred hold.
        self.counted(to, attempt, ErrorKind::Lost(Reason::Gone)).await
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        self.servers.renew(holds).await.map_err(|error| self.named(error))
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let ended = self.end(claim, release_mode).await;
        if ended.is_ok() {
            // The token isn't claimed again.
            lock(&self.given_up).remove(&claim.token);
        }
        ended.map_err(|error| self.named(error).with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let found = self.servers.inspect_all(std::slice::from_ref(name)).await;
        match found.map_err(|error| self.named(error).with_name(name))?.pop() {
            Some(Ok(inspection)) => Ok(inspection),
            Some(Err(kind)) => Err(self.named(alien(&kind)).with_name(name)),
            None => Err(self.named(odd_answer(Effect::Reads, "nothing")).with_name(name)),
        }
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        list::page(&self.servers, prefix, from).await.map_err(|error| self.named(error))
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
        let broken = self.break_it(name, seen, how, &note).await;
        broken.map_err(|error| self.named(error).with_name(name))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        doctor::examine(&self.servers).await.map_err(|error| self.named(error))
    }
}

impl Redis {
    async fn attempt(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        self.not_given_up(claim.token)?;
        if wait == Wait::No
            && self.may_use_fast_path(claim)
            && let Some(outcome) = self.fast_attempt(claim).await?
        {
            return Ok(outcome);
        }
        Box::pin(self.full_attempt(claim, wait)).await
    }

    async fn full_attempt(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let keys = self.keys(&claim.name)?;
        let wakeups = self.servers.wakeups();
        let sent = wakeups.offers.clock.now();
        let patience = match wait {
            Wait::No => Duration::ZERO,
            // The claim stays queued longer than its request waits, so this process's next waiter
            // can inherit the position.
            Wait::Until(end) => end.saturating_since(sent).saturating_add(OFFER).min(PATIENCE),
        };
        let tombstone = keys.tombstone(claim.token);
        let [lock, fence, queue, holders, meta] = keys.described();
        let scripted = [lock, fence, &tombstone, queue, holders, meta];
        let [ttl, patience] = [claim.ttl, patience].map(|it| millis_rounded_up(it).to_string());
        let arguments = [
            &*wakeups.hold_value(claim),
            &ttl,
            &answer::mode_text(claim.mode),
            &patience,
            &wakeups.offers.id,
            self.servers.counts_receivers(),
            &wakeups.released,
            claim.name.as_str(),
        ];
        if wait != Wait::No {
            wakeups.offers.asks(claim.token);
        }
        let call = scripts::ACQUIRE.call(&scripted, &arguments, limited(claim));
        let answer = self.servers.run(call).await;
        let outcome = answer.and_then(|answer| acquire::outcome(answer, &keys, claim.mode));
        if !matches!(outcome, Ok(Outcome::Queued(..))) {
            wakeups.offers.asked(claim.token);
        }
        match outcome? {
            Outcome::Granted(granted) | Outcome::Again(granted) => {
                wakeups.offers.forget(claim.token);
                Ok(AcquireOutcome::Granted(granted))
            }
            Outcome::Busy(busy) => Ok(AcquireOutcome::Busy(busy)),
            Outcome::Queued(mut busy, micros) => {
                // Only a new request can confirm an offer if replicas must acknowledge the grant,
                // or if another clock may have timed the offer.
                let config = self.servers.config();
                let asks_again =
                    config.replicas.is_some() || !matches!(config.topology, Topology::One(_));
                wakeups.offers.waits(claim, sent, micros, asks_again);
                wakeups.subscribers.waits(&claim.name);
                wakeups.fast_path.note_contention(&claim.name);
                self.listen_for(&keys, &mut busy).await;
                Ok(AcquireOutcome::Busy(busy))
            }
        }
    }

    fn may_use_fast_path(&self, claim: &Claim) -> bool {
        claim.mode == Mode::Exclusive
            && claim.fences <= 1
            && claim.ttl <= LONGEST_FAST_TTL
            && self.servers.config().replicas.is_none()
            && !self.servers.wakeups().fast_path.is_contended(&claim.name)
    }

    /// Returns `None` if the full script must decide.
    async fn fast_attempt(&self, claim: &Claim) -> Result<Option<AcquireOutcome>> {
        let fast_path = &self.servers.wakeups().fast_path;
        let keys = Keys::fast(&self.servers.config().key_prefix, &claim.name)?;
        let arguments =
            [&*self.servers.wakeups().hold_value(claim), &millis_rounded_up(claim.ttl).to_string()];
        let scripted = [keys.lock(), keys.fence()];
        let call = scripts::FAST_ACQUIRE.call(&scripted, &arguments, limited(claim));
        let answer = self.servers.run(call).await?;
        let outcome = match answer {
            Value::Int(-1) => None,
            answer => match acquire::outcome(answer, &keys, claim.mode)? {
                Outcome::Granted(granted) => return Ok(Some(AcquireOutcome::Granted(granted))),
                Outcome::Busy(busy) => Some(AcquireOutcome::Busy(busy)),
                other => return Err(odd_answer(Effect::Changes, other)),
            },
        };
        fast_path.note_contention(&claim.name);
        Ok(outcome)
    }

    async fn take_over(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        self.not_given_up(to.token)?;
        let keys = self.keys(&to.name)?;
        self.servers.wakeups().tracked.forget(keys.lock(), from);
        let old = from.to_string();
        let lasts = millis_rounded_up(to.ttl.max(TOMBSTONE)).to_string();
        // `swap.lua` reserves only one fence.
        let to = &Claim { fences: 1, ..to.clone() };
        let value = self.servers.wakeups().hold_value(to);
        let (ttl, mode) = (millis_rounded_up(to.ttl).to_string(), answer::mode_text(to.mode));
        let arguments = [&*value, &ttl, &mode, &old, &lasts];
        let (tombstone_to, tombstone_from) = (keys.tombstone(to.token), keys.tombstone(from));
        let [lock, fence, queue, holders, meta] = keys.described();
        let scripted = [lock, fence, &tombstone_to, &tombstone_from, queue, holders, meta];
        let call = scripts::SWAP.call(&scripted, &arguments, limited(to));
        match acquire::outcome(self.servers.run(call).await?, &keys, to.mode)? {
            Outcome::Granted(granted) | Outcome::Again(granted) => {
                Ok(AcquireOutcome::Granted(granted))
            }
            Outcome::Busy(busy) | Outcome::Queued(busy, _) => Ok(AcquireOutcome::Busy(busy)),
        }
    }

    async fn listen_for(&self, keys: &Keys, busy: &mut Busy) {
        let Some(holder) = &busy.holder else { return };
        // With zero time left, the lock is free, but no offer has reached the first waiter.
        let is_foreign = holder.token.is_none() && holder.remaining != Some(Duration::ZERO);
        if is_foreign && let Some(is_held) = tracking::listen_for(&self.servers, keys.lock()).await
        {
            busy.retry_after = if is_held { holder.remaining } else { Some(Duration::ZERO) };
        }
    }

    fn not_given_up(&self, token: Token) -> Result<()> {
        if lock(&self.given_up).contains(&token) { Err(ended()) } else { Ok(()) }
    }

    /// Releases a grant that too few replicas acknowledged. If the server confirms this, the
    /// error's kind is `released`.
    async fn counted(
        &self,
        claim: &Claim,
        attempt: Result<AcquireOutcome>,
        released: ErrorKind,
    ) -> Result<AcquireOutcome> {
        let error = match attempt {
            Err(cause) if replicas::are_too_few(&cause) => {
                Box::pin(self.give_back(claim, cause, released)).await
            }
            Err(error) => error,
            granted_or_busy => return granted_or_busy,
        };
        Err(self.named(error).with_name(&claim.name))
    }

    async fn give_back(&self, claim: &Claim, cause: Error, released: ErrorKind) -> Error {
        // A token whose release isn't confirmed stays in `given_up`.
        lock(&self.given_up).insert(claim.token);
        let Ok(ended) = self.end(claim, ReleaseMode::Plain).await else { return cause };
        lock(&self.given_up).remove(&claim.token);
        match ended {
            ReleaseOutcome::Released => replicas::given_back(&cause, released),
            // After a failover, the grant may still exist on another server.
            ReleaseOutcome::NotHeld => cause,
        }
    }

    async fn end(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let wakeups = self.servers.wakeups();
        let keys = Keys::fast(&self.servers.config().key_prefix, &claim.name)?;
        wakeups.tracked.forget(keys.lock(), claim.token);
        wakeups.offers.forget(claim.token);
        if release_mode == ReleaseMode::Plain && self.may_use_fast_path(claim) {
            let value = wakeups.hold_value(claim);
            let (scripted, arguments) = ([keys.lock(), keys.fence()], [&*value]);
            let call = scripts::FAST_RELEASE.call(&scripted, &arguments, limited(claim));
            if let Some(Value::Int(1)) = self.servers.try_run(call).await? {
                return Ok(ReleaseOutcome::Released);
            }
            wakeups.fast_path.note_contention(&claim.name);
        }
        Box::pin(self.full_end(claim, release_mode)).await
    }

    async fn full_end(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let keys = self.keys(&claim.name)?;
        let tombstone_ms = tombstone_life(claim, release_mode);
        let [lock, fence, queue, holders, meta] = keys.described();
        let token = claim.token.to_string();
        let tombstone = keys.tombstone(claim.token);
        let scripted = [lock, &*tombstone, fence, queue, holders, meta];
        let (tombstone_life, released) =
            (tombstone_ms.to_string(), self.servers.wakeups().released.as_str());
        let counts = self.servers.counts_receivers();
        let arguments = [&token, &tombstone_life, released, claim.name.as_str(), counts];
        let call = scripts::RELEASE.call(&scripted, &arguments, limited(claim));
        match self.servers.try_run(call).await? {
            None => slot_migration::end(&self.servers, claim, &keys, tombstone_ms).await,
            Some(Value::Int(life @ 2..)) => {
                let life = Duration::from_millis(life.unsigned_abs());
                self.servers.wakeups().fast_path.note_contention(&claim.name);
                offers::expire_offer(&self.servers, &claim.name, life);
                Ok(ReleaseOutcome::Released)
            }
            Some(answer) => answer::released(answer),
        }
    }

    async fn break_it(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
    ) -> Result<Broken> {
        let holders = match seen {
            BreakTarget::Any => self.inspect(name).await?.holders,
            BreakTarget::Token(_) => Vec::new(),
        };
        if holders.iter().all(|holder| holder.mode == Mode::Exclusive) {
            return self.break_one(name, seen, how, note).await;
        }
        let mut broken = Broken::NotHeld;
        for token in holders.iter().filter_map(|holder| holder.token) {
            let seen = BreakTarget::Token(token);
            broken = broken.and(self.break_one(name, seen, how, note).await)?;
        }
        Ok(broken)
    }

    async fn break_one(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
    ) -> Result<Broken> {
        let keys = self.keys(name)?;
        for _ in 0..BREAK_TRIES {
            // The tombstone's key contains the token.
            let token = match seen {
                BreakTarget::Token(token) => Some(token),
                BreakTarget::Any => match self.inspect(name).await?.holders.first() {
                    Some(holder) => holder.token,
                    None => return Ok(Broken::NotHeld),
                },
            };
            let tombstone = keys.tombstone(token.unwrap_or(Token::from_bytes([0; 16])));
            let [lock, fence, queue, holders, meta] = keys.described();
            let scripted = [lock, fence, &tombstone, queue, holders, meta];
            let arguments = [
                &*token.map_or_else(String::new, |token| token.to_string()),
                if seen == BreakTarget::Any { "1" } else { "0" },
                if how == BreakMode::Now { "now" } else { "run-out" },
                note,
                &millis_rounded_up(TOMBSTONE).to_string(),
                self.servers.wakeups().released.as_str(),
                name.as_str(),
                &self.servers.wakeups().broken,
                self.servers.counts_receivers(),
            ];
            let call = scripts::BREAK.call(&scripted, &arguments, Effect::Changes);
            let reply = answer::Reply::of(self.servers.run(call).await?, Effect::Changes)?;
            // Another library's hold may have no expiry.
            let left = || reply.duration(1).unwrap_or(Duration::MAX);
            return match reply.word(0)? {
                "free" => Ok(Broken::NotHeld),
                "freed" => Ok(Broken::Freed(left())),
                "runs-out" => Ok(Broken::RunsOut(left())),
                "retry" => continue,
                "unbreakable" => Err(error(
                    ErrorKind::Conflict,
                    "the lock is held by another library, or without an expiry, so it can't be \
                     made to run out; break it at once instead",
                )),
                "foreign" => Err(alien("something else")),
                _ => Err(odd_answer(Effect::Changes, reply)),
            };
        }
        Err(error(ErrorKind::Unavailable, "the holder changes too fast for a break; try again"))
    }

    fn named(&self, error: Error) -> Error {
        error.with_backend(self.profile.backend)
    }

    fn keys(&self, name: &LockName) -> Result<Keys> {
        Keys::new(&self.servers.config().key_prefix, name)
    }
}

pub(crate) fn tombstone_life(claim: &Claim, release_mode: ReleaseMode) -> u128 {
    match release_mode {
        ReleaseMode::Plain => 0,
        ReleaseMode::Reconcile => millis_rounded_up(claim.ttl.max(TOMBSTONE)),
    }
}

fn limited(claim: &Claim) -> Effect {
    Effect::changes_within(claim.patience())
}
