//! Runs the conformance suite on a master that Sentinels name.
//!
//! The Sentinels wait a minute before a failover, so none occurs.
#![forbid(unsafe_code)]

#[path = "suite/fenced_value.rs"]
mod fenced_value;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use lockwright_conformance::{Factory, Fragile, Harm, Step, connector_to, harness, problem};
use lockwright_core::Result;
use lockwright_redis::Redis;
use lockwright_testbed::{self as testbed, Proxy, Sentinels};

/// The proxy's IP address, and the master name for which Sentinels return it.
const ELSEWHERE: (Ipv4Addr, &str) = (Ipv4Addr::new(127, 0, 0, 2), "elsewhere");

fn start() -> testbed::Result<Sentinels> {
    Sentinels::options().down_after(Duration::from_secs(60)).start()
}

async fn connect(url: String) -> Result<Redis> {
    Redis::connect(&url).await
}

fn through_a_proxy(set: &Sentinels) -> testbed::Result<(Proxy, String)> {
    let (host, name) = ELSEWHERE;
    let master = &set.servers[0];
    let proxy = Proxy::start_at(SocketAddr::from((host, master.port())), master.address())?;
    for sentinel in &set.sentinels {
        // A quorum above the number of Sentinels prevents failovers.
        let (host, port) = (host.to_string(), master.port().to_string());
        sentinel.command::<()>(&["SENTINEL", "MONITOR", name, &host, &port, "9"])?;
    }
    Ok((proxy, set.url().replace(set.master_name(), name)))
}

async fn fragile() -> Result<Fragile> {
    let mut set = start().map_err(problem)?;
    let (proxy, cut_off) = through_a_proxy(&set).map_err(problem)?;
    let (direct, cut_off) = (connector_to(set.url(), connect), connector_to(cut_off, connect));
    Ok(Fragile::new(direct, cut_off, move |step| {
        // Capture the whole set, because dropping it ends its Sentinels.
        let set = &mut set;
        match step {
            Step::Begin(Harm::Freeze) => set.servers[0].freeze(),
            Step::End(Harm::Freeze) => set.servers[0].thaw(),
            Step::Begin(Harm::Forget) => set.servers[0].restart(false)?,
            Step::Begin(Harm::Cut) => proxy.cut(),
            Step::End(Harm::Cut) => proxy.mend(),
            Step::Begin(_) | Step::End(_) => {}
        }
        Ok(())
    }))
}

fn main() -> ExitCode {
    harness::serve(connect, || {
        let set = start()?;
        let server = Factory::at(set.url(), connect)
            // The TTL is long, because connecting needs queries to three Sentinels.
            .ttl(Duration::from_secs(2))
            .protected(fenced_value::fenced_value(vec![set.servers[0].url()]))
            .fragile(&[Harm::Freeze, Harm::Forget, Harm::Cut], fragile);
        Ok((set, server))
    })
}
