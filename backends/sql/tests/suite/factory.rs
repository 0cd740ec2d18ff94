//! The conformance suite on a server, in one of its modes.

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_conformance::{
    Connect, Factory, Fragile, Harm, Protect, Step, child, connector, harness, protect,
};
use lockwright_core::{Clock, Error, LockName, Result, async_trait};
use lockwright_testbed::{self as testbed, Proxy};

use super::shelf::{Shelf, from_sqlx};
use super::{Backend, HARMS, HELD_TTL, LABEL, PoolOptions, Server, shelf_url, start};

/// A server that all cases without faults share.
struct Suite {
    server: Server,
    mode: &'static str,
}

fn url_in(mode: &str, url: &str) -> String {
    match mode {
        "lease" => url.to_owned(),
        // Some cases have hundreds of holds and connections.
        _ => format!("{url}?mode={mode}&connections=600"),
    }
}

/// In the modes `session` and `row`, a hold or a wait may need its own connection.
fn connections(mode: &str) -> &'static str {
    if mode == "lease" { "400" } else { "700" }
}

fn connect(mode: &str, url: &str) -> Connect {
    let url = url_in(mode, url);
    connector(move || {
        let url = url.clone();
        async move { Backend::connect(&url).await }
    })
}

async fn shelf(url: String, name: LockName) -> Result<Shelf> {
    let pool = PoolOptions::new().max_connections(1).connect(&url).await.map_err(from_sqlx)?;
    Ok(Shelf { pool, name: name.to_string() })
}

fn problem(error: testbed::Error) -> Error {
    Error::unavailable(error.to_string())
}

#[async_trait]
impl Factory for Suite {
    fn label(&self) -> Option<String> {
        LABEL.map(str::to_owned)
    }

    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(connect(self.mode, &self.server.url()))
    }

    fn ttl(&self) -> Duration {
        match self.mode {
            "lease" => Duration::from_secs(2),
            // Some cases open dozens of connections within a TTL, which is slow with a password and
            // in a debug build.
            _ => HELD_TTL,
        }
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&url_in(self.mode, &self.server.url()))
    }

    fn protected(&self) -> Option<Protect> {
        let url = shelf_url(&self.server);
        Some(protect(move |name| shelf(url.clone(), name)))
    }

    fn harms(&self) -> &[Harm] {
        match self.mode {
            "lease" => HARMS,
            // In the other modes, holds don't survive a restart or a reset connection.
            _ => &[Harm::Freeze],
        }
    }

    async fn fragile(&self) -> Result<Fragile> {
        let server = start(connections(self.mode)).map_err(problem)?;
        let proxy = Proxy::start(server.address()).map_err(problem)?;
        let connect = |url: String| connect(self.mode, &url);
        let (connect, cut_off) = (connect(server.url()), connect(server.url_through(proxy.port())));
        let server = Mutex::new(server);
        let harm = move |step| {
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            match step {
                Step::Begin(Harm::Freeze) => server.freeze(),
                Step::End(Harm::Freeze) => server.thaw(),
                Step::Begin(Harm::Restart) => server.restart(true).map_err(problem)?,
                Step::Begin(Harm::Forget) => server.restart(false).map_err(problem)?,
                Step::Begin(Harm::Cut) => proxy.cut(),
                Step::End(Harm::Cut) => proxy.mend(),
                Step::Begin(_) | Step::End(_) => {}
            }
            Ok(())
        };
        Ok(Fragile { connect, cut_off, harm: Arc::new(harm) })
    }
}

pub(crate) fn main(mode: &'static str) -> ExitCode {
    if let Some(code) = child::main(|url| async move { Backend::connect(&url).await }) {
        return code;
    }
    let table = "CREATE TABLE shelf (name VARCHAR(512) PRIMARY KEY, value BIGINT NOT NULL)";
    let server = start(connections(mode));
    match server.and_then(|server| server.sql_as_user(table).map(|_| server)) {
        Ok(server) => harness::main(Suite { server, mode }),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
