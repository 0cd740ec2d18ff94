//! The suite on one server with any settings.

mod fenced_value;

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_conformance::{
    Connect, Factory, Fragile, Harm, Protect, Step, child, connector, harness,
};
use lockwright_core::{Clock, Error, Result, async_trait};
use lockwright_redis::Redis;
use lockwright_testbed::redis::Options;
use lockwright_testbed::{self as testbed, Proxy};

/// All cases in parallel on one server; a separate one for each that damages it.
struct Server {
    server: testbed::Redis,
    options: Options,
    label: Option<&'static str>,
}

/// Runs a suite, with a label for tables.
pub(crate) fn main(options: Options, label: Option<&'static str>) -> ExitCode {
    if let Some(code) = child::main(|url| async move { Redis::connect(&url).await }) {
        return code;
    }
    match options.clone().start() {
        Ok(server) => harness::main(Server { server, options, label }),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn url(server: &testbed::Redis, proxy: Option<&Proxy>) -> String {
    let url = server.url_through(proxy.map_or(server.port(), Proxy::port));
    if url.starts_with("rediss:") {
        format!("{url}?ca={}", server.authority().display())
    } else {
        url
    }
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

#[async_trait]
impl Factory for Server {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(url(&self.server, None)))
    }

    fn label(&self) -> Option<String> {
        self.label.map(str::to_owned)
    }

    fn ttl(&self) -> Duration {
        // TLS handshakes are slow in debug builds.
        Duration::from_secs(if self.server.url().starts_with("rediss:") { 2 } else { 1 })
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&url(&self.server, None))
    }

    fn protected(&self) -> Option<Protect> {
        // The application's connection has no TLS settings.
        let is_plain = self.server.url().starts_with("redis:");
        is_plain.then(|| fenced_value::fenced_value(vec![self.server.url()]))
    }

    fn harms(&self) -> &[Harm] {
        &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut]
    }

    async fn fragile(&self) -> Result<Fragile> {
        // A restart must then end no hold.
        let server = self.options.clone().append_only("always").start().map_err(problem)?;
        let proxy = Proxy::start(server.address()).map_err(problem)?;
        let (connect, cut_off) = (to(url(&server, None)), to(url(&server, Some(&proxy))));
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
