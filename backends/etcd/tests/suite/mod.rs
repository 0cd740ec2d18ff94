//! The suite on a cluster of three members.

mod shelf;

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_conformance::{
    Connect, Factory, Fragile, Harm, Protect, Step, child, connector, harness,
};
use lockwright_core::{Clock, Error, Result, async_trait};
use lockwright_etcd::Etcd;
use lockwright_testbed::etcd::Options;
use lockwright_testbed::{self as testbed, Proxy};

/// Runs all cases in parallel on one cluster. Each case that harms it gets its own cluster.
struct Cluster {
    cluster: testbed::Etcd,
    options: Options,
    label: &'static str,
}

/// The `main` of a suite. The label is for tables.
pub(crate) fn main(options: Options, label: &'static str) -> ExitCode {
    // With eight cases and three members on two cores, a leader may be silent for a second.
    let options = options.heartbeat(200).election(2_000);
    if let Some(code) = child::main(|url| async move { Etcd::connect(&url).await }) {
        return code;
    }
    match options.clone().start() {
        Ok(cluster) => harness::main(Cluster { cluster, options, label }),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn to(url: String) -> Connect {
    connector(move || {
        let url = url.clone();
        async move { Etcd::connect(&url).await }
    })
}

fn problem(error: testbed::Error) -> Error {
    Error::unavailable(error.to_string())
}

#[async_trait]
impl Factory for Cluster {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(self.cluster.url()))
    }

    fn label(&self) -> Option<String> {
        Some(self.label.to_owned())
    }

    fn at_a_time(&self) -> usize {
        8
    }

    fn ttl(&self) -> Duration {
        // More than these clusters' minimum of 3 s.
        Duration::from_secs(4)
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.cluster.url())
    }

    fn protected(&self) -> Option<Protect> {
        Some(shelf::shelf(self.cluster.endpoints()))
    }

    fn harms(&self) -> &[Harm] {
        &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut]
    }

    async fn fragile(&self) -> Result<Fragile> {
        let cluster = self.options.clone().start().map_err(problem)?;
        let proxies: Vec<Proxy> = cluster
            .members
            .iter()
            .map(|member| Proxy::start(member.address()))
            .collect::<testbed::Result<_>>()
            .map_err(problem)?;
        let connect = to(cluster.url());
        let cut_off = to(cluster.url_through(proxies.iter().map(Proxy::port)));
        let cluster = Mutex::new(cluster);
        let harm = move |step| {
            let mut cluster = cluster.lock().unwrap_or_else(PoisonError::into_inner);
            match step {
                Step::Begin(Harm::Freeze) => cluster.members.iter().for_each(|one| one.freeze()),
                Step::End(Harm::Freeze) => cluster.members.iter().for_each(|one| one.thaw()),
                Step::Begin(Harm::Restart) => cluster.restart(true).map_err(problem)?,
                Step::Begin(Harm::Forget) => cluster.restart(false).map_err(problem)?,
                Step::Begin(Harm::Cut) => proxies.iter().for_each(Proxy::cut),
                Step::End(Harm::Cut) => proxies.iter().for_each(Proxy::mend),
                Step::Begin(_) | Step::End(_) => {}
            }
            Ok(())
        };
        Ok(Fragile { connect, cut_off, harm: Arc::new(harm) })
    }
}
