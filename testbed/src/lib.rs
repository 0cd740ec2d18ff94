//! Starts real servers for Lockwright's tests, benches and examples.
//!
//! Each server is a child process of its own, in a temporary folder, on a free loopback port. It
//! has answered before anybody gets hold of it, and it is gone when its value is dropped, when the
//! test panics, and when the test process itself is killed.
//!
//! A missing binary is an error that names the Debian package, never a skipped test.
//! `LOCKWRIGHT_SERVER_ROOT` names a folder with a server of another version, which is then started
//! instead of the installed one: `cargo xtask test versions` makes such folders in `target/servers/`.
//!
//! | module | subject |
//! |---|---|
//! | [`process`] | one child process: start, stop, kill, freeze, its log |
//! | [`family`] | a process and its descendants |
//! | [`http`] | one question over HTTP |
//! | [`port`] | free loopback ports |
//! | [`wait`] | waiting for a thing itself, with a limit |
//! | [`account`] | who a server runs as, when we are root |
//! | [`certificates`] | a server's certificate, and a CA for it |
//! | [`redis`] | a Redis server, and sets of them: independent ones, a Sentinel set, a Cluster |
//! | [`postgres`] | a PostgreSQL server, or a replica of one |
//! | [`pgbouncer`] | PgBouncer, a pool of connections in front of a PostgreSQL server |
//! | [`mariadb`] | a MariaDB server, or a MySQL server |
//! | [`etcd`] | an etcd cluster, Debian's version or a current one |
//! | [`zookeeper`] | a ZooKeeper ensemble |
//! | [`go`] | programs that are built with Go |
//! | [`proxy`] | a TCP proxy that cuts, swallows, delays |
#![forbid(unsafe_code)]

pub mod account;
pub mod certificates;
mod ensemble;
pub mod etcd;
pub mod family;
mod folder;
pub mod go;
pub mod http;
pub mod mariadb;
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

/// What goes wrong here is for a person who reads a failed test: a sentence is enough.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A server that could not be started, stopped or asked.
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

/// As it may stand in a URL as a password.
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
