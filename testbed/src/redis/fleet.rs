use super::{Options, Redis};
use crate::ensemble::all_at_once;
use crate::{Proxy, Result};

#[derive(Debug)]
pub struct Fleet {
    pub servers: Vec<Redis>,
    pub proxies: Vec<Proxy>,
}

impl Fleet {
    pub fn start(count: usize) -> Result<Self> {
        Redis::options().start_fleet(count)
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Redis::url).collect()
    }

    pub fn urls_through_proxies(&self) -> Vec<String> {
        let pairs = self.servers.iter().zip(&self.proxies);
        pairs.map(|(server, proxy)| server.url_through(proxy.port())).collect()
    }
}

impl Options {
    pub fn start_fleet(self, count: usize) -> Result<Fleet> {
        let servers = all_at_once(0..count, |_| self.clone().start())?;
        let proxies = servers.iter().map(|server| Proxy::start(server.address()));
        let proxies = proxies.collect::<Result<_>>()?;
        Ok(Fleet { servers, proxies })
    }
}
