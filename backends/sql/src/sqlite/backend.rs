use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock, Events,
    Finding, Inspection, LockName, Page, Profile, ReleaseMode, ReleaseOutcome, Renew, Renewal,
    Result, SweepReport, Token, Wait, async_trait,
};

use super::statements::{Acquire, Acquired};
use super::writer::{Answer, Request};
use super::{PROFILE, Sqlite};
use crate::kind::identity_text;

macro_rules! expect {
    ($answer:expr, $kind:ident) => {
        match $answer {
            Answer::$kind(answer) => answer,
            other => unreachable!("asked for {}, got {other:?}", stringify!($kind)),
        }
    };
}

#[async_trait]
impl DistributedLock for Sqlite {
    fn profile(&self) -> &Profile {
        &PROFILE
    }

    fn attach(&self, events: Events) {
        self.waiters.clients.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        // A release between an attempt and its answer ends the waiter's registration, so another
        // attempt follows. After the last, the caller polls.
        const ATTEMPTS: u32 = 3;

        for _ in 1..ATTEMPTS {
            let attempt = self.attempt(claim, wait).await?;
            let waits = matches!(wait, Wait::Until(_));
            if matches!(attempt, AcquireOutcome::Granted(_))
                || !waits
                || self.waiters.is_expected(&claim.name)
            {
                return Ok(attempt);
            }
        }
        self.attempt(claim, wait).await
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        self.granted(Request::Swap { from, to: asked(to, Wait::No)? }, to).await
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let claims = holds.iter().map(|hold| hold.claim.clone()).collect();
        Ok(expect!(self.jobs.ask(Request::Renew(claims)).await?, Renewed))
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let tombstone = release_mode == ReleaseMode::Reconcile;
        let request = Request::Release { claim: claim.clone(), tombstone };
        let answer = self.jobs.ask(request).await.map_err(|e| e.with_name(&claim.name))?;
        Ok(match expect!(answer, Released) {
            Some(_makes_room) => ReleaseOutcome::Released,
            None => ReleaseOutcome::NotHeld,
        })
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let request = Request::Inspect(name.clone());
        let answer = self.jobs.ask(request).await.map_err(|e| e.with_name(name))?;
        Ok(expect!(answer, Inspection))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        let request = Request::List { prefix: prefix.to_owned(), after: from };
        Ok(expect!(self.jobs.ask(request).await?, Page))
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let broken = format!("{by}: {reason}");
        let request = Request::Break { name: name.clone(), seen, how, broken };
        let answer = self.jobs.ask(request).await.map_err(|e| e.with_name(name))?;
        Ok(expect!(answer, Broken))
    }

    async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        Ok(expect!(self.jobs.ask(Request::Sweep(idle)).await?, Swept))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        let answer = self.jobs.ask(Request::Examine).await;
        let contents = answer.map(|answer| expect!(answer, Findings));
        Ok(super::doctor::findings(&self.database, contents))
    }
}

impl Sqlite {
    async fn attempt(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        if let Wait::Until(until) = wait {
            // Registered before the attempt, to miss no wake-up.
            self.waiters.expect(claim, until, &self.jobs);
        }
        self.granted(Request::Acquire(asked(claim, wait)?), claim).await
    }

    async fn granted(&self, request: Request, claim: &Claim) -> Result<AcquireOutcome> {
        match self.jobs.ask(request).await.map_err(|e| e.with_name(&claim.name))? {
            Answer::Acquired(Acquired::Outcome(outcome)) => Ok(outcome),
            Answer::Acquired(Acquired::Refused(error)) => {
                Err(error.with_backend(PROFILE.backend).with_name(&claim.name))
            }
            other => unreachable!("asked for a hold, got {other:?}"),
        }
    }
}

fn asked(claim: &Claim, wait: Wait) -> Result<Acquire> {
    let identity = identity_text(claim)?;
    Ok(Acquire { claim: claim.clone(), identity, waits: wait != Wait::No })
}
