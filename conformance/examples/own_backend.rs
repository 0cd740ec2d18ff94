//! A complete backend, and the suite that tests it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_conformance::{Factory, Runtime, connector, harness};
use lockwright_core::*;

/// Locks in a map. Clones are connections to the same "server".
#[derive(Debug, Clone)]
struct Own {
    profile: Profile,
    clock: Clock,
    server: Arc<Mutex<HashMap<LockName, Held>>>,
}

#[derive(Debug)]
struct Held {
    token: Token,
    expires: BootInstant,
}

impl Own {
    fn new(clock: Clock) -> Self {
        // The minimal profile: exclusive locks in one process, with polling.
        Self { profile: Profile::new("own"), clock, server: Arc::default() }
    }

    /// Performs one atomic step, after removing expired holds.
    fn step<T>(&self, step: impl FnOnce(&mut HashMap<LockName, Held>, BootInstant) -> T) -> T {
        let mut holds = self.server.lock().unwrap();
        let now = self.clock.now();
        holds.retain(|_, held| now < held.expires);
        step(&mut holds, now)
    }

    fn shown(name: &LockName, held: Option<&Held>, now: BootInstant) -> Inspection {
        let mut inspection = Inspection::free(name.clone());
        if let Some(held) = held {
            let mut holder = Holder::new(Some(held.token));
            holder.remaining = Some(held.expires.saturating_since(now));
            inspection.holders.push(holder);
        }
        inspection
    }
}

#[async_trait]
impl DistributedLock for Own {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn acquire(&self, claim: &Claim, _wait: Wait) -> Result<AcquireOutcome> {
        Ok(self.step(|holds, now| match holds.get(&claim.name) {
            Some(held) if held.token != claim.token => AcquireOutcome::Busy(Busy::default()),
            // The lock is free, or the holder repeats its request, which sets a new deadline.
            _ => {
                let held = Held { token: claim.token, expires: now + claim.ttl };
                holds.insert(claim.name.clone(), held);
                AcquireOutcome::Granted(Granted::new(Fence::new(1)))
            }
        }))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let renew = |Renew { claim, .. }: &Renew<'_>| {
            self.step(|holds, now| match holds.get_mut(&claim.name) {
                Some(held) if held.token == claim.token => {
                    held.expires = now + claim.ttl;
                    Renewal::RENEWED
                }
                _ => Renewal::not_held(Reason::Gone),
            })
        };
        Ok(holds.iter().map(renew).collect())
    }

    async fn release(&self, claim: &Claim, _release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        Ok(self.step(|holds, _| match holds.get(&claim.name) {
            Some(held) if held.token == claim.token => {
                holds.remove(&claim.name);
                ReleaseOutcome::Released
            }
            _ => ReleaseOutcome::NotHeld,
        }))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        Ok(self.step(|holds, now| Self::shown(name, holds.get(name), now)))
    }

    async fn list(&self, prefix: &str, _from: Option<Cursor>) -> Result<Page> {
        Ok(self.step(|holds, now| {
            let held = holds.iter().filter(|(name, _)| name.as_str().starts_with(prefix));
            let names = held.map(|(name, held)| Self::shown(name, Some(held), now)).collect();
            Page { names, next: None }
        }))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

fn main() -> std::process::ExitCode {
    let factory = Factory::new(|clock| {
        let own = Own::new(clock.clone());
        connector(move || std::future::ready(Ok(own.clone())))
    });
    // The backend has no I/O, so the suite can move its clock instead of waiting for a TTL.
    harness::main(factory.runtime(Runtime::Paused).ttl(Duration::from_secs(10)))
}
