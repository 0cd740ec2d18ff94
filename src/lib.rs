//! Distributed locks for Rust: correctness first, then speed.
//!
//! Lockwright is one client for many lock servers.
//!
//! ```no_run
//! # async fn example() -> lockwright::Result<()> {
//! let locks = lockwright::connect("redis://127.0.0.1/").await?; // or sqlite:locks.db, memory:
//! let guard = locks.mutex("orders/42").acquire().await?;
//! // ... the protected work, with guard.fence() in each write ...
//! guard.release().await
//! # }
//! ```
//!
//! # Getting started
//!
//! [`connect`] with a URL, or [`Config`] from a file, creates [`Locks`]. [`Locks::mutex`] creates a
//! [`Request`], which acquires a [`Guard`]. [`Guard::run`] stops its future when the lock is lost.
//!
//! # Features
//!
//! The defaults are `memory` and `sqlite`. Each feature, with its URLs:
//!
//! - `memory`: `memory:`
//! - `sqlite`: `sqlite:PATH`
//! - `postgres`: `postgres://USER:PASSWORD@HOST/DATABASE`
//! - `mysql`: `mysql://USER:PASSWORD@HOST/DATABASE`
//! - `redis`: `redis://HOST`, `redis+unix:///SOCKET`, `redis+sentinel://S1,S2,S3/MASTER`,
//!   `redis+cluster://HOST,HOST`; `valkey:` too
//! - `redlock`: `redlock:redis://A,redis://B,redis://C`
//! - `etcd`: `etcd:http://A:2379,http://B:2379,http://C:2379`
//! - `zookeeper`: `zookeeper:A:2181,B:2181,C:2181/CHROOT`
//! - `zookeeper-tls`: `zookeeper+tls:A:2281,B:2281,C:2281/CHROOT?ca=FILE`
//! - `tls`: `rediss://HOST`, `etcd:https://…`, `postgres://…?sslmode=verify-full`,
//!   `mysql://…?ssl-mode=VERIFY_IDENTITY`
//! - `blocking`: adds the module `blocking`, for programs without tokio
//! - `config-file`: adds `Config::load`, which reads a file and the environment
//! - `metrics`: exports [metrics](crate::Request::group) through the crate `metrics`
//! - `tracing-spans`: adds spans of the crate `tracing`
//! - `portable`: the default backends of the command-line tool
//!
//! The README has more about each backend.
#![forbid(unsafe_code)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod config;
#[cfg(feature = "config-file")]
mod config_file;
mod connect;
mod nodes;
mod password;
mod schema;

pub use config::{Config, Requirement};
pub use connect::connect;
pub use lockwright_core::{
    BootInstant, Builder, Clock, CredentialProvider, Credentials, Election, Error, ErrorKind,
    Fence, Guard, Held, HoldState, Leader, Leadership, LockName, Locks, MetricsSnapshot, Mode,
    MultiGuard, MultiRequest, Observer, Owner, Permit, PrefixOptions, Profile, Reason, Request,
    Result, Signal, Ticket, TicketError, Token, fencing,
};
/// The etcd backend, and a fence check in a transaction.
#[cfg(feature = "etcd")]
pub use lockwright_etcd as etcd;
#[cfg(feature = "memory")]
pub use lockwright_memory::Memory;
/// The Redis backend, and a fence check in a script.
#[cfg(feature = "redis")]
pub use lockwright_redis as redis;
/// The SQL backends, and a lock and a fence check in a transaction.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use lockwright_sql as sql;
/// The ZooKeeper backend, and a fence check in a `multi`.
#[cfg(feature = "zookeeper")]
pub use lockwright_zookeeper as zookeeper;

/// The trait of a backend, and functions that connect to one.
pub mod backend {
    pub use lockwright_core::backend_util;
    pub use lockwright_core::{
        AcquireOutcome, Busy, Claim, DistributedLock, Event, Events, Granted, Identity, NameMap,
        ReleaseMode, ReleaseOutcome, Renew, Renewal, RenewalMode, RenewalOutcome, Step,
        TokenSource, Wait, async_trait, duration, redact, validity,
    };

    pub use crate::connect::{open, open_for_diagnosis};
}

/// Types and functions for operators.
pub mod operator {
    pub use lockwright_core::{
        BreakMode, BreakTarget, Broken, Cursor, Finding, Holder, Inspection, Page, Severity,
        SweepReport,
    };

    pub use crate::nodes::{Node, admit, nodes, wait_for_nodes};
    pub use crate::schema::schema;
}

/// The parts of a [`Profile`].
pub mod profile {
    pub use lockwright_core::{Fault, Faults, Fencing, Modes, Order, Scope, WakeUp};
}

#[cfg(doctest)]
#[doc = include_str!("../docs/src/guide.md")]
struct Guide;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
