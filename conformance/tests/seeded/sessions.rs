//! A lock whose key belongs to a session that two clients share. etcd's own lock has one key per
//! lease, so clients with one lease don't exclude each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockwright_conformance::{Connect, connector};
use lockwright_core::{
    AcquireOutcome, Claim, Clock, DistributedLock, Finding, Profile, ReleaseMode, ReleaseOutcome,
    Renew, Renewal, Result, Token, Wait, async_trait, delegate,
};
use lockwright_memory::Memory;

#[derive(Debug)]
struct SharedKey {
    profile: Profile,
    memory: Memory,
    session: Token,
}

/// Returns a connector whose connections share sessions in pairs.
pub(crate) fn shared_key(clock: &Clock) -> Connect {
    let memory = Memory::with_clock(clock.clone());
    let clients = Arc::new(AtomicUsize::new(0));
    connector(move || {
        let session = clients.fetch_add(1, Ordering::SeqCst) as u8 / 2;
        let mut profile = Profile::new("shared-key");
        profile.fencing = memory.profile().fencing;
        let session = Token::from_bytes([session; 16]);
        std::future::ready(Ok(SharedKey { profile, memory: memory.clone(), session }))
    })
}

impl SharedKey {
    fn claim(&self, claim: &Claim) -> Claim {
        Claim { token: self.session, ..claim.clone() }
    }
}

#[async_trait]
impl DistributedLock for SharedKey {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    delegate!(|this| this.memory; attach, inspect, list);

    async fn acquire(&self, claim: &Claim, _wait: Wait) -> Result<AcquireOutcome> {
        self.memory.acquire(&self.claim(claim), Wait::No).await
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let claims: Vec<Claim> = holds.iter().map(|hold| self.claim(hold.claim)).collect();
        let holds: Vec<Renew<'_>> = claims.iter().map(Renew::of).collect();
        self.memory.renew(&holds).await
    }

    async fn release(&self, claim: &Claim, _release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        self.memory.release(&self.claim(claim), ReleaseMode::Plain).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
