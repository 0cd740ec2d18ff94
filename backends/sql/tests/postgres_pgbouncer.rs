//! The conformance suite on PostgreSQL behind PgBouncer, which pools transactions.
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
use lockwright_testbed::{self as testbed, PgBouncer, Proxy};

/// The undisturbed cases share one server.
struct Server {
    pooler: PgBouncer,
    postgres: testbed::Postgres,
}

/// Starts a server, and a pooler with few server connections.
fn start() -> testbed::Result<Server> {
    let postgres = testbed::Postgres::start().and_then(shelf::on)?;
    let pooler = PgBouncer::in_front_of(&postgres)
        .set("default_pool_size", "8")
        .set("max_client_conn", "1000")
        .start()?;
    Ok(Server { pooler, postgres })
}

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
    fn label(&self) -> Option<String> {
        Some("postgres-lease through PgBouncer".to_owned())
    }

    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(self.pooler.url()))
    }

    /// Each connection is a server process, slow on a busy machine.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.pooler.url())
    }

    fn protected(&self) -> Option<Protect> {
        // Without the pooler.
        Some(shelf::shelf(self.postgres.url()))
    }

    fn harms(&self) -> &[Harm] {
        &[Harm::Freeze, Harm::Cut]
    }

    async fn fragile(&self) -> Result<Fragile> {
        let server = start().map_err(problem)?;
        let proxy = Proxy::start(server.pooler.address()).map_err(problem)?;
        let connect = to(server.pooler.url());
        let cut_off = to(server.pooler.url_through(proxy.port()));
        let server = Mutex::new(server);
        let harm = move |step| {
            let server = server.lock().unwrap_or_else(PoisonError::into_inner);
            match step {
                Step::Begin(Harm::Freeze) => server.pooler.freeze(),
                Step::End(Harm::Freeze) => server.pooler.thaw(),
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
    match start() {
        Ok(server) => harness::main(server),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
