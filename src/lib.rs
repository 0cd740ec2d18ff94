//! Distributed locks that are right before they are fast.
//!
//! Services on many machines must agree that only one of them does a thing. Lockwright gives them
//! one client with renewal, deadlines, loss that is told, waiting, reentrancy and fences, over the
//! server that they have anyway.
//!
//! ```no_run
//! # async fn example() -> lockwright::Result<()> {
//! let locks = lockwright::connect("redis://127.0.0.1/").await?; // or sqlite:locks.db, memory:
//! let guard = locks.mutex("orders/42").acquire().await?;
//! // ... what only one may do, with guard.fence() beside each write ...
//! guard.release().await
//! # }
//! ```
//!
//! # Where to begin
//!
//! - [`connect`] with a URL, or [`Config`] from a file; both give [`Locks`].
//! - [`Locks::mutex`] makes a [`Request`]; sent, it gives a [`Guard`].
//! - [`Guard::run`] stops what it drives when the lock is lost; [`Guard::check`] tells without
//!   asking anybody; [`Guard::fence`] makes a late write harmless where the write goes.
//! - [`DistributedLock`] is what a backend of your own implements; [`Locks::new`] takes it.
//!
//! # Features
//!
//! | feature | URL | default | what it brings |
//! |---|---|---|---|
//! | `memory` | `memory:` | yes | locks inside one process |
//! | `sqlite` | `sqlite:PATH` | yes | a file shared by the processes of one machine (builds SQLite's C source) |
//! | `postgres` | `postgres://USER:PASSWORD@HOST/DATABASE` | no | a PostgreSQL server |
//! | `mysql` | `mysql://USER:PASSWORD@HOST/DATABASE` | no | a MySQL or MariaDB server |
//! | `redis` | `redis://HOST`, `redis+unix:///SOCKET`; `valkey:` instead of `redis:` here and below | no | one Redis or Valkey server |
//! | `redis` | `redis+sentinel://S1,S2,S3/MASTER` | no | the master that Sentinels name |
//! | `redis` | `redis+cluster://HOST,HOST` | no | a Redis Cluster |
//! | `redlock` | `redlock:redis://A,redis://B,redis://C` | no | a quorum over independent Redis servers |
//! | `etcd` | `etcd:http://A:2379,http://B:2379,http://C:2379` | no | an etcd cluster (builds with `protoc`) |
//! | `zookeeper` | `zookeeper:A:2181,B:2181,C:2181/CHROOT` | no | a ZooKeeper ensemble |
//! | `zookeeper-tls` | `zookeeper+tls:A:2281,B:2281,C:2281/CHROOT?ca=FILE` | no | TLS to it (builds the C source of aws-lc-rs and ring; on less usual platforms with `cmake`) |
//! | `tls` | `postgres://…?sslmode=verify-full`, `mysql://…?ssl-mode=VERIFY_IDENTITY`, `rediss://` or `valkeys://`, `rediss+sentinel://`, `rediss+cluster://`, `etcd:https://…` | no | TLS to these servers (builds ring's C source) |
//! | `portable` | | no | all of these that the command has by default: those that lock beyond one process, and build with a C compiler alone |
#![forbid(unsafe_code)]

mod config;
mod connect;
mod nodes;
mod schema;

pub use config::{Config, Requirement};
pub use connect::{backend, backend_for_diagnosis, connect};
pub use lockwright_core::*;
/// What etcd has beside locks of a client: a check of fences in a transaction of the application's own.
#[cfg(feature = "etcd")]
pub use lockwright_etcd as etcd;
/// What Redis has beside locks of a client: a check of fences in a script of the application's own.
#[cfg(feature = "redis")]
pub use lockwright_redis as redis;
/// What the SQL backends have beside locks of a client: a lock and a fence check in a transaction of
/// the application's own.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use lockwright_sql as sql;
/// What ZooKeeper has beside locks of a client: a check of fences in a `multi` of the application's own.
#[cfg(feature = "zookeeper")]
pub use lockwright_zookeeper as zookeeper;
pub use nodes::{Node, admit, nodes, wait_for_nodes};
pub use schema::schema;

// The guide's examples are doc tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/src/guide.md")]
struct Guide;

// And so are the README's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
