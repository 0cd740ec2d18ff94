use std::cell::RefCell;
use std::collections::HashSet;
use std::process;
use std::time::Duration;

use lockwright_bench_protocol::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, cmd};

use super::pool::{Lent, Pool};

const BATCH: usize = 100;

pub(super) struct Server {
    client: Client,
    connection: MultiplexedConnection,
    waiting: Pool<MultiplexedConnection>,
    ready: RefCell<HashSet<String>>,
    token: String,
    release: String,
    renew: String,
}

pub(super) struct Hold {
    pub(super) name: Box<str>,
    pub(super) turn: Option<Turn>,
}

/// The right to acquire a name: the only element of a list, which a waiter pops, and pushes back
/// after the release.
pub(super) struct Turn(Box<Lent<MultiplexedConnection>>);

impl Server {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let client = Client::open(url)?;
        let mut connection = open(&client).await?;
        let mut load = async |script| -> Result<String> {
            Ok(cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await?)
        };
        let release = load(include_str!("release.lua")).await?;
        let renew = load(include_str!("renew.lua")).await?;
        Ok(Self {
            client,
            connection,
            waiting: Pool::unlimited(),
            ready: RefCell::default(),
            token: process::id().to_string(),
            release,
            renew,
        })
    }

    pub(super) async fn set(&self, name: &str, ttl: Duration) -> Result<bool> {
        let mut set = cmd("SET");
        set.arg(key(name)).arg(&self.token).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
        let granted: Option<String> = set.query_async(&mut self.connection.clone()).await?;
        Ok(granted.is_some())
    }

    pub(super) async fn delete(&self, name: &str) -> Result<bool> {
        let mut delete = cmd("EVALSHA");
        delete.arg(&self.release).arg(1).arg(key(name)).arg(&self.token);
        Ok(delete.query_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn renew(&self, names: &[&str], ttl: Duration) -> Result<usize> {
        let mut renewed = 0;
        for batch in names.chunks(BATCH) {
            let mut renew = cmd("EVALSHA");
            renew.arg(&self.renew).arg(0).arg(&self.token).arg(ttl.as_millis() as u64);
            for name in batch {
                renew.arg(key(name));
            }
            renewed += renew.query_async::<usize>(&mut self.connection.clone()).await?;
        }
        Ok(renewed)
    }

    /// BLPOP blocks its connection, so this opens another.
    pub(super) async fn wait(&self, name: &str) -> Result<Turn> {
        let list = format!("{}:turn", key(name));
        if !self.ready.borrow().contains(name) {
            self.make_turn(name, &list).await?;
            self.ready.borrow_mut().insert(name.to_owned());
        }
        let mut lent = self.waiting.take(async || open(&self.client).await).await?;
        cmd("BLPOP").arg(&list).arg(0).exec_async(&mut lent.connection).await?;
        Ok(Turn(Box::new(lent)))
    }

    pub(super) async fn pass_on(&self, name: &str, turn: Turn) -> Result<()> {
        let list = format!("{}:turn", key(name));
        let mut lent = *turn.0;
        cmd("LPUSH").arg(list).arg("").exec_async(&mut lent.connection).await?;
        self.waiting.give_back(lent);
        Ok(())
    }

    async fn make_turn(&self, name: &str, list: &str) -> Result<()> {
        let mut connection = self.connection.clone();
        if cmd("EXISTS").arg(key(name)).query_async(&mut connection).await? {
            return Ok(());
        }
        let made = format!("{}:made", key(name));
        let first = cmd("SET").arg(made).arg("").arg("NX").query_async(&mut connection).await?;
        if let Some(()) = first {
            cmd("LPUSH").arg(list).arg("").exec_async(&mut connection).await?;
        }
        Ok(())
    }
}

/// Returns a hash tag, which puts a name's keys in one slot.
fn key(name: &str) -> String {
    format!("{{{name}}}")
}

async fn open(client: &Client) -> Result<MultiplexedConnection> {
    let settings = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client.get_multiplexed_async_connection_with_config(&settings).await?)
}
