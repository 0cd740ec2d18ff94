//! The suite proves itself: backends and clients that are broken in one way each are caught, by
//! name, by the case that exists for it; the same ones without the flaw pass.
#![forbid(unsafe_code)]

mod client;
mod flaws;
mod store;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockwright_conformance::context::Believer;
use lockwright_conformance::report::run_case;
use lockwright_conformance::{Connect, Factory, Outcome, Runtime, cases, connector};
use lockwright_core::{Clock, DistributedLock, Result, async_trait};

use client::SmallClient;
use flaws::{BACKENDS, CLIENTS, ClientFlaw, Flaw};
use store::Shop;

/// A backend with one flaw, and the real client or a small one with one flaw.
struct Broken {
    flaw: Flaw,
    client: Option<ClientFlaw>,
}

#[async_trait]
impl Factory for Broken {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        let shop = Shop::new(self.flaw, clock.clone());
        Ok(connector(move || {
            let shop = shop.clone();
            async move { Ok(shop) }
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

/// For the default of `believer`.
struct Sound;

#[async_trait]
impl Factory for Sound {
    async fn open(&self, clock: &Clock) -> Result<Connect> {
        Broken { flaw: Flaw::None, client: None }.open(clock).await
    }
}

fn outcome(case: &str, broken: Broken) -> Result<Outcome, Failed> {
    let case = cases::named(case).ok_or_else(|| format!("there is no case {case}"))?;
    Ok(run_case(case, Arc::new(broken)))
}

/// The case must fail on `broken`, and say what is wrong; and pass on `sound`.
fn is_caught(case: &str, says: &str, broken: Broken, sound: Broken) -> Result<(), Failed> {
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
    for &(flaw, case, says) in CLIENTS {
        trials.push(Trial::test(format!("client::{flaw:?}::caught_by::{case}"), move || {
            let broken = Broken { flaw: Flaw::None, client: Some(flaw) };
            let sound = Broken { flaw: Flaw::None, client: Some(ClientFlaw::None) };
            is_caught(case, says, broken, sound)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
