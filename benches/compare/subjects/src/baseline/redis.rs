use std::time::Duration;

use lockwright_bench_protocol::{Library, Result};
use redis::{Client, Value, cmd};

use super::redis_server::{Hold, Server};
use super::{are_all, held, lost, servers};

const SLOTS: u16 = 16_384;

pub(super) struct Redis {
    masters: Vec<Server>,
    /// The last slot of each range, and the index of its master.
    slots: Vec<(u16, usize)>,
}

impl Redis {
    async fn one(url: &str) -> Result<Self> {
        Ok(Self { masters: vec![Server::connect(url).await?], slots: vec![(SLOTS - 1, 0)] })
    }

    async fn sentinels(servers: &str) -> Result<Self> {
        let (hosts, master) = servers.split_once('/').ok_or("the URL names no master")?;
        let sentinel = hosts.split(',').next().unwrap_or(hosts);
        let client = Client::open(format!("redis://{sentinel}"))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let (host, port): (String, u16) = cmd("SENTINEL")
            .arg("get-master-addr-by-name")
            .arg(master)
            .query_async(&mut connection)
            .await?;
        Self::one(&format!("redis://{host}:{port}")).await
    }

    async fn cluster(servers: &str) -> Result<Self> {
        let seed = servers.split(',').next().unwrap_or(servers);
        let client = Client::open(format!("redis://{seed}"))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let map: Vec<Vec<Value>> = cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await?;
        let (mut masters, mut addresses, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for range in map {
            let [_, last, master, ..] = &range[..] else { return Err("not a map of slots".into()) };
            let node: Vec<Value> = redis::from_redis_value(master.clone())?;
            let [host, port, ..] = &node[..] else { return Err("not a node".into()) };
            let host: String = redis::from_redis_value(host.clone())?;
            let port: u16 = redis::from_redis_value(port.clone())?;
            let address = format!("redis://{host}:{port}");
            let known = addresses.iter().position(|other| *other == address);
            let at = known.unwrap_or(addresses.len());
            if known.is_none() {
                masters.push(Server::connect(&address).await?);
                addresses.push(address);
            }
            slots.push((redis::from_redis_value(last.clone())?, at));
        }
        slots.sort_unstable();
        Ok(Self { masters, slots })
    }

    fn at(&self, name: &str) -> usize {
        let slot = crc16(name.as_bytes()) % SLOTS;
        let range = self.slots.partition_point(|(last, _)| *last < slot);
        self.slots.get(range).map_or(0, |(_, at)| *at)
    }

    fn master(&self, name: &str) -> &Server {
        &self.masters[self.at(name)]
    }
}

impl Library for Redis {
    type Hold = Hold;

    async fn open(backend: &str, urls: &[String]) -> Result<Self> {
        match backend {
            "redis-sentinel" => Self::sentinels(servers(urls)).await,
            "redis-cluster" => Self::cluster(servers(urls)).await,
            _ => Self::one(&urls[0]).await,
        }
    }

    async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Hold> {
        let granted = self.master(name).set(name, ttl).await?;
        granted.then(|| Hold { name: name.into(), turn: None }).ok_or_else(|| held(name))
    }

    async fn lock(&self, name: &str, _ttl: Duration) -> Result<Hold> {
        let turn = self.master(name).wait(name).await?;
        Ok(Hold { name: name.into(), turn: Some(turn) })
    }

    async fn unlock(&self, hold: Hold) -> Result<()> {
        let (name, master) = (&*hold.name, self.master(&hold.name));
        match hold.turn {
            Some(turn) => master.pass_on(name, turn).await,
            None if master.delete(name).await? => Ok(()),
            None => Err(lost(name)),
        }
    }

    async fn renew(&self, holds: &[Hold], ttl: Duration) -> Result<()> {
        let mut names = vec![Vec::new(); self.masters.len()];
        for hold in holds {
            names[self.at(&hold.name)].push(&*hold.name);
        }
        for (master, names) in self.masters.iter().zip(&names) {
            are_all(names.len(), master.renew(names, ttl).await?)?;
        }
        Ok(())
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 }
        })
    })
}
