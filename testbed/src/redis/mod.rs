mod admin_conn;
mod cluster;
mod fleet;
mod options;
mod sentinels;
mod topology;

use std::path::Path;

use redis::{Connection, FromRedisValue};
use tempfile::TempDir;

pub use cluster::{Cluster, ClusterOptions, SlotMove};
pub use fleet::Fleet;
pub use options::Options;
pub use sentinels::{Sentinel, Sentinels, SentinelsOptions};

use crate::{Process, Program, Result, folder, methods, packages};
use admin_conn::AdminConn;

const CONFIGURATION: &str = "redis.conf";

/// The files that keep a server's role in [`Sentinels`] or a [`Cluster`].
const ROLE: [&str; 2] = [CONFIGURATION, "nodes.conf"];

#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
    bus_port: Option<u16>,
    options: Options,
    admin: AdminConn,
    folder: TempDir,
}

methods::process_methods!(Redis);
methods::port_methods!(Redis);
methods::options!(Redis, Options, "a line of `redis.conf`, whose words are arguments");
methods::tls!(Redis, Options, options);

impl Redis {
    fn start_on(port: u16, bus_port: Option<u16>, options: &Options) -> Result<Self> {
        let folder = folder::temporary("redis", None)?;
        let lines = options.lines(port, bus_port, folder.path());
        folder::write(&folder.path().join(CONFIGURATION), &lines, None)?;
        let admin = AdminConn { socket: options.socket(folder.path()), login: options.login() };
        let process = launch(folder.path(), &[CONFIGURATION], &admin)?;
        Ok(Self { process, port, bus_port, options: options.clone(), admin, folder })
    }

    /// The URL has the first user's login, or the password if there are no users.
    pub fn url(&self) -> String {
        self.url_through(self.port)
    }

    pub fn url_through(&self, port: u16) -> String {
        format!("{}://{}127.0.0.1:{port}/", self.options.scheme(), self.options.in_url())
    }

    /// In [`Sentinels`] or a [`Cluster`], a master that missed a failover restarts as a master,
    /// until the others make it a replica.
    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        self.process.stop();
        let folder = self.folder.path();
        let remembered: &[&str] = if self.options.is_told_its_role { &ROLE } else { &[] };
        if !keep_data {
            folder::empty_except(folder, remembered)?;
        }
        if remembered.is_empty() {
            let lines = self.options.lines(self.port, self.bus_port, folder);
            folder::write(&folder.join(CONFIGURATION), &lines, None)?;
        }
        self.process = launch(folder, &[CONFIGURATION], &self.admin)?;
        Ok(())
    }

    pub fn connection(&self) -> Result<Connection> {
        self.admin.connection()
    }

    pub fn command<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        self.admin.command(command)
    }

    pub fn info(&self, name: &str) -> Option<String> {
        let info: String = self.admin.ask(&["INFO"]).ok()?;
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
    }
}

fn launch(folder: &Path, arguments: &[&str], admin: &AdminConn) -> Result<Process> {
    let program = packages::find(&["usr/bin/redis-server", "usr/bin/valkey-server"]);
    let program = Program::new(program.as_deref().unwrap_or("redis-server"), "redis-server");
    let mut process = program.args(arguments.iter().copied()).start(folder)?;
    process.wait_until_ready(|| admin.answers().then_some(()))?;
    Ok(process)
}
