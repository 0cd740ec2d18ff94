use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{CredentialProvider, Error, Result, duration, redact};

use crate::errors::error;
use crate::node::{Node, RedisNode};
use crate::{Options, PROFILE_NAME, Redlock};

const FORM: &str = "redlock:redis://HOST:PORT,redis://HOST:PORT,redis://HOST:PORT\
                    [?node_timeout=20ms&largest_ttl=2m&prefix=PREFIX]";

/// Connection settings of a quorum of Redis servers.
///
/// A URL is `redlock:` and an odd number of nodes' URLs, separated by commas. Parameters after the
/// last URL's `?` apply to all nodes: [`largest_ttl`](Options::largest_ttl),
/// [`node_timeout`](Options::node_timeout), and those of [`lockwright_redis::Config`]. User,
/// password and database are set per node. A comma in a password is percent-encoded: `%2C`.
#[derive(Clone)]
pub struct Config {
    nodes: Vec<lockwright_redis::Config>,
    options: Options,
    for_diagnosis: bool,
    shown: String,
}

impl Config {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) names the wrong part, without
    /// passwords.
    pub fn new(url: &str) -> Result<Self> {
        let url = url.trim();
        let invalid = |problem: String| {
            Error::invalid_config(format!("{problem}; a URL is {FORM}")).with_backend(PROFILE_NAME)
        };
        let (_, nodes) = url
            .split_once(':')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("redlock"))
            .ok_or_else(|| invalid("the URL doesn't begin with \"redlock:\"".to_owned()))?;
        let parts = split(nodes);
        let (last, query) = match parts.last().and_then(|last| last.split_once('?')) {
            Some((last, query)) => (Some(last), query),
            None => (parts.last().copied(), ""),
        };
        let mut options = Options::new();
        let mut common = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let time = || {
                duration::parse(value).map_err(|cause| invalid(format!("{key} is wrong: {cause}")))
            };
            match key {
                "node_timeout" => options = options.node_timeout(time()?),
                "largest_ttl" => options = options.largest_ttl(time()?),
                _ => common.push(parameter),
            }
        }
        let common = common.join("&");
        let all = parts[..parts.len().saturating_sub(1)].iter().copied().chain(last);
        let nodes = all
            .enumerate()
            .map(|(at, node)| {
                let url = with_parameters(node, &common);
                lockwright_redis::Config::new(&url).map_err(|cause| {
                    error(cause.kind(), format!("node {} of the quorum: {cause}", at + 1))
                })
            })
            .collect::<Result<Vec<_>>>()?;
        options.check()?;
        Ok(Self { nodes, options, for_diagnosis: false, shown: redact::url(url) })
    }

    /// Creates settings from the nodes' settings and the options.
    pub fn of(nodes: Vec<lockwright_redis::Config>, options: Options) -> Self {
        Self { nodes, options, for_diagnosis: false, shown: "redlock:…".to_owned() }
    }

    /// Sets [`Options::node_timeout`].
    #[must_use]
    pub fn node_timeout(mut self, limit: Duration) -> Self {
        self.options = self.options.node_timeout(limit);
        self
    }

    /// Sets [`Options::largest_ttl`].
    #[must_use]
    pub fn largest_ttl(mut self, ttl: Duration) -> Self {
        self.options = self.options.largest_ttl(ttl);
        self
    }

    /// Sets the [provider of credentials](lockwright_redis::Config::credentials) of all nodes.
    #[must_use]
    pub fn credentials(mut self, provider: CredentialProvider) -> Self {
        let with = |node: lockwright_redis::Config| node.credentials(provider.clone());
        self.nodes = self.nodes.into_iter().map(with).collect();
        self
    }

    /// Allows connecting without a quorum, for
    /// [`doctor`](lockwright_core::DistributedLock::doctor).
    #[must_use]
    pub fn for_diagnosis(mut self) -> Self {
        self.for_diagnosis = true;
        self
    }

    /// Connects, and checks the nodes. The errors and the cancel safety are those of
    /// [`Redlock::connect`].
    pub async fn connect(self) -> Result<Redlock> {
        let (for_diagnosis, largest_ttl) = (self.for_diagnosis, self.options.largest_ttl);
        let node = |config: lockwright_redis::Config| {
            let config = if for_diagnosis { config.for_diagnosis() } else { config };
            RedisNode::new(config, largest_ttl).map(|node| Arc::new(node) as Arc<dyn Node>)
        };
        let nodes = self.nodes.into_iter().map(node).collect::<Result<Vec<_>>>()?;
        let redlock = Redlock::new(nodes, self.options)?;
        if !for_diagnosis {
            redlock.look_at_all().await?;
        }
        Ok(redlock)
    }
}

