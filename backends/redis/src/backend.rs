//! The trait, one script per method.

use std::time::Duration;

use lockwright_core::{
    Attempt, BreakHow, Broken, Busy, Claim, Cursor, DistributedLock, Ended, Error, ErrorKind,
    Events, Finding, Inspection, LockName, Mode, Page, Profile, Reason, Renew, Renewal, Result,
    Seen, Settle, Token, Wait, async_trait,
};
use redis::Value;

use crate::asking::{self, Outcome, alien, millis_rounded_up};
use crate::cluster::moving::Hold;
use crate::errors::{Effect, error, odd_answer};
use crate::keys::Keys;
use crate::servers::Servers;
use crate::{Redis, answer, doctor, listing, replicas, scripts, tracking};

/// For how long a token that must not come back is remembered at least.
const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

/// How often a break of "whoever holds" looks again when the holder has changed meanwhile.
const BREAK_TRIES: usize = 10;

#[async_trait]
impl DistributedLock for Redis {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.servers.wakeups().attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        let attempt = match self.attempt(claim, wait).await {
            Err(cause) if replicas::are_too_few(&cause) => Err(self.give_back(claim, cause).await),
            attempt => attempt,
        };
        attempt.map_err(|error| self.named(error).with_name(&claim.name))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        self.servers.renew(holds).await.map_err(|error| self.named(error))
    }

    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        self.end(claim, settle).await.map_err(|error| self.named(error).with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let found = self.servers.inspect_all(std::slice::from_ref(name)).await;
        match found.map_err(|error| self.named(error).with_name(name))?.pop() {
            Some(answer::Found::Lock(inspection)) => Ok(inspection),
            Some(answer::Found::Alien(kind)) => Err(self.named(alien(&kind)).with_name(name)),
            None => Err(self.named(odd_answer(Effect::Reads, "nothing")).with_name(name)),
        }
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        listing::page(&self.servers, prefix, from).await.map_err(|error| self.named(error))
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
        let broken = self.break_it(name, seen, how, &note).await;
        broken.map_err(|error| self.named(error).with_name(name))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        doctor::examine(&self.servers).await.map_err(|error| self.named(error))
    }
}

impl Redis {
    async fn attempt(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        if claim.mode != Mode::Exclusive {
            return Err(lockwright_core::Error::unsupported(
                &format!("the mode {}", claim.mode),
                &self.profile,
            ));
        }
        let keys = self.keys(&claim.name)?;
        let waits = wait != Wait::No;
        let answer = self
            .servers
            .run(
                &scripts::ACQUIRE,
                &[&keys.lock, &keys.fence, &keys.hold, &keys.ended(claim.token)],
                &asking::arguments(claim, waits).each_ref().map(String::as_str),
                Effect::Changes,
            )
            .await?;
        match asking::outcome(answer, &keys)? {
            Outcome::Granted(granted) | Outcome::Again(granted) => Ok(Attempt::Granted(granted)),
            Outcome::Busy(mut busy) => {
                if waits {
                    self.servers.wakeups().waits(&claim.name);
                    self.listen_for(&keys, &mut busy).await;
                }
                Ok(Attempt::Busy(busy))
            }
            Outcome::Ended => Err(error(
                ErrorKind::Lost(Reason::Gone),
                "this token was released or broken before, so its hold does not come back; ask \
                 with a new token",
            )),
            Outcome::Stranger => Err(odd_answer(Effect::Changes, "stranger")),
        }
    }

    /// A stranger tells nobody when it lets go. If the server does that for it, there is no need to
    /// ask often.
    async fn listen_for(&self, keys: &Keys, busy: &mut Busy) {
        let Some(holder) = busy.holder.as_ref().filter(|holder| holder.token.is_none()) else {
            return;
        };
        match tracking::listen_for(&self.servers, &keys.lock).await {
            Some(true) => busy.retry_after = holder.remaining,
            // It went while nobody listened.
            Some(false) => busy.retry_after = Some(Duration::ZERO),
            None => {}
        }
    }

