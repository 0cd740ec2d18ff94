//! The conformance suite on PostgreSQL, with holds as rows.
#![forbid(unsafe_code)]

#[path = "shelf/postgres.rs"]
mod shelf;

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_conformance::{
    Connect, Factory, Fragile, Harm, Protect, Step, child, connector, harness,
};
use lockwright_core::{Clock, Error, Result, async_trait};
use lockwright_sql::Postgres;
use lockwright_testbed::{self as testbed, Proxy};

/// The undisturbed cases share one server.
struct Server(testbed::Postgres);

fn to(url: String) -> Connect {
    connector(move || {
        let url = url.clone();
        async move { Postgres::connect(&url).await }
    })
}

fn problem(error: testbed::Error) -> Error {
    Error::unavailable(error.to_string())
}

#[async_trait]
impl Factory for Server {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(self.0.url()))
    }

    /// Each connection is a server process, slow on a busy machine.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.0.url())
    }

    fn protected(&self) -> Option<Protect> {
        Some(shelf::shelf(self.0.url()))
    }

    fn harms(&self) -> &[Harm] {
        &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut]
    }

    async fn fragile(&self) -> Result<Fragile> {
        let server = testbed::Postgres::start().map_err(problem)?;
        let proxy = Proxy::start(server.address()).map_err(problem)?;
        let (connect, cut_off) = (to(server.url()), to(server.url_through(proxy.port())));
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

fn main() -> ExitCode {
    if let Some(code) = child::main(|url| async move { Postgres::connect(&url).await }) {
        return code;
    }
    match testbed::Postgres::options().set("max_connections", "400").start().and_then(shelf::on) {
        Ok(server) => harness::main(Server(server)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
