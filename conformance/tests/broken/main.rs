//! Tests of the suite. A backend or client with a flaw fails that flaw's case, and passes it without the flaw.
#![forbid(unsafe_code)]

mod client;
mod fenced_store;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../fixtures/mod.rs"]
mod fixtures;
mod flaws;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockwright_conformance::client::Believer;
use lockwright_conformance::report::run_case;
use lockwright_conformance::{
    Connect, Factory, Group, Outcome, Protect, Runtime, cases, connector,
};
use lockwright_core::{Clock, DistributedLock, Result, async_trait};

use client::SmallClient;
use fenced_store::fenced_store;
use fixtures::{Flaw, MajorityFlaw, MutexBackend, QueueBackend, QueueFlaw, majority_of};
use flaws::{BACKENDS, CLIENTS, ClientFlaw, FENCED_STORES, FencedStoreFlaw, QUEUE_BACKENDS};

/// A backend with one flaw, and the real client or a small one with one flaw.
struct Broken {
    flaw: Flaw,
    client: Option<ClientFlaw>,
}

#[async_trait]
impl Factory for Broken {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        let backend = MutexBackend::new(self.flaw, clock.clone());
        Ok(connector(move || {
            let backend = backend.clone();
            async move { Ok(backend) }
        }))
    }

    fn runtime(&self) -> Runtime {
        Runtime::Paused
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn believer(
        &self,
        backend: Arc<dyn DistributedLock>,
        clock: &Clock,
        ttl: Duration,
    ) -> Result<Box<dyn Believer>> {
        match self.client {
            Some(flaw) => Ok(Box::new(SmallClient { flaw, backend, clock: clock.clone(), ttl })),
            None => Sound.believer(backend, clock, ttl),
        }
    }
}

/// The groups that `QueueBackend` supports.
const HALLS_GROUPS: [Group; 6] =
    [Group::Order, Group::Shared, Group::Permits, Group::Multi, Group::Election, Group::Tickets];

struct BrokenQueueBackend(QueueFlaw);

#[async_trait]
impl Factory for BrokenQueueBackend {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        let backend = QueueBackend::new(self.0, clock.clone());
        Ok(connector(move || {
            let backend = backend.clone();
            async move { Ok(backend) }
        }))
    }

    fn runtime(&self) -> Runtime {
        Runtime::Paused
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }
}

struct FaultyFencedStore(Protect);

impl FaultyFencedStore {
    fn new(flaw: FencedStoreFlaw) -> Self {
        Self(fenced_store(flaw))
    }
}

#[async_trait]
impl Factory for FaultyFencedStore {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        Sound.open(clock).await
    }

    fn runtime(&self) -> Runtime {
        Runtime::Paused
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn protected(&self) -> Option<Protect> {
        Some(self.0.clone())
    }
}

struct Nodes(usize);

#[async_trait]
impl Factory for Nodes {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        Ok(majority_of(self.0, MajorityFlaw::None, clock))
    }

    fn runtime(&self) -> Runtime {
        Runtime::Paused
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }
}

struct Sound;

#[async_trait]
impl Factory for Sound {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        Broken { flaw: Flaw::None, client: None }.open(clock).await
    }
}

fn outcome(case: &str, broken: impl Factory) -> Result<Outcome, Failed> {
    let case = cases::named(case).ok_or_else(|| format!("there is no case {case}"))?;
    Ok(run_case(case, Arc::new(broken)))
}

/// Checks that the case fails on `broken` with `says`, and passes on `sound`.
fn is_caught(
    case: &str,
    says: &str,
    broken: impl Factory,
    sound: impl Factory,
) -> Result<(), Failed> {
    match outcome(case, broken)? {
        Outcome::Failed(why) if why.contains(says) => {}
        other => return Err(format!("{case}, on the broken one: {other:?}").into()),
    }
    match outcome(case, sound)? {
        Outcome::Passed => Ok(()),
        other => Err(format!("{case}, on the sound one: {other:?}").into()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for case in cases::all() {
        trials.push(Trial::test(format!("sound::{}", case.name), || {
            match run_case(case, Arc::new(Broken { flaw: Flaw::None, client: None })) {
                Outcome::Failed(why) => Err(why.into()),
                Outcome::Passed | Outcome::NotPromised(_) => Ok(()),
            }
        }));
    }
    for &(flaw, case, says) in BACKENDS {
        trials.push(Trial::test(format!("backend::{flaw:?}::caught_by::{case}"), move || {
            let sound = Broken { flaw: Flaw::None, client: None };
            is_caught(case, says, Broken { flaw, client: None }, sound)
        }));
    }
    for case in cases::all().filter(|case| HALLS_GROUPS.contains(&case.group)) {
        trials.push(Trial::test(format!("sound_queue::{}", case.name), || {
            match run_case(case, Arc::new(BrokenQueueBackend(QueueFlaw::None))) {
                Outcome::Failed(why) => Err(why.into()),
                Outcome::Passed | Outcome::NotPromised(_) => Ok(()),
            }
        }));
    }
    for &(flaw, case, says) in QUEUE_BACKENDS {
        trials.push(Trial::test(format!("queue::{flaw:?}::caught_by::{case}"), move || {
            is_caught(case, says, BrokenQueueBackend(flaw), BrokenQueueBackend(QueueFlaw::None))
        }));
    }
    for case in cases::all().filter(|case| case.group == Group::Enforcement) {
        trials.push(Trial::test(format!("sound_fenced_store::{}", case.name), || {
            match run_case(case, Arc::new(FaultyFencedStore::new(FencedStoreFlaw::None))) {
                Outcome::Passed => Ok(()),
                other => Err(format!("{other:?}").into()),
            }
        }));
    }
    for &(flaw, case, says) in FENCED_STORES {
        trials.push(Trial::test(format!("fenced_store::{flaw:?}::caught_by::{case}"), move || {
            is_caught(
                case,
                says,
                FaultyFencedStore::new(flaw),
                FaultyFencedStore::new(FencedStoreFlaw::None),
            )
        }));
    }
    let case = "many_at_once_get_no_more_than_there_are";
    for nodes in [3, 5, 7] {
        trials.push(Trial::test(format!("majority_of_{nodes}::caught_by::{case}"), move || {
            is_caught(case, "of 3 were granted at once", Nodes(nodes), Nodes(1))
        }));
    }
    for &(flaw, case, says) in CLIENTS {
        trials.push(Trial::test(format!("client::{flaw:?}::caught_by::{case}"), move || {
            let broken = Broken { flaw: Flaw::None, client: Some(flaw) };
            let sound = Broken { flaw: Flaw::None, client: Some(ClientFlaw::None) };
            is_caught(case, says, broken, sound)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