    /// Ends a hold that was granted and doesn't count.
    async fn give_back(&self, claim: &Claim, cause: Error) -> Error {
        match self.end(claim, Settle::Answered).await {
            Ok(Ended::Released) => replicas::given_back(&cause),
            // It was there a moment ago, so this may have been asked of another server.
            Ok(Ended::NotHeld) | Err(_) => cause,
        }
    }

    async fn end(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        let keys = self.keys(&claim.name)?;
        let tombstone = match settle {
            Settle::Answered => 0,
            Settle::Unanswered => millis_rounded_up(claim.ttl.max(TOMBSTONE)),
        };
        self.servers.wakeups().tracked().forget(&keys.lock, claim.token);
        let (ended, token) = (keys.ended(claim.token), claim.token.to_string());
        let scripted = [&keys.lock, &keys.hold, &ended].map(String::as_str);
        let (buried, released) = (tombstone.to_string(), self.servers.wakeups().released());
        let arguments = [&token, &buried, released, claim.name.as_str()];
        let answer = match &self.servers {
            Servers::One(link) => {
                link.run(&scripts::RELEASE, &scripted, &arguments, Effect::Changes).await?
            }
            Servers::Cluster(cluster) => {
                let release = &scripts::RELEASE;
                match cluster.try_run(release, &scripted, &arguments, Effect::Changes).await? {
                    Some(answer) => answer,
                    None => {
                        let hold = Hold { keys: &keys, ended: &ended, token: &token };
                        return hold.end(cluster, claim, tombstone).await;
                    }
                }
            }
        };
        match answer {
            Value::Int(1) => Ok(Ended::Released),
            Value::Int(0) => Ok(Ended::NotHeld),
            other => Err(odd_answer(Effect::Changes, other)),
        }
    }

    async fn break_it(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        note: &str,
    ) -> Result<Broken> {
        let keys = self.keys(name)?;
        for _ in 0..BREAK_TRIES {
            // A token must be named for its tombstone, also when any will do.
            let token = match seen {
                Seen::Token(token) => Some(token),
                Seen::Any => match self.inspect(name).await?.holders.first() {
                    Some(holder) => holder.token,
                    None => return Ok(Broken::NotHeld),
                },
            };
            let ended = keys.ended(token.unwrap_or(Token::from_bytes([0; 16])));
            let answer = self
                .servers
                .run(
                    &scripts::BREAK,
                    &[&keys.lock, &keys.fence, &keys.hold, &ended],
                    &[
                        &token.map_or_else(String::new, |token| token.to_string()),
                        if seen == Seen::Any { "1" } else { "0" },
                        if how == BreakHow::Now { "now" } else { "run-out" },
                        note,
                        &millis_rounded_up(TOMBSTONE).to_string(),
                        self.servers.wakeups().released(),
                        name.as_str(),
                        self.servers.wakeups().broken(),
                    ],
                    Effect::Changes,
                )
                .await?;
            let words = answer::Words::of(answer, Effect::Changes)?;
            // A foreign hold without an end is believed for ever.
            let left = || words.duration(1).unwrap_or(Duration::MAX);
            return match words.word(0)? {
                "free" => Ok(Broken::NotHeld),
                "freed" => Ok(Broken::Freed(left())),
                "runs-out" => Ok(Broken::RunsOut(left())),
                "retry" => continue,
                "unbreakable" => Err(error(
                    ErrorKind::Conflict,
                    "it is held by something that isn't Lockwright, or without an end, so it \
                     can't be made to run out; free it at once instead",
                )),
                "foreign" => Err(alien("something else")),
                _ => Err(odd_answer(Effect::Changes, words)),
            };
        }
        Err(error(ErrorKind::Unavailable, "the holder changes too fast to be broken; try again"))
    }

    fn named(&self, error: Error) -> Error {
        error.with_backend(self.profile.backend)
    }

    fn keys(&self, name: &LockName) -> Result<Keys> {
        Keys::new(&self.servers.config().key_prefix, name)
    }
}
