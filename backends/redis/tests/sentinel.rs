//! The conformance suite on a master that Sentinels name.
//!
//! The Sentinels wait a minute, so that no failover occurs. Failovers have separate tests.
#![forbid(unsafe_code)]

#[path = "suite/fenced_value.rs"]
mod fenced_value;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_conformance::{
    Connect, Factory, Fragile, Harm, Protect, Step, child, connector, harness,
};
use lockwright_core::{Clock, Error, Result, async_trait};
use lockwright_redis::Redis;
use lockwright_testbed::{self as testbed, Proxy, Sentinels};

/// The proxy's address, and the master's name there.
const ELSEWHERE: (Ipv4Addr, &str) = (Ipv4Addr::new(127, 0, 0, 2), "elsewhere");

/// All cases in parallel on one set; a separate one for each that damages it.
struct Set(Sentinels);

fn start() -> testbed::Result<Sentinels> {
    Sentinels::options().down_after(Duration::from_secs(60)).start()
}

fn to(url: String) -> Connect {
    connector(move || {
        let url = url.clone();
        async move { Redis::connect(&url).await }
    })
}

fn problem(error: testbed::Error) -> Error {
    Error::unavailable(error.to_string())
}

/// Creates a proxy for the master, and a URL that leads to it.
fn through_a_proxy(set: &Sentinels) -> testbed::Result<(Proxy, String)> {
    let (host, name) = ELSEWHERE;
    let master = &set.servers[0];
    let proxy = Proxy::start_at(SocketAddr::from((host, master.port())), master.address())?;
    for sentinel in &set.sentinels {
        // Above the number of Sentinels: no failover.
        let (host, port) = (host.to_string(), master.port().to_string());
        sentinel.command::<()>(&["SENTINEL", "MONITOR", name, &host, &port, "9"])?;
    }
    Ok((proxy, set.url().replace(set.master_name(), name)))
}

#[async_trait]
impl Factory for Set {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(self.0.url()))
    }

    fn ttl(&self) -> Duration {
        // Each connection begins with three queries.
        Duration::from_secs(2)
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.0.url())
    }

    fn protected(&self) -> Option<Protect> {
        Some(fenced_value::fenced_value(vec![self.0.servers[0].url()]))
    }

    fn harms(&self) -> &[Harm] {
        &[Harm::Freeze, Harm::Forget, Harm::Cut]
    }

    async fn fragile(&self) -> Result<Fragile> {
        let set = start().map_err(problem)?;
        let (proxy, cut_off) = through_a_proxy(&set).map_err(problem)?;
        let connect = to(set.url());
        let set = Mutex::new(set);
        let harm = move |step| {
            let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
            match step {
                Step::Begin(Harm::Freeze) => set.servers[0].freeze(),
                Step::End(Harm::Freeze) => set.servers[0].thaw(),
                Step::Begin(Harm::Forget) => set.servers[0].restart(false).map_err(problem)?,
                Step::Begin(Harm::Cut) => proxy.cut(),
                Step::End(Harm::Cut) => proxy.mend(),
                Step::Begin(_) | Step::End(_) => {}
            }
            Ok(())
        };
        Ok(Fragile { connect, cut_off: to(cut_off), harm: Arc::new(harm) })
    }
}

fn main() -> ExitCode {
    if let Some(code) = child::main(|url| async move { Redis::connect(&url).await }) {
        return code;
    }
    match start() {
        Ok(set) => harness::main(Set(set)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
