//! Which session timeouts the servers grant: they don't say, so it is tried.

use std::time::Duration;

use lockwright_core::{Clock, Result};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::session::{Session, connect, connect_to};

/// The longest that the protocol has: the servers shorten it to their `maxSessionTimeout`.
pub(crate) const FOREVER: Duration = Duration::from_millis(i32::MAX as u64);

/// The shortest that is asked for. A shorter one would be over before the session is there.
const SHORTEST: Duration = Duration::from_millis(250);

/// For how long one server is waited for that is tried by itself, at most.
const ONE_SERVER: Duration = Duration::from_secs(2);

/// What the servers grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
    /// The servers' tick, or more.
    pub(crate) tick: Duration,
}

/// What one server granted.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    /// As it stands in the URL.
    pub(crate) host: String,
    pub(crate) asked: Duration,
    pub(crate) timeout: Duration,
}

/// Tries it, with a short session and one that is answered for further use. What each server granted
/// comes with it.
pub(crate) async fn try_out(
    config: &Config,
    clock: &Clock,
    nobody: String,
) -> Result<(Limits, Vec<Granted>, Session)> {
    // Nobody asks when it was proven to live before the tick is known.
    let long = Session::open(config, clock, nobody, FOREVER, FOREVER).await?;
    let (asked, shortest) = shortest(config).await?;
    // A session moves among the servers, and each sets its timeout anew.
    let (least, most) = tokio::join!(granted(config, asked), granted(config, FOREVER));
    let shortest = least.iter().map(|granted| granted.timeout).fold(shortest, Duration::max);
    let longest = most.iter().map(|granted| granted.timeout).fold(long.timeout(), Duration::min);
    let tick = config.contents.tick.unwrap_or(shortest / 2);
    long.set_tick(tick);
    Ok((Limits { shortest, longest, tick }, most, long))
}

/// The session timeout that each server of the URL grants when this one is asked for, of those that
/// can be reached.
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

/// A short session timeout that can be asked for, and what is granted then.
async fn shortest(config: &Config) -> Result<(Duration, Duration)> {
    let mut asked = SHORTEST;
    loop {
        match connect(config, asked).await {
            Ok(session) => return Ok((asked, session.session_timeout())),
            // On a slow way there is no session yet when this time is over.
            Err(cause) if asked / 2 >= config.connect_timeout => return Err(cause),
            Err(_) => asked = (asked * 2).min(FOREVER),
        }
    }
}

impl Limits {
    /// Of servers that were set up as they come.
    pub(crate) fn usual() -> Self {
        let tick = Duration::from_secs(2);
        Self { shortest: tick * 2, longest: tick * 20, tick }
    }

    /// The shortest TTL: what a follower has heard reaches the leader within a tick, and a proof
    /// takes two such.
    pub(crate) fn shortest_ttl(&self) -> Duration {
        self.shortest.max(self.tick * 4)
    }
}
