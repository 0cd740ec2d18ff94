//! Starts real servers for Lockwright's tests, benches and examples.
//!
//! Each server is a child process in a temporary folder, on a free loopback port. `start` waits
//! until it answers. Dropping the value ends it and deletes its data. It also ends if the test
//! process is killed.
//!
//! `LOCKWRIGHT_SERVER_ROOT` names a folder with another version of a server, which
//! `cargo xtask test versions` creates in `target/servers/`.
#![forbid(unsafe_code)]
#![allow(missing_docs)] // the names express the rest

pub mod account;
pub mod certificates;
pub mod descendants;
mod ensemble;
pub mod etcd;
mod folder;
pub mod go;
pub mod http;
pub mod mariadb;
mod methods;
mod network;
mod packages;
pub mod pgbouncer;
pub mod port;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod redis;
mod sockets;
pub mod wait;
pub mod zookeeper;

pub use account::Account;
pub use certificates::Certificates;
pub use etcd::Etcd;
pub use mariadb::MariaDb;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use process::{Process, Program};
pub use proxy::Proxy;
pub use redis::{Cluster, Fleet, Redis, Sentinels};
pub use zookeeper::ZooKeeper;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Keeps only the message, in which `fs_err` includes the path.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

fn in_url(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}
