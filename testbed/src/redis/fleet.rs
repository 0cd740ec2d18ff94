//! Independent Redis servers, each behind a proxy.

use super::{Options, Redis};
use crate::ensemble::all_at_once;
use crate::{Proxy, Result};

/// Servers that know nothing of each other.
#[derive(Debug)]
pub struct Fleet {
    /// The servers.
    pub servers: Vec<Redis>,
    /// A proxy in front of each.
    pub proxies: Vec<Proxy>,
}

impl Fleet {
    /// So many, with default settings.
    ///
    /// # Errors
    /// As [`Redis::start`].
    pub fn start(count: usize) -> Result<Self> {
        Redis::options().start_fleet(count)
    }

    /// How to connect to each.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Redis::url).collect()
    }

    /// How to connect to each through its proxy.
    pub fn urls_through_proxies(&self) -> Vec<String> {
        let pairs = self.servers.iter().zip(&self.proxies);
        pairs.map(|(server, proxy)| server.url_through(proxy.port())).collect()
    }
}

impl Options {
    /// Starts so many of them at once.
    pub fn start_fleet(self, count: usize) -> Result<Fleet> {
        let servers = all_at_once(0..count, |_| self.clone().start())?;
        let proxies = servers.iter().map(|server| Proxy::start(server.address()));
        let proxies = proxies.collect::<Result<_>>()?;
        Ok(Fleet { servers, proxies })
    }
}
