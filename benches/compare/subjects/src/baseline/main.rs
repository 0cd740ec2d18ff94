//! The baseline: bare lock commands through Lockwright's client libraries.
#![forbid(unsafe_code)]

mod etcd;
mod memory;
mod mysql;
mod pool;
mod postgres;
mod redis;
mod redis_server;
mod redlock;
mod sql;
mod sqlite;
mod versions;
mod zookeeper;

use std::future::pending;
use std::time::Duration;

use lockwright_bench_protocol::{Handshake, Library, Result, serve};

use self::etcd::Etcd;
use self::memory::Memory;
use self::mysql::Mysql;
use self::postgres::Postgres;
use self::redis::Redis;
use self::redlock::Redlock;
use self::sql::Sql;
use self::sqlite::Sqlite;
use self::zookeeper::ZooKeeper;

const NOTES: &[&str] = &[
    "Mutual exclusion only: no fences, no proof of a hold, no reconnects, no wait ends with the \
     expiry of a hold, and the order of waiters is the server's.",
    "redis, redis-sentinel, redis-cluster: uncontended, SET NX PX and a script that deletes the \
     key; contended, an element that BLPOP takes from a list and LPUSH puts back, with a \
     connection for each waiter and no lease. A thousand waiters need a thousand connections, \
     where Lockwright waits once in each process: this is no lower bound then. A script renews \
     100 holds at a time.",
    "redlock-5: a waiter waits for that element on the first server, and then sets all five. So \
     no vote is split and no request fails, but without the first server no waiter is granted: no \
     better baseline is known. From a hundred waiters on, a connection for each is too many for \
     it, where Lockwright waits once in each process.",
    "postgres-lease, mysql-lease: a row is inserted and deleted. Waiters are in the queue of \
     pg_advisory_lock or GET_LOCK, which the predecessor leaves when it deletes its row.",
    "postgres and mysql: at most three connections of a process are in the server's queue; its \
     other waiters wait for one of these. Holds are renewed by one UPDATE, or by SELECT 1 on each \
     connection.",
    "sqlite: a waiter polls every millisecond, the shortest sleep of tokio, and tasks of one \
     process wait for each other by a mutex. It is no perfect baseline: another notification of a \
     release could be quicker.",
    "etcd: one lease for all keys of a process, and one watch that shows it the head of each \
     queue. That watch covers all keys, so each of its eight processes is notified of every pair, \
     though seven are idle: on one core that is half of a pair's cost for the server, and no \
     baseline of pairs there. From a hundred waiters on, each with a key, all are notified of \
     each step; Lockwright has one key in each process. \
     Both wait for the disk, whose syncs took 1 to 100 ms.",
    "zookeeper: one session; a waiter has a sequential node and watches its predecessor, assuming \
     that no waiter leaves the queue early. A thousand concurrent waiters each list all the \
     others, which takes longer than the measurement; Lockwright queues once in each process.",
];

trait Baseline: Sized + 'static {
    type Hold: 'static;

    async fn open(backend: &str, url: &str) -> Result<Self>;

    async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Self::Hold>;

    /// Acquires a contended name. The end of a hold from [`Self::lock_alone`] doesn't wake waiters.
    async fn lock(&self, name: &str, ttl: Duration) -> Result<Self::Hold>;

    async fn unlock(&self, hold: Self::Hold) -> Result<()>;

    async fn keep_alive(&self, holds: &[&Self::Hold], ttl: Duration) -> Result<()> {
        let _ = (holds, ttl);
        pending().await
    }
}

macro_rules! baselines {
    ($($kind:ident($baseline:ty): $($backend:literal)|+,)*) => {
        const BACKENDS: &[&str] = &[$($($backend),+),*];

        enum Any {
            $($kind(Box<$baseline>),)*
        }

        enum Hold {
            $($kind(<$baseline as Baseline>::Hold),)*
        }

        impl Library for Any {
            type Hold = Hold;

            async fn open(backend: &str, urls: &[String]) -> Result<Self> {
                let [url] = urls else { return Err("the baseline needs one URL".into()) };
                Ok(match backend {
                    $($($backend)|+ => Self::$kind(Box::new(<$baseline>::open(backend, url).await?)),)*
                    _ => return Err(format!("there is no baseline of {backend}").into()),
                })
            }

            async fn lock_alone(&self, name: &str, ttl: Duration) -> Result<Hold> {
                Ok(match self {
                    $(Self::$kind(baseline) => Hold::$kind(baseline.lock_alone(name, ttl).await?),)*
                })
            }

            async fn lock(&self, name: &str, ttl: Duration) -> Result<Hold> {
                Ok(match self {
                    $(Self::$kind(baseline) => Hold::$kind(baseline.lock(name, ttl).await?),)*
                })
            }

            async fn unlock(&self, hold: Hold) -> Result<()> {
                match (self, hold) {
                    $((Self::$kind(baseline), Hold::$kind(hold)) => baseline.unlock(hold).await,)*
                    _ => Err("the hold belongs to another baseline".into()),
                }
            }

            async fn keep_alive(&self, holds: &[Hold], ttl: Duration) -> Result<()> {
                match self {
                    $(Self::$kind(baseline) => {
                        let holds = holds.iter().filter_map(|hold| match hold {
                            Hold::$kind(hold) => Some(hold),
                            _ => None,
                        });
                        let holds: Vec<_> = holds.collect();
                        baseline.keep_alive(&holds, ttl).await
                    })*
                }
            }
        }
    };
}

baselines! {
    Memory(Memory): "memory",
    Sqlite(Sqlite): "sqlite",
    Postgres(Sql<Postgres>): "postgres-lease" | "postgres-session" | "postgres-row",
    Mysql(Sql<Mysql>): "mysql-lease" | "mysql-session" | "mysql-row",
    Redis(Redis): "redis" | "redis-sentinel" | "redis-cluster",
    Redlock(Redlock): "redlock-5",
    Etcd(Etcd): "etcd",
    ZooKeeper(ZooKeeper): "zookeeper",
}

fn held(name: &str) -> Box<dyn std::error::Error> {
    format!("{name} is held by another holder").into()
}

fn lost(name: &str) -> Box<dyn std::error::Error> {
    format!("{name} was lost before it was released").into()
}

fn main() {
    serve::<Any>(&Handshake {
        name: "baseline",
        library: versions::libraries(),
        runtime: "tokio, one thread",
        backends: BACKENDS,
        notes: NOTES,
    });
}
