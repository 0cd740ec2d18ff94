//! The conformance suite on a Redis Cluster.
#![forbid(unsafe_code)]

#[path = "suite/fenced_value.rs"]
mod fenced_value;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};

use lockwright_conformance::{
    Connect, Factory, Fragile, Harm, Protect, Step, child, connector, harness,
};
use lockwright_core::{Clock, Error, Result, async_trait};
use lockwright_redis::Redis;
use lockwright_testbed::{self as testbed, Proxy};

/// The proxies' address.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// All cases in parallel on one Cluster; a separate one for each that damages it.
struct Nodes(testbed::Cluster);

fn to(url: String) -> Connect {
    connector(move || {
        let url = url.clone();
        async move { Redis::connect(&url).await }
    })
}

fn problem(error: testbed::Error) -> Error {
    Error::unavailable(error.to_string())
}

#[async_trait]
impl Factory for Nodes {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(self.0.url()))
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.0.url())
    }

    fn protected(&self) -> Option<Protect> {
        Some(fenced_value::fenced_value(self.0.nodes.iter().map(testbed::Redis::url).collect()))
    }

    fn harms(&self) -> &[Harm] {
        &[Harm::Freeze, Harm::Forget, Harm::Cut]
    }

    async fn fragile(&self) -> Result<Fragile> {
        // Nodes without an announced host are at the address that was asked, so clients stay on the proxies.
        let servers =
            testbed::Redis::options().set("cluster-preferred-endpoint-type", "unknown-endpoint");
        let cluster = testbed::Cluster::options().servers(servers).start().map_err(problem)?;
        let proxies: Vec<Proxy> = cluster
            .nodes
            .iter()
            .map(|node| Proxy::start_at(SocketAddr::from((ELSEWHERE, node.port())), node.address()))
            .collect::<testbed::Result<_>>()
            .map_err(problem)?;
        let direct = cluster.url();
        let cut_off = direct.replace("127.0.0.1", &ELSEWHERE.to_string());
        let cluster = Mutex::new(cluster);
        let harm = move |step| {
            let mut cluster = cluster.lock().unwrap_or_else(PoisonError::into_inner);
            match step {
                Step::Begin(Harm::Freeze) => cluster.nodes.iter().for_each(testbed::Redis::freeze),
                Step::End(Harm::Freeze) => cluster.nodes.iter().for_each(testbed::Redis::thaw),
                Step::Begin(Harm::Forget) => {
                    for master in &mut cluster.nodes[..3] {
                        master.restart(false).map_err(problem)?;
                    }
                    cluster.wait_until_whole().map_err(problem)?;
                }
                Step::Begin(Harm::Cut) => proxies.iter().for_each(Proxy::cut),
                Step::End(Harm::Cut) => proxies.iter().for_each(Proxy::mend),
                Step::Begin(_) | Step::End(_) => {}
            }
            Ok(())
        };
        Ok(Fragile { connect: to(direct), cut_off: to(cut_off), harm: Arc::new(harm) })
    }
}

fn main() -> ExitCode {
    if let Some(code) = child::main(|url| async move { Redis::connect(&url).await }) {
        return code;
    }
    match testbed::Cluster::start() {
        Ok(cluster) => harness::main(Nodes(cluster)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
