//! The conformance suite on MariaDB, with holds in sessions of the server.

#[path = "../shelf/mysql.rs"]
mod shelf;

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_conformance::{
    Connect, Factory, Fragile, Harm, Protect, Step, child, connector, harness,
};
use lockwright_core::{Clock, Error, Result, async_trait};
use lockwright_sql::Mysql;
use lockwright_testbed as testbed;

/// The undisturbed cases share one server.
struct Server {
    mariadb: testbed::MariaDb,
    mode: &'static str,
}

impl Server {
    fn url(&self) -> String {
        in_mode(&self.mariadb.url(), self.mode)
    }
}

fn in_mode(url: &str, mode: &str) -> String {
    // Some cases have hundreds of holds and connections.
    format!("{url}?mode={mode}&connections=600")
}

fn to(url: String) -> Connect {
    connector(move || {
        let url = url.clone();
        async move { Mysql::connect(&url).await }
    })
}

fn problem(error: testbed::Error) -> Error {
    Error::unavailable(error.to_string())
}

#[async_trait]
impl Factory for Server {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(self.url()))
    }

    fn ttl(&self) -> Duration {
        // Some cases open dozens of connections within a TTL, which is slow with a password and
        // without optimisation.
        Duration::from_secs(5)
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.url())
    }

    fn protected(&self) -> Option<Protect> {
        Some(shelf::shelf(self.mariadb.url()))
    }

    fn harms(&self) -> &[Harm] {
        // The profile excludes a restart and a reset connection.
        &[Harm::Freeze]
    }

    async fn fragile(&self) -> Result<Fragile> {
        let server = testbed::MariaDb::start().map_err(problem)?;
        let connect = to(in_mode(&server.url(), self.mode));
        let cut_off = connect.clone();
        let server = Mutex::new(server);
        let harm = move |step| {
            let server = server.lock().unwrap_or_else(PoisonError::into_inner);
            match step {
                Step::Begin(Harm::Freeze) => server.freeze(),
                Step::End(Harm::Freeze) => server.thaw(),
                Step::Begin(_) | Step::End(_) => {}
            }
            Ok(())
        };
        Ok(Fragile { connect, cut_off, harm: Arc::new(harm) })
    }
}

pub(crate) fn main(mode: &'static str) -> ExitCode {
    if let Some(code) = child::main(|url| async move { Mysql::connect(&url).await }) {
        return code;
    }
    // Each hold and each wait has a connection.
    match testbed::MariaDb::options().set("max_connections", "700").start().and_then(shelf::on) {
        Ok(mariadb) => harness::main(Server { mariadb, mode }),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
