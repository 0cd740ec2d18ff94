mod shelf;

use std::process::ExitCode;
use std::time::Duration;

use lockwright_conformance::{Fragile, Harm, LiveServer, Step, connector_to, harness, problem};
use lockwright_core::Result;
use lockwright_etcd::Etcd;
use lockwright_testbed::etcd::Options;
use lockwright_testbed::{self as testbed, Proxy};

/// Runs all cases in parallel: each harmful case on its own cluster, the other cases on one
/// cluster. `label` names the cluster in tables.
pub(crate) fn main(options: Options, label: &'static str) -> ExitCode {
    // The election timeout is long, because a leader may be silent for a second with eight cases on
    // two cores.
    let options = options.heartbeat(200).election(2_000);
    harness::serve(connect, || {
        let cluster = options.clone().start()?;
        let server = LiveServer::at(cluster.url(), connect)
            .label(label)
            .at_a_time(8)
            // The shortest lease with these timeouts is 3 s.
            .ttl(Duration::from_secs(4))
            .protected(shelf::shelf(cluster.endpoints()))
            .fragile(&[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut], move || {
                fragile(options.clone())
            });
        Ok((cluster, server))
    })
}

async fn connect(url: String) -> Result<Etcd> {
    Etcd::connect(&url).await
}

async fn fragile(options: Options) -> Result<Fragile> {
    let mut cluster = options.start().map_err(problem)?;
    let proxies = cluster.members.iter().map(|member| Proxy::start(member.address()));
    let proxies = proxies.collect::<testbed::Result<Vec<_>>>().map_err(problem)?;
    let direct = connector_to(cluster.url(), connect);
    let cut_off = connector_to(cluster.url_through(proxies.iter().map(Proxy::port)), connect);
    Ok(Fragile::new(direct, cut_off, move |step| {
        match step {
            Step::Begin(Harm::Freeze) => cluster.members.iter().for_each(|one| one.freeze()),
            Step::End(Harm::Freeze) => cluster.members.iter().for_each(|one| one.thaw()),
            Step::Begin(Harm::Restart) => cluster.restart(true)?,
            Step::Begin(Harm::Forget) => cluster.restart(false)?,
            Step::Begin(Harm::Cut) => proxies.iter().for_each(Proxy::cut),
            Step::End(Harm::Cut) => proxies.iter().for_each(Proxy::mend),
            Step::Begin(_) | Step::End(_) => {}
        }
        Ok(())
    }))
}
