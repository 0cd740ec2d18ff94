//! Runs the conformance suite on five real Redis servers.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use lockwright_conformance::{Factory, Fragile, Harm, Step, connector_to, harness, problem};
use lockwright_core::{Error, Result};
use lockwright_redlock::Redlock;
use lockwright_testbed::{self as testbed, Fleet};

const NODES: usize = 5;

const MINORITY: usize = 2;

fn url(nodes: &[String]) -> String {
    format!("redlock:{}?node_timeout=240ms", nodes.join(","))
}

async fn connect(url: String) -> Result<Redlock> {
    Redlock::connect(&url).await
}

async fn admit(url: &str) -> Result<()> {
    for (address, status) in Redlock::connect(url).await?.admit().await {
        if !matches!(status, lockwright_redlock::NodeStatus::Votes) {
            return Err(Error::unavailable(format!("{address}: {status:?}")));
        }
    }
    Ok(())
}

/// Only a minority loses its data, but other faults affect all nodes.
async fn fragile() -> Result<Fragile> {
    let options = testbed::Redis::options().append_only("always");
    let mut fleet = options.start_fleet(NODES).map_err(problem)?;
    let (direct, cut_off) = (url(&fleet.urls()), url(&fleet.urls_through_proxies()));
    admit(&direct).await?;
    let (direct, cut_off) = (connector_to(direct, connect), connector_to(cut_off, connect));
    Ok(Fragile::new(direct, cut_off, move |step| {
        let Fleet { servers, proxies } = &mut fleet;
        match step {
            Step::Begin(Harm::Freeze) => servers.iter().for_each(|it| it.freeze()),
            Step::End(Harm::Freeze) => servers.iter().for_each(|it| it.thaw()),
            Step::Begin(Harm::Restart) => {
                for server in servers {
                    server.restart(true)?;
                }
            }
            Step::Begin(Harm::Forget) => {
                for server in &mut servers[..MINORITY] {
                    server.restart(false)?;
                }
            }
            Step::Begin(Harm::Cut) => proxies.iter().for_each(testbed::Proxy::cut),
            Step::End(Harm::Cut) => proxies.iter().for_each(testbed::Proxy::mend),
            Step::Begin(_) | Step::End(_) => {}
        }
        Ok(())
    }))
}

fn main() -> ExitCode {
    harness::serve(connect, || {
        let fleet = Fleet::start(NODES).map_err(problem)?;
        let url = url(&fleet.urls());
        tokio::runtime::Runtime::new().map_err(problem)?.block_on(admit(&url))?;
        let server = Factory::at(url, connect)
            .at_a_time(4)
            .label(format!("redlock-{NODES}"))
            .fragile(&[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut], fragile);
        Ok((fleet, server))
    })
}
