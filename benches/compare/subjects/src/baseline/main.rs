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

use lockwright_bench_protocol::{BACKENDS, Commands, Handshake, Result, serve_by_backend};

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

async fn answer(commands: Commands) {
    match commands.backend().split('-').next() {
        Some("memory") => commands.answer::<Memory>().await,
        Some("sqlite") => commands.answer::<Sqlite>().await,
        Some("postgres") => commands.answer::<Sql<Postgres>>().await,
        Some("mysql") => commands.answer::<Sql<Mysql>>().await,
        Some("redis") => commands.answer::<Redis>().await,
        Some("redlock") => commands.answer::<Redlock>().await,
        Some("etcd") => commands.answer::<Etcd>().await,
        _ => commands.answer::<ZooKeeper>().await,
    }
}

/// Returns the URL without its scheme and its options, which are for Lockwright.
fn servers(urls: &[String]) -> &str {
    let (_, rest) = urls[0].split_once(':').unwrap_or_default();
    rest.trim_start_matches("//").split('?').next().unwrap_or_default()
}

fn held(name: &str) -> Box<dyn std::error::Error> {
    format!("{name} is held by another holder").into()
}

fn lost(name: &str) -> Box<dyn std::error::Error> {
    format!("{name} was lost before it was released").into()
}

fn are_all(held: usize, renewed: usize) -> Result<()> {
    match renewed < held {
        true => Err(format!("{renewed} of {held} leases were there").into()),
        false => Ok(()),
    }
}

fn main() {
    let handshake = Handshake {
        name: "baseline",
        library: versions::libraries(),
        runtime: "tokio, one thread",
        backends: BACKENDS,
        notes: NOTES,
    };
    serve_by_backend(&handshake, answer);
}
