//! The servers of a lane: started once, used by many schedules.

mod ensembles;
mod redis;
mod sql;
mod sqlite;

use std::path::Path;

use lockwright_testbed::{self as testbed, Proxy};

use crate::configuration::Configuration;

pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// One server process.
pub(crate) trait Server {
    /// Its process id.
    fn pid(&self) -> u32;
    /// Ends it at once.
    fn kill(&mut self);
    /// Stops its processes, with their connections open.
    fn freeze(&self);
    /// Lets them go on.
    fn thaw(&self);
    /// Starts it again, if need be after ending it.
    fn restart(&mut self, keep_data: bool) -> testbed::Result<()>;
}

macro_rules! servers {
    ($($server:ty),+) => {$(
        impl Server for $server {
            fn pid(&self) -> u32 {
                self.process().pid()
            }

            fn kill(&mut self) {
                self.kill();
            }

            fn freeze(&self) {
                self.freeze();
            }

            fn thaw(&self) {
                self.thaw();
            }

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

/// The target of a session that locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock<'a> {
    /// The row of this lock.
    Row(&'a str),
    /// The table of all locks.
    Table,
}

/// All servers of one configuration, and the proxies in front of them.
///
/// The methods that a configuration doesn't have fail: the table in `faults.rs` keeps them from being called.
pub(crate) trait Servers: Send {
    /// The URL for clients, by the proxies.
    fn url(&self) -> String;

    /// The URL without proxies.
    fn direct_url(&self) -> String {
        self.url()
    }

    /// The proxies in front of the servers.
    fn proxies(&self) -> Vec<&Proxy>;

    /// The server processes.
    fn servers(&mut self) -> Vec<&mut dyn Server>;

    /// Returns the index of the server that serves, where one does: the leader, the master.
    fn leader(&mut self) -> usize {
        0
    }

    /// Prepares a schedule. `proxied` is whether its clients must go through proxies.
    ///
    /// # Errors
    /// If a server doesn't answer.
    fn prepare(&mut self, proxied: bool) -> Result<()> {
        let _ = proxied;
        Ok(())
    }

    /// Starts servers that ended, and waits until all agree.
    ///
    /// # Errors
    /// If they don't.
    fn recover(&mut self) -> Result<()>;

    /// Makes another server take over from the leader, which is killed or made a follower. Returns what was observed.
    ///
    /// # Errors
    /// If no other server takes over.
    fn fail_over(&mut self) -> Result<String> {
        Err("this configuration has no failover".into())
    }

    /// Restores schemas and admissions after a loss of data.
    ///
    /// # Errors
    /// If a server doesn't answer.
    fn after_data_loss(&mut self) -> Result<()> {
        Ok(())
    }

    /// Limits the connections to fewer than there are and ends those, or removes that limit.
    ///
    /// # Errors
    /// If the server doesn't answer.
    fn limit_connections(&mut self, on: bool) -> Result<()> {
        let _ = on;
        Err("this configuration has no limit of connections".into())
    }

    /// Locks a row or a table from another session.
    ///
    /// # Errors
    /// If the session can't be opened.
    fn lock(&mut self, what: Lock<'_>) -> Result<Box<dyn Locking>> {
        let _ = what;
        Err("this configuration has no sessions that lock".into())
    }

    /// Returns by how many milliseconds the server's wall clock is ahead of this machine's.
    ///
    /// # Errors
    /// If the server doesn't answer.
    fn clock_ahead(&mut self) -> Result<i64> {
        Err("the server's clock can't be read".into())
    }

    /// Returns leftovers of locks whose names begin with `prefix`, after all holds have ended, and
    /// connections of clients.
    ///
    /// # Errors
    /// If a server doesn't answer.
    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>>;
}

/// A session that locks something until it is dropped.
pub(crate) trait Locking {
    /// Returns how many sessions wait for a lock now.
    fn waiting(&mut self) -> usize;
}

/// Starts the servers of a configuration, with their files in `folder` where they have no folder of their own.
///
/// # Errors
/// If one of them isn't installed or doesn't answer.
pub(crate) fn start(configuration: Configuration, folder: &Path) -> Result<Box<dyn Servers>> {
    use Configuration::{
        Etcd, MysqlLease, MysqlRow, MysqlSession, PostgresLease, PostgresRow, PostgresSession,
        Redis, RedisCluster, RedisSentinel, Redlock, Sqlite, ZooKeeper,
    };
    Ok(match configuration {
        Sqlite => Box::new(sqlite::File::create(folder)?),
        PostgresLease | PostgresSession | PostgresRow => {
            Box::new(sql::Postgres::start(configuration)?)
        }
        MysqlLease | MysqlSession | MysqlRow => Box::new(sql::Mysql::start(configuration)?),
        Redis => Box::new(redis::One::start()?),
        RedisSentinel => Box::new(redis::BySentinels::start()?),
        RedisCluster => Box::new(redis::InCluster::start()?),
        Redlock => Box::new(redis::Quorum::start()?),
        Etcd => Box::new(ensembles::Etcd::start()?),
        ZooKeeper => Box::new(ensembles::ZooKeeper::start()?),
    })
}

/// Returns whether a process runs or is stopped, and hasn't ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Returns the state of a process as the kernel shows it: `R`, `S`, `T`, `Z`.
pub(crate) fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Restarts those that have ended.
///
/// # Errors
/// If one doesn't answer.
fn restart_the_dead(servers: Vec<&mut dyn Server>) -> Result<()> {
    for server in servers {
        server.thaw();
        if !is_alive(server.pid()) {
            server.restart(true)?;
        }
    }
    Ok(())
}
