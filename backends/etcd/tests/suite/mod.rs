#[path = "../../../../tests/clusters/fragile.rs"]
mod fragile;
mod shelf;

use std::process::ExitCode;
use std::time::Duration;

use lockwright_conformance::{Factory, Harm, harness};
use lockwright_core::Result;
use lockwright_etcd::Etcd;
pub(crate) use lockwright_testbed::Etcd as Cluster;
use lockwright_testbed::etcd::Options;

/// Runs all cases in parallel. Each harmful case has its own cluster, and the other cases share
/// one. `label` names the clusters in tables.
pub(crate) fn main(options: Options, label: &'static str) -> ExitCode {
    // The election timeout is long, because eight cases on two cores may silence a leader for a
    // second.
    let options = options.set("heartbeat-interval", "200").set("election-timeout", "2000");
    harness::serve(connect, || {
        let cluster = options.clone().start()?;
        let server = Factory::at(cluster.url(), connect)
            .label(label)
            .at_a_time(8)
            // With this election timeout, etcd's shortest lease is 3 s.
            .ttl(Duration::from_secs(4))
            .protected(shelf::shelf(cluster.endpoints()))
            .fragile(&[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut], move || {
                fragile::fragile(options.clone().start())
            });
        Ok((cluster, server))
    })
}

async fn connect(url: String) -> Result<Etcd> {
    Etcd::connect(&url).await
}
