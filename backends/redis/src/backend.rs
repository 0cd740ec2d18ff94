//! The trait, one script per method.

use std::time::Duration;

use lockwright_core::{
    Attempt, BreakHow, Broken, Claim, Cursor, DistributedLock, Ended, ErrorKind, Events, Finding,
    Inspection, LockName, Mode, Page, Profile, Reason, Renew, Renewal, Result, Seen, Settle, Token,
    Wait, async_trait,
};
use redis::Value;

use crate::asking::{self, Outcome, alien, millis_rounded_up};
use crate::errors::{Effect, error, odd_answer};
use crate::keys::Keys;
use crate::renewing::Batch;
use crate::{Redis, answer, doctor, listing, scripts};

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
        self.link.wakeups().attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        self.attempt(claim, wait).await.map_err(|error| error.with_name(&claim.name))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let batch = Batch::new(&self.link.config().key_prefix, holds)?;
        let answer = self
            .link
            .run(&scripts::RENEW, &batch.keys(), &batch.arguments(), Effect::Changes)
            .await?;
        batch.renewals(answer)
    }

    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        self.end(claim, settle).await.map_err(|error| error.with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let found = self.inspect_all(std::slice::from_ref(name)).await;
        match found.map_err(|error| error.with_name(name))?.pop() {
            Some(answer::Found::Lock(inspection)) => Ok(inspection),
            Some(answer::Found::Alien(kind)) => Err(alien(&kind).with_name(name)),
            None => Err(odd_answer(Effect::Reads, "nothing").with_name(name)),
        }
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        listing::page(self, prefix, from).await
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
        self.break_it(name, seen, how, &note).await.map_err(|error| error.with_name(name))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        doctor::examine(&self.link).await
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
            .link
            .run(
                &scripts::ACQUIRE,
                &[&keys.lock, &keys.fence, &keys.hold, &keys.ended(claim.token)],
                &asking::arguments(claim, waits).each_ref().map(String::as_str),
                Effect::Changes,
            )
            .await?;
        match asking::outcome(answer, &keys)? {
            Outcome::Granted(granted) | Outcome::Again(granted) => Ok(Attempt::Granted(granted)),
            Outcome::Busy(busy) => {
                if waits {
                    self.link.wakeups().waits(&claim.name);
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

    async fn end(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        let keys = self.keys(&claim.name)?;
        let tombstone = match settle {
            Settle::Answered => 0,
            Settle::Unanswered => millis_rounded_up(claim.ttl.max(TOMBSTONE)),
        };
        let answer = self
            .link
            .run(
                &scripts::RELEASE,
                &[&keys.lock, &keys.hold, &keys.ended(claim.token)],
                &[
                    &claim.token.to_string(),
                    &tombstone.to_string(),
                    self.link.wakeups().released(),
                    claim.name.as_str(),
                ],
                Effect::Changes,
            )
            .await?;
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
                .link
                .run(
                    &scripts::BREAK,
                    &[&keys.lock, &keys.fence, &keys.hold, &ended],
                    &[
                        &token.map_or_else(String::new, |token| token.to_string()),
                        if seen == Seen::Any { "1" } else { "0" },
                        if how == BreakHow::Now { "now" } else { "run-out" },
                        note,
                        &millis_rounded_up(TOMBSTONE).to_string(),
                        self.link.wakeups().released(),
                        name.as_str(),
                        self.link.wakeups().broken(),
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

    /// What is there for each name, in their order. One round trip.
    pub(crate) async fn inspect_all(&self, names: &[LockName]) -> Result<Vec<answer::Found>> {
        let keys: Vec<Keys> = names.iter().map(|name| self.keys(name)).collect::<Result<_>>()?;
        let keys: Vec<&str> = keys
            .iter()
            .flat_map(|keys| [keys.lock.as_str(), keys.fence.as_str(), keys.hold.as_str()])
            .collect();
        let answer = self.link.run(&scripts::INSPECT, &keys, &[], Effect::Reads).await?;
        let Value::Array(answers) = answer else {
            return Err(odd_answer(Effect::Reads, answer));
        };
        if answers.len() != names.len() {
            return Err(odd_answer(Effect::Reads, answers));
        }
        names.iter().zip(answers).map(|(name, answer)| answer::found(name, answer)).collect()
    }

    fn keys(&self, name: &LockName) -> Result<Keys> {
        Keys::new(&self.link.config().key_prefix, name)
    }
}
