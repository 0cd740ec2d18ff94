//! Tests of the conformance suite. A case fails with a flaw of a backend, store or client, and
//! passes without it.
#![forbid(unsafe_code)]

mod client;
mod fenced_store;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../fixtures/mod.rs"]
mod fixtures;

use std::fmt::Debug;
use std::future::ready;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockwright_conformance::client::TestedClient;
use lockwright_conformance::report::run_case;
use lockwright_conformance::{
    Case, Connect, Factory, Group, Outcome, Protect, Runtime, cases, connector,
};
use lockwright_core::{Clock, DistributedLock, Locks, Result, async_trait};

use client::SmallClient;
use fenced_store::fenced_store;
use fixtures::flaws::{
    BACKENDS, CLIENTS, ClientFlaw, FENCED_STORES, FencedStoreFlaw, QUEUE_BACKENDS,
};
use fixtures::{Flaw, MajorityFlaw, MutexBackend, QueueBackend, QueueFlaw, majority_of};

/// A memory backend with Lockwright's client or a small flawed client.
struct Simulated {
    open: Box<dyn Fn(&Clock) -> Connect + Send + Sync>,
    client: Option<ClientFlaw>,
    store: Option<Protect>,
}

impl Simulated {
    fn new(open: impl Fn(&Clock) -> Connect + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), client: None, store: None }
    }
}

fn mutexes(flaw: Flaw) -> Simulated {
    Simulated::new(move |clock| {
        let backend = MutexBackend::new(flaw, clock.clone());
        connector(move || ready(Ok(backend.clone())))
    })
}

fn queues(flaw: QueueFlaw) -> Simulated {
    Simulated::new(move |clock| {
        let backend = QueueBackend::new(flaw, clock.clone());
        connector(move || ready(Ok(backend.clone())))
    })
}

fn nodes(count: usize) -> Simulated {
    Simulated::new(move |clock| majority_of(count, MajorityFlaw::None, clock))
}

fn stores(flaw: FencedStoreFlaw) -> Simulated {
    Simulated { store: Some(fenced_store(flaw)), ..mutexes(Flaw::None) }
}

fn clients(flaw: ClientFlaw) -> Simulated {
    Simulated { client: Some(flaw), ..mutexes(Flaw::None) }
}

#[async_trait]
impl Factory for Simulated {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        Ok((self.open)(clock))
    }

    fn runtime(&self) -> Runtime {
        Runtime::Paused
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn protected(&self) -> Option<Protect> {
        self.store.clone()
    }

    fn tested_client(
        &self,
        backend: Arc<dyn DistributedLock>,
        clock: &Clock,
        ttl: Duration,
    ) -> Result<Box<dyn TestedClient>> {
        match self.client {
            Some(flaw) => Ok(Box::new(SmallClient { flaw, backend, clock: clock.clone(), ttl })),
            None => {
                let locks = Locks::builder(backend).clock(clock.clone()).ttl(ttl).build()?;
                Ok(Box::new(locks))
            }
        }
    }
}

const QUEUE_GROUPS: [Group; 6] =
    [Group::Order, Group::Shared, Group::Permits, Group::Multi, Group::Election, Group::Tickets];

fn outcome(case: &str, broken: impl Factory) -> Result<Outcome, Failed> {
    let case = cases::named(case).ok_or_else(|| format!("there is no case {case}"))?;
    Ok(run_case(case, Arc::new(broken)))
}

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

fn sound(prefix: &str, case: &'static Case, factory: fn() -> Simulated) -> Trial {
    Trial::test(format!("{prefix}::{}", case.name), move || {
        match run_case(case, Arc::new(factory())) {
            Outcome::Failed(why) => Err(why.into()),
            Outcome::Passed | Outcome::NotPromised(_) => Ok(()),
        }
    })
}

fn caught<F: Copy + Debug + Send>(
    prefix: &'static str,
    flaws: &'static [(F, &str, &str)],
    none: F,
    factory: fn(F) -> Simulated,
) -> impl Iterator<Item = Trial> {
    flaws.iter().map(move |&(flaw, case, says)| {
        Trial::test(format!("{prefix}::{flaw:?}::caught_by::{case}"), move || {
            is_caught(case, says, factory(flaw), factory(none))
        })
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let of_queues = cases::all().filter(|case| QUEUE_GROUPS.contains(&case.group));
    let of_stores = cases::all().filter(|case| case.group == Group::Enforcement);
    let mut trials: Vec<Trial> = cases::all()
        .map(|case| sound("sound", case, || mutexes(Flaw::None)))
        .chain(of_queues.map(|case| sound("sound_queue", case, || queues(QueueFlaw::None))))
        .chain(of_stores.map(|case| sound("sound_store", case, || stores(FencedStoreFlaw::None))))
        .collect();
    trials.extend(caught("backend", BACKENDS, Flaw::None, mutexes));
    trials.extend(caught("queue", QUEUE_BACKENDS, QueueFlaw::None, queues));
    trials.extend(caught("fenced_store", FENCED_STORES, FencedStoreFlaw::None, stores));
    trials.extend(caught("client", CLIENTS, ClientFlaw::None, clients));
    let case = "many_at_once_get_no_more_than_there_are";
    for count in [3, 5, 7] {
        trials.push(Trial::test(format!("majority_of_{count}::caught_by::{case}"), move || {
            is_caught(case, "of 3 were granted at once", nodes(count), nodes(1))
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
