use super::{Options, Redis};
use crate::ensemble::all_at_once;
use crate::{Proxy, Result};

/// Independent Redis servers behind proxies.
#[derive(Debug)]
pub struct Fleet {
    /// The servers.
    pub servers: Vec<Redis>,
    /// The proxy of each server.
    pub proxies: Vec<Proxy>,
}

impl Fleet {
    /// Starts `count` default servers.
    pub fn start(count: usize) -> Result<Self> {
        Redis::options().start_fleet(count)
    }

    /// Returns the servers' URLs.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Redis::url).collect()
    }

    /// Returns the servers' URLs through their proxies.
    pub fn urls_through_proxies(&self) -> Vec<String> {
        let pairs = self.servers.iter().zip(&self.proxies);
        pairs.map(|(server, proxy)| server.url_through(proxy.port())).collect()
    }
}

impl Options {
    /// Starts `count` servers in parallel.
    pub fn start_fleet(self, count: usize) -> Result<Fleet> {
        let servers = all_at_once(0..count, |_| self.clone().start())?;
        let proxies = servers.iter().map(|server| Proxy::start(server.address()));
        let proxies = proxies.collect::<Result<_>>()?;
        Ok(Fleet { servers, proxies })
    }
}
