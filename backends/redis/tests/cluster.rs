//! Runs the conformance suite on a Redis Cluster.
#![forbid(unsafe_code)]

#[path = "suite/fenced_value.rs"]
mod fenced_value;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use lockwright_conformance::{Factory, Fragile, Harm, Step, connector_to, harness, problem};
use lockwright_core::Result;
use lockwright_redis::Redis;
use lockwright_testbed::{self as testbed, Proxy};

const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

async fn connect(url: String) -> Result<Redis> {
    Redis::connect(&url).await
}

async fn fragile() -> Result<Fragile> {
    // The nodes announce no host, so a client that connects to the proxies' host stays there.
    let servers =
        testbed::Redis::options().set("cluster-preferred-endpoint-type", "unknown-endpoint");
    let mut cluster = testbed::Cluster::options().servers(servers).start().map_err(problem)?;
    let proxies: Vec<Proxy> = cluster
        .nodes
        .iter()
        .map(|node| Proxy::start_at(SocketAddr::from((ELSEWHERE, node.port())), node.address()))
        .collect::<testbed::Result<_>>()
        .map_err(problem)?;
    let direct = cluster.url();
    let cut_off = direct.replace("127.0.0.1", &ELSEWHERE.to_string());
    let (direct, cut_off) = (connector_to(direct, connect), connector_to(cut_off, connect));
    Ok(Fragile::new(direct, cut_off, move |step| {
        match step {
            Step::Begin(Harm::Freeze) => cluster.nodes.iter().for_each(|it| it.freeze()),
            Step::End(Harm::Freeze) => cluster.nodes.iter().for_each(|it| it.thaw()),
            Step::Begin(Harm::Forget) => {
                for master in &mut cluster.nodes[..3] {
                    master.restart(false)?;
                }
                cluster.wait_until_whole()?;
            }
            Step::Begin(Harm::Cut) => proxies.iter().for_each(Proxy::cut),
            Step::End(Harm::Cut) => proxies.iter().for_each(Proxy::mend),
            Step::Begin(_) | Step::End(_) => {}
        }
        Ok(())
    }))
}

fn main() -> ExitCode {
    harness::serve(connect, || {
        let cluster = testbed::Cluster::start()?;
        let nodes = cluster.nodes.iter().map(testbed::Redis::url).collect();
        let server = Factory::at(cluster.url(), connect)
            .protected(fenced_value::fenced_value(nodes))
            .fragile(&[Harm::Freeze, Harm::Forget, Harm::Cut], fragile);
        Ok((cluster, server))
    })
}
