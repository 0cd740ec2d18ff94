//! The conformance suite on five real Redis servers.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};

use lockwright_conformance::{Connect, Factory, Fragile, Harm, Step, child, connector, harness};
use lockwright_core::{Clock, Error, Result, async_trait};
use lockwright_redlock::Redlock;
use lockwright_testbed::{self as testbed, Fleet};

const NODES: usize = 5;

const MINORITY: usize = 2;

/// All cases in parallel on one fleet; a separate one for each that damages it.
struct Five(Fleet);

/// Sets a longer time-out, for busy test machines.
fn url(nodes: &[String]) -> String {
    format!("redlock:{}?node_timeout=240ms", nodes.join(","))
}

fn to(url: String) -> Connect {
    connector(move || {
        let url = url.clone();
        async move { Redlock::connect(&url).await }
    })
}

async fn admit(url: &str) -> Result<()> {
    for (address, status) in Redlock::connect(url).await?.admit().await {
        if !matches!(status, lockwright_redlock::NodeStatus::Votes) {
            return Err(Error::unavailable(format!("{address}: {status:?}")));
        }
    }
    Ok(())
}

fn problem(error: testbed::Error) -> Error {
    Error::unavailable(error.to_string())
}

#[async_trait]
impl Factory for Five {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(url(&self.0.urls())))
    }

    fn at_a_time(&self) -> usize {
        4
    }

    fn label(&self) -> Option<String> {
        Some(format!("redlock-{NODES}"))
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&url(&self.0.urls()))
    }

    fn harms(&self) -> &[Harm] {
        &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut]
    }

    /// Loses data of a minority; other faults affect all nodes at once.
    async fn fragile(&self) -> Result<Fragile> {
        let options = testbed::Redis::options().append_only("always");
        let fleet = options.start_fleet(NODES).map_err(problem)?;
        let (straight, cut_off) = (url(&fleet.urls()), url(&fleet.urls_through_proxies()));
        admit(&straight).await?;
        let fleet = Mutex::new(fleet);
        let harm = move |step| {
            let mut fleet = fleet.lock().unwrap_or_else(PoisonError::into_inner);
            let Fleet { servers, proxies } = &mut *fleet;
            match step {
                Step::Begin(Harm::Freeze) => servers.iter().for_each(testbed::Redis::freeze),
                Step::End(Harm::Freeze) => servers.iter().for_each(testbed::Redis::thaw),
                Step::Begin(Harm::Restart) => {
                    for server in servers {
                        server.restart(true).map_err(problem)?;
                    }
                }
                Step::Begin(Harm::Forget) => {
                    for server in &mut servers[..MINORITY] {
                        server.restart(false).map_err(problem)?;
                    }
                }
                Step::Begin(Harm::Cut) => proxies.iter().for_each(testbed::Proxy::cut),
                Step::End(Harm::Cut) => proxies.iter().for_each(testbed::Proxy::mend),
                Step::Begin(_) | Step::End(_) => {}
            }
            Ok(())
        };
        Ok(Fragile { connect: to(straight), cut_off: to(cut_off), harm: Arc::new(harm) })
    }
}

fn start() -> Result<Five> {
    let fleet = Fleet::start(NODES).map_err(problem)?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Error::unavailable(format!("there is no runtime: {error}")))?;
    runtime.block_on(admit(&url(&fleet.urls())))?;
    Ok(Five(fleet))
}

fn main() -> ExitCode {
    if let Some(code) = child::main(|url| async move { Redlock::connect(&url).await }) {
        return code;
    }
    match start() {
        Ok(five) => harness::main(five),
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}
