//! Servers don't report the session timeouts that they grant, so the client opens sessions.

use std::time::Duration;

use lockwright_core::{Clock, Result};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::session::{Session, connect, connect_to};
use crate::url::MAX_TIMEOUT;

/// A shorter session would expire while it is created.
const SHORTEST: Duration = Duration::from_millis(250);

const ONE_SERVER: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
    /// The assumed tick, possibly longer than the servers' tick.
    pub(crate) tick: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) host: String,
    pub(crate) asked: Duration,
    pub(crate) timeout: Duration,
}

pub(crate) async fn try_out(
    config: &Config,
    clock: &Clock,
    probe_path: String,
) -> Result<(Limits, Vec<Granted>, Session)> {
    // The second `MAX_TIMEOUT` is a provisional tick, which `set_tick` corrects below.
    let long = Session::open(config, clock, probe_path, MAX_TIMEOUT, MAX_TIMEOUT).await?;
    let (asked, shortest) = shortest(config).await?;
    // Each server limits the timeouts of sessions that move to it.
    let (least, most) = tokio::join!(granted(config, asked), granted(config, MAX_TIMEOUT));
    let shortest = least.iter().map(|granted| granted.timeout).fold(shortest, Duration::max);
    let longest = most.iter().map(|granted| granted.timeout).fold(long.timeout(), Duration::min);
    let tick = config.contents.tick.unwrap_or(shortest / 2);
    long.set_tick(tick);
    Ok((Limits { shortest, longest, tick }, most, long))
}

pub(crate) async fn granted(config: &Config, asked: Duration) -> Vec<Granted> {
    let mut trying = JoinSet::new();
    for host in config.contents.hosts.iter().cloned() {
        let config = config.clone();
        trying.spawn(async move {
            let connecting = connect_to(&config, std::slice::from_ref(&host), asked, true);
            let limit = config.connect_timeout.min(ONE_SERVER);
            let session = tokio::time::timeout(limit, connecting).await.ok()?.ok()?;
            Some(Granted { host, asked, timeout: session.session_timeout() })
        });
    }
    trying.join_all().await.into_iter().flatten().collect()
}

async fn shortest(config: &Config) -> Result<(Duration, Duration)> {
    let mut asked = SHORTEST;
    loop {
        match connect(config, asked).await {
            Ok(session) => return Ok((asked, session.session_timeout())),
            // On a slow network, a short session expires before it is created.
            Err(cause) if asked / 2 >= config.connect_timeout => return Err(cause),
            Err(_) => asked = (asked * 2).min(MAX_TIMEOUT),
        }
    }
}

impl Limits {
    pub(crate) fn usual() -> Self {
        let tick = Duration::from_secs(2);
        Self { shortest: tick * 2, longest: tick * 20, tick }
    }

    /// Returns the shortest TTL: at least four ticks. A proof that a session lives takes up to two,
    /// which leaves half of the TTL.
    pub(crate) fn shortest_ttl(&self) -> Duration {
        self.shortest.max(self.tick * 4)
    }
}
