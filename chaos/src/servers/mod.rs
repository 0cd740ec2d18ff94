mod ensembles;
mod redis;
mod sql;
mod sqlite;

use std::ops::DerefMut;
use std::path::Path;

use lockwright::Profile;
use lockwright_testbed::{self as testbed, Process, Proxy};

use crate::configuration::Configuration;

pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

pub(crate) trait Server: DerefMut<Target = Process> {
    fn restart(&mut self, keep_data: bool) -> testbed::Result<()>;
}

macro_rules! servers {
    ($($server:ty),+) => {$(
        impl Server for $server {
            fn restart(&mut self, keep_data: bool) -> testbed::Result<()> {
                self.restart(keep_data)
            }
        }
    )+};
}
servers!(
    testbed::Redis,
    testbed::Postgres,
    testbed::MariaDb,
    testbed::etcd::Member,
    testbed::zookeeper::Member
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock<'a> {
    Row(&'a str),
    Table,
}

/// The servers of one configuration. If a method's default is an error, `Fault::applies_to`
/// excludes its fault.
pub(crate) trait Servers: Send {
    fn url(&self) -> String;

    fn direct_url(&self) -> String {
        self.url()
    }

    fn proxies(&self) -> Vec<&Proxy>;

    fn servers(&mut self) -> Vec<&mut dyn Server>;

    fn leader(&mut self) -> Result<usize> {
        Ok(0)
    }

    fn prepare(&mut self, proxied: bool) -> Result<()> {
        let _ = proxied;
        Ok(())
    }

    fn recover(&mut self) -> Result<()> {
        for server in self.servers() {
            server.thaw();
            if !is_alive(server.pid()) {
                server.restart(true)?;
            }
        }
        self.wait_until_whole()
    }

    fn wait_until_whole(&mut self) -> Result<()> {
        Ok(())
    }

    fn fail_over(&mut self) -> Result<String> {
        let old = self.leader()?;
        self.servers()[old].kill();
        let new = self.wait_for_failover(old)?;
        self.servers()[old].restart(true)?;
        Ok(format!("server {new} took over from {old}"))
    }

    fn wait_for_failover(&mut self, old: usize) -> Result<usize> {
        Err(format!("server {old} has no failover").into())
    }

    fn after_data_loss(&mut self) -> Result<()> {
        Ok(())
    }

    /// If `on`, closes the clients' connections and limits new ones.
    fn limit_connections(&mut self, on: bool) -> Result<()> {
        let _ = on;
        Err("this configuration has no limit of connections".into())
    }

    fn lock(&mut self, what: Lock<'_>) -> Result<Box<dyn Locking>> {
        let _ = what;
        Err("this configuration has no sessions that lock".into())
    }

    /// Returns the server's clock minus this machine's, in milliseconds.
    fn clock_ahead(&mut self) -> Result<i64> {
        Err("the server's clock can't be read".into())
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>>;
}

pub(crate) trait Locking {
    fn waiting(&mut self) -> usize;
}

pub(crate) fn start(configuration: Configuration, folder: &Path) -> Result<Box<dyn Servers>> {
    use Configuration::*;
    Ok(match configuration {
        Sqlite => Box::new(sqlite::File::create(folder)?),
        PostgresLease | PostgresSession | PostgresRow => {
            Box::new(sql::Postgres::start(configuration)?)
        }
        MysqlLease | MysqlSession | MysqlRow => Box::new(sql::Mysql::start(configuration)?),
        Redis => Box::new(redis::Independent::start(1)?),
        RedisSentinel => Box::new(redis::BySentinels::start()?),
        RedisCluster => Box::new(redis::InCluster::start()?),
        Redlock => Box::new(redis::Independent::start(3)?),
        Etcd => Box::new(ensembles::Etcd::start()?),
        ZooKeeper => Box::new(ensembles::ZooKeeper::start()?),
    })
}

pub(crate) fn block_on<T, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work).map_err(Into::into)
}

pub(crate) fn profile(url: &str) -> Result<Profile> {
    block_on(async { lockwright::backend::open(url).await.map(|opened| opened.profile().clone()) })
}

fn make_tables(url: &str) -> Result<()> {
    block_on(async { lockwright::connect(url).await.map(drop) })
}

pub(crate) fn is_alive(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

pub(crate) fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}
