//! Tests of the conformance suite: each case fails with a flaw of a backend, store or client, and
//! passes without the flaw.
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
use lockwright_conformance::report::run_case;
use lockwright_conformance::{Case, Connect, Factory, Group, Outcome, Runtime, cases, connector};
use lockwright_core::{Clock, DistributedLock, Locks, Modes, Order, Profile};

use client::SmallClient;
use fenced_store::fenced_store;
use fixtures::flaws::{BACKENDS, CLIENTS, ClientFlaw, FENCED_STORES, FencedStoreFlaw};
use fixtures::{Flaw, Flawed, MajorityFlaw, majority_of};

/// Returns a factory for backends with simulated time.
fn simulated(open: impl Fn(&Clock) -> Connect + Send + Sync + 'static) -> Factory {
    Factory::new(open).runtime(Runtime::Paused).ttl(Duration::from_secs(10))
}

fn backends(flaw: Flaw) -> Factory {
    backends_with(flaw, |_| {})
}

/// A correct backend without most optional features.
fn mutexes() -> Factory {
    backends_with(Flaw::None, |profile| {
        profile.modes = Modes { exclusive: true, shared: false, permits: false };
        (profile.order, profile.tickets, profile.tombstones) = (Order::None, false, false);
    })
}

fn backends_with(flaw: Flaw, change: fn(&mut Profile)) -> Factory {
    simulated(move |clock| {
        let backend = Flawed::new(flaw, clock).with_profile(change);
        connector(move || ready(Ok(backend.clone())))
    })
}

fn nodes(count: usize) -> Factory {
    simulated(move |clock| majority_of(count, MajorityFlaw::None, clock))
}

fn stores(flaw: FencedStoreFlaw) -> Factory {
    backends(Flaw::None).protected(fenced_store(flaw))
}

fn clients(flaw: ClientFlaw) -> Factory {
    backends(Flaw::None).tested_client(move |backend, clock, ttl| {
        let (backend, clock): (Arc<dyn DistributedLock>, _) = match flaw {
            ClientFlaw::None => (backend, clock.clone()),
            ClientFlaw::AnchorsAtTheReply => {
                (Arc::new(Flawed::around(Flaw::AnchorsAtTheReply, backend, clock)), clock.clone())
            }
            // Tokio's clock stops while the machine sleeps, which delays the deadline.
            ClientFlaw::MonotonicClock => (backend, Clock::tokio()),
            flaw => {
                return Ok(Box::new(SmallClient { flaw, backend, clock: clock.clone(), ttl }));
            }
        };
        Ok(Box::new(Locks::builder(backend).clock(clock).ttl(ttl).build()?))
    })
}

fn outcome(case: &str, broken: Factory) -> Result<Outcome, Failed> {
    let case = cases::named(case).ok_or_else(|| format!("there is no case {case}"))?;
    Ok(run_case(case, Arc::new(broken)))
}

fn is_caught(case: &str, says: &str, broken: Factory, sound: Factory) -> Result<(), Failed> {
    match outcome(case, broken)? {
        Outcome::Failed(why) if why.contains(says) => {}
        other => return Err(format!("{case}, on the broken one: {other:?}").into()),
    }
    match outcome(case, sound)? {
        Outcome::Passed => Ok(()),
        other => Err(format!("{case}, on the sound one: {other:?}").into()),
    }
}

fn sound(prefix: &str, case: &'static Case, factory: fn() -> Factory) -> Trial {
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
    factory: fn(F) -> Factory,
) -> impl Iterator<Item = Trial> {
    flaws.iter().map(move |&(flaw, case, says)| {
        Trial::test(format!("{prefix}::{flaw:?}::caught_by::{case}"), move || {
            is_caught(case, says, factory(flaw), factory(none))
        })
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let of_stores = cases::all().filter(|case| case.group == Group::Enforcement);
    let mut trials: Vec<Trial> = cases::all()
        .flat_map(|case| {
            let all = sound("sound", case, || backends(Flaw::None));
            [all, sound("sound_mutex", case, mutexes)]
        })
        .chain(of_stores.map(|case| sound("sound_store", case, || stores(FencedStoreFlaw::None))))
        .collect();
    trials.extend(caught("backend", BACKENDS, Flaw::None, backends));
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
