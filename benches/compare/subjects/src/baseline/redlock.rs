use std::time::Duration;

use lockwright_bench_protocol::{Library, Result};
use tokio::time::sleep;

use super::redis_server::{Hold, Server};
use super::{held, lost, servers};

const AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Redlock {
    servers: [Server; 5],
}

impl Redlock {
    async fn set(&self, name: &str, ttl: Duration) -> Result<bool> {
        let granted = most(self.all(async |server| server.set(name, ttl).await).await)?;
        if !granted {
            self.delete(name).await?;
        }
        Ok(granted)
    }

    async fn delete(&self, name: &str) -> Result<bool> {
        most(self.all(async |server| server.delete(name).await).await)
    }

    async fn all<T>(&self, ask: impl AsyncFn(&Server) -> Result<T>) -> [Result<T>; 5] {
        let [a, b, c, d, e] = &self.servers;
        tokio::join!(ask(a), ask(b), ask(c), ask(d), ask(e)).into()
    }
}

impl Library for Redlock {
    type Hold = Hold;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let mut connected = Vec::new();
        for url in servers(urls).split(',') {
            connected.push(Server::connect(url).await?);
        }
        let servers = connected.try_into().map_err(|_| "there must be five servers")?;
        Ok(Self { servers })
    }

    async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Hold> {
        let granted = self.set(name, ttl).await?;
        granted.then(|| Hold { name: name.into(), turn: None }).ok_or_else(|| held(name))
    }

    /// Waits for a turn on the first server, so that clients never split the votes.
    async fn lock(&self, name: &str, ttl: Duration) -> Result<Hold> {
        let turn = self.servers[0].wait(name).await?;
        while !self.set(name, ttl).await? {
            sleep(AGAIN).await;
        }
        Ok(Hold { name: name.into(), turn: Some(turn) })
    }

    async fn unlock(&self, hold: Hold) -> Result<()> {
        let released = self.delete(&hold.name).await?;
        if let Some(turn) = hold.turn {
            self.servers[0].pass_on(&hold.name, turn).await?;
        }
        if released { Ok(()) } else { Err(lost(&hold.name)) }
    }

    async fn renew(&self, holds: &[Hold], ttl: Duration) -> Result<()> {
        let names: Vec<&str> = holds.iter().map(|hold| &*hold.name).collect();
        let all = self.all(async |server| server.renew(&names, ttl).await).await;
        all.into_iter().try_for_each(|renewed| renewed.map(drop))
    }
}

fn most(votes: [Result<bool>; 5]) -> Result<bool> {
    let mut yes = 0;
    for vote in votes {
        yes += usize::from(vote?);
    }
    Ok(yes >= 3)
}
