//! The conformance suite on a server, in one mode.

use std::process::ExitCode;
use std::time::Duration;

use lockwright_conformance::{
    Factory, Fragile, Harm, Step, connector_to, harness, problem, protect,
};
use lockwright_core::{LockName, Result};
use lockwright_testbed::Proxy;

use super::shelf::Shelf;
use super::{Backend, HARMS, HELD_TTL, LABEL, PoolOptions, shelf_url, start};

async fn connect(url: String) -> Result<Backend> {
    Backend::connect(&url).await
}

fn url_in(mode: &str, url: String) -> String {
    match mode {
        "lease" => url,
        // Some cases have hundreds of holds, each of which may need a connection.
        _ => format!("{url}?mode={mode}&connections=600"),
    }
}

async fn shelf(url: String, name: LockName) -> Result<Shelf> {
    let pool = PoolOptions::new().max_connections(1).connect(&url).await.map_err(problem)?;
    Ok(Shelf { pool, name: name.to_string() })
}

async fn fragile(mode: &str, connections: &str) -> Result<Fragile> {
    let mut server = start(connections).map_err(problem)?;
    let proxy = Proxy::start(server.address()).map_err(problem)?;
    let direct = connector_to(url_in(mode, server.url()), connect);
    let cut_off = connector_to(url_in(mode, server.url_through(proxy.port())), connect);
    Ok(Fragile::new(direct, cut_off, move |step| {
        match step {
            Step::Begin(Harm::Freeze) => server.freeze(),
            Step::End(Harm::Freeze) => server.thaw(),
            Step::Begin(Harm::Restart) => server.restart(true)?,
            Step::Begin(Harm::Forget) => server.restart(false)?,
            Step::Begin(Harm::Cut) => proxy.cut(),
            Step::End(Harm::Cut) => proxy.mend(),
            Step::Begin(_) | Step::End(_) => {}
        }
        Ok(())
    }))
}

/// All cases without faults share a server.
pub(crate) fn main(mode: &'static str) -> ExitCode {
    let (connections, ttl, harms): (_, _, &[Harm]) = match mode {
        "lease" => ("400", Duration::from_secs(2), HARMS),
        // - Connections: each hold or wait may need one.
        // - TTL: some cases open dozens of connections within a TTL, which is slow with a password
        //   and in a debug build.
        // - Harms: holds don't survive a restart or a reset connection.
        _ => ("700", HELD_TTL, &[Harm::Freeze]),
    };
    harness::serve(connect, || {
        let server = start(connections)?;
        let table = "CREATE TABLE shelf (name VARCHAR(512) PRIMARY KEY, value BIGINT NOT NULL)";
        server.sql_as_user(table)?;
        let shelf_url = shelf_url(&server);
        let mut suite = Factory::at(url_in(mode, server.url()), connect)
            .ttl(ttl)
            .protected(protect(move |name| shelf(shelf_url.clone(), name)))
            .fragile(harms, move || fragile(mode, connections));
        if let Some(label) = LABEL {
            suite = suite.label(label);
        }
        Ok((server, suite))
    })
}
