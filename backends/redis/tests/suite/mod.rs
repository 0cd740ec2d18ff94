mod fenced_value;

use std::process::ExitCode;
use std::time::Duration;

use lockwright_conformance::{Factory, Fragile, Harm, Step, connector_to, harness, problem};
use lockwright_core::Result;
use lockwright_redis::Redis;
use lockwright_testbed::redis::Options;
use lockwright_testbed::{self as testbed, Proxy};

/// Each case that harms the server gets its own server.
pub(crate) fn main(options: Options, label: Option<&'static str>) -> ExitCode {
    harness::serve(connect, || {
        let running = options.clone().start()?;
        let is_plain = running.url().starts_with("redis:");
        let mut server = Factory::at(url(&running, None), connect)
            // TLS handshakes are slow in debug builds.
            .ttl(Duration::from_secs(if is_plain { 1 } else { 2 }))
            .fragile(&[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut], move || {
                fragile(options.clone())
            });
        if let Some(label) = label {
            server = server.label(label);
        }
        // The protected value's connection has no TLS settings.
        if is_plain {
            server = server.protected(fenced_value::fenced_value(vec![running.url()]));
        }
        Ok((running, server))
    })
}

async fn connect(url: String) -> Result<Redis> {
    Redis::connect(&url).await
}

fn url(server: &testbed::Redis, proxy: Option<&Proxy>) -> String {
    let url = server.url_through(proxy.map_or(server.port(), Proxy::port));
    if url.starts_with("rediss:") {
        format!("{url}?ca={}", server.authority().display())
    } else {
        url
    }
}

async fn fragile(options: Options) -> Result<Fragile> {
    // With `appendfsync always`, a restart keeps all holds.
    let mut server = options.append_only("always").start().map_err(problem)?;
    let proxy = Proxy::start(server.address()).map_err(problem)?;
    let direct = connector_to(url(&server, None), connect);
    let cut_off = connector_to(url(&server, Some(&proxy)), connect);
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
