use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock,
    Event, Events, Finding, Inspection, LockName, Page, Profile, Reason, ReleaseMode,
    ReleaseOutcome, Renew, Renewal, Result, Token, Wait, async_trait,
};

use crate::Memory;

#[async_trait]
impl DistributedLock for Memory {
    fn profile(&self) -> &Profile {
        &self.0.profile
    }

    fn attach(&self, events: Events) {
        self.0.clients.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        self.answer_acquire(claim, wait, self.0.clock.now())
    }

    fn acquire_at_once(&self, claim: &Claim, now: BootInstant) -> Option<Result<AcquireOutcome>> {
        Some(self.answer_acquire(claim, Wait::No, now))
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let (mut store, now) = self.step(self.0.clock.now());
        store.swap(from, to, now)
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let (mut store, now) = self.step(self.0.clock.now());
        Ok(holds.iter().map(|hold| store.renew(hold, now)).collect())
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        Ok(self.answer_release(claim, release_mode, self.0.clock.now()))
    }

    fn release_at_once(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
        now: BootInstant,
    ) -> Option<Result<ReleaseOutcome>> {
        Some(Ok(self.answer_release(claim, release_mode, now)))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        Ok(self.store().inspect(name, self.0.clock.now()))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        let after = from.as_ref().map(|cursor| cursor.0.as_str());
        Ok(self.store().list(prefix, after, self.0.clock.now()))
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
        let done = {
            let (mut store, now) = self.step(self.0.clock.now());
            store.break_lock(name, seen, how, &note, now)
        };
        let (broken, tokens) = done.answer;
        for token in tokens {
            self.0.clients.send(&Event::Lost(token, Reason::Broken));
        }
        if done.wake {
            self.0.clients.send(&Event::Wake(name.clone()));
        }
        Ok(broken)
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