fn split(nodes: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = nodes;
    let is_next = |rest: &str, at: usize| {
        let after = &rest[at + 1..];
        let scheme = after.split_once("://").map_or("", |(scheme, _)| scheme);
        ["redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    };
    while let Some(at) = rest.match_indices(',').map(|(at, _)| at).find(|at| is_next(rest, *at)) {
        parts.push(&rest[..at]);
        rest = &rest[at + 1..];
    }
    parts.push(rest);
    parts
}

fn with_parameters(node: &str, common: &str) -> String {
    match (common, node.contains('?')) {
        ("", _) => node.to_owned(),
        (_, false) => format!("{node}?{common}"),
        (_, true) => format!("{node}&{common}"),
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use lockwright_core::ErrorKind;

    use super::*;

    const NODES: &str = "redlock:redis://a:1,redis://b:2,redis://c:3";

    #[test]
    fn nodes_are_distinct() {
        assert_eq!(split("redis://a:1,redis://b:2"), ["redis://a:1", "redis://b:2"]);
        assert_eq!(
            split("redis://me:hu,sh@a:1,rediss://b:2/1,redis+unix:///x?db=1"),
            ["redis://me:hu,sh@a:1", "rediss://b:2/1", "redis+unix:///x?db=1"]
        );
        assert_eq!(
            split("valkey://me:hu,sh@a:1,Valkeys://b:2/1,valkey+unix:///x,redis://c"),
            ["valkey://me:hu,sh@a:1", "Valkeys://b:2/1", "valkey+unix:///x", "redis://c"]
        );
    }

    #[test]
    fn the_fleets_own_parameters_are_taken_and_the_rest_is_every_nodes() {
        let config =
            Config::new(&format!("{NODES}?node_timeout=20ms&prefix=p:&largest_ttl=2m")).unwrap();
        assert_eq!(config.options.node_timeout, Some(Duration::from_millis(20)));
        assert_eq!(config.options.largest_ttl, Duration::from_secs(120));
        assert_eq!(config.nodes.len(), 3);
        for node in &config.nodes {
            assert!(format!("{node:?}").contains("\"p:\""), "{node:?}");
        }
    }

    #[test]
    fn problem_is_named_without_secrets() {
        for (url, named) in [
            ("redis://a:1", "redlock:"),
            ("redlock:redis://a:1,redis://me:hush@b:x,redis://c:3", "node 2"),
            (
                "redlock:redis://me:hush@a:1,redis://b:2,redis://c:3?node_timeout=soon",
                "node_timeout",
            ),
            ("redlock:redis://me:hush@a:1,redis://b:2,redis://c:3?largest_ttl=1y", "largest_ttl"),
            ("redlock:redis://me:hush@a:1,redis://b:2,redis://c:3?largest_ttl=1ms", "largest TTL"),
            ("redlock:redis://me:hush@a:1,redis://b:2,redis://c:3?node_timeout=0", "time-out"),
            ("redlock:redis://me:hush@a:1,redis://b:2,redis://c:3?colour=blue", "colour"),
            ("redlock:", "node 1"),
        ] {
            let error = Config::new(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
            let text = format!("{error:?}");
            assert!(text.contains(named), "{url}: {text}");
            assert!(!text.contains("hush"), "{text}");
        }
        let shown = format!("{:?}", Config::new(&NODES.replace("a:1", "me:hush@a:1")).unwrap());
        assert!(!shown.contains("hush"), "{shown}");
    }
}
