//! A Redis server, and sets of them: independent ones, a Sentinel set, a Cluster.

mod cluster;
mod door;
mod fleet;
mod options;
mod sentinels;
mod topology;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use redis::{Connection, FromRedisValue};
use tempfile::TempDir;

pub use cluster::{Cluster, ClusterOptions, SlotMove};
pub use fleet::Fleet;
pub use options::Options;
pub use sentinels::{Sentinel, Sentinels, SentinelsOptions};

use crate::{Certificates, Process, Program, Result, folder, packages};
use door::Door;

const CONFIGURATION: &str = "redis.conf";

/// What a server that is told its role remembers of it: by Sentinel, and in a Cluster.
const ROLE: [&str; 2] = [CONFIGURATION, "nodes.conf"];

/// A Redis server of our own. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
    bus_port: Option<u16>,
    options: Options,
    door: Door,
    folder: TempDir,
}

impl Redis {
    /// One with default settings and no persistence.
    ///
    /// # Errors
    /// When `redis-server` isn't installed, or doesn't answer.
    pub fn start() -> Result<Self> {
        Self::options().start()
    }

    /// One with other settings.
    pub fn options() -> Options {
        Options::default()
    }

    fn start_on(port: u16, bus_port: Option<u16>, options: &Options) -> Result<Self> {
        let folder = folder::temporary("redis", None)?;
        write_configuration(port, bus_port, options, folder.path())?;
        let door = Door { socket: options.socket(folder.path()), login: options.login() };
        let process = launch(folder.path(), &[CONFIGURATION], &door)?;
        Ok(Self { process, port, bus_port, options: options.clone(), door, folder })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// How to connect, with its first user, or with the password if it has one.
    pub fn url(&self) -> String {
        self.url_through(self.port)
    }

    /// How to connect through a proxy that listens on `port`.
    pub fn url_through(&self, port: u16) -> String {
        format!("{}://{}127.0.0.1:{port}/", self.options.scheme(), self.options.in_url())
    }

    /// The file with the certificate of the CA that signed the server's.
    ///
    /// # Panics
    /// When it doesn't speak TLS.
    pub fn authority(&self) -> PathBuf {
        self.certificates().authority()
    }

    /// The files with a client's certificate and its key, for
    /// [`Options::tls_with_client_certificates`].
    ///
    /// # Panics
    /// When it doesn't speak TLS.
    pub fn client_certificate(&self) -> (PathBuf, PathBuf) {
        (self.certificates().certificate(), self.certificates().key())
    }

    fn certificates(&self) -> &Certificates {
        self.options.certificates.as_ref().expect("it speaks TLS")
    }

    /// The process: its id, its log.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Starts it again on the same port, after a [`Redis::stop`] or [`Redis::kill`] too.
    ///
    /// With `keep_data` it is stopped in an orderly way and comes back with whatever its
    /// persistence kept: with none configured, nothing. Without, its data are removed.
    ///
    /// In a [`Sentinels`] or a [`Cluster`] it remembers in any case what it was told it is, a
    /// master or a replica: an old master that was dead when another was elected comes back as a
    /// master, until it is told better.
    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        self.process.thaw();
        self.process.stop();
        let folder = self.folder.path();
        let remembered: &[&str] = if self.options.is_told_its_role { &ROLE } else { &[] };
        if !keep_data {
            folder::empty_except(folder, remembered)?;
        }
        if remembered.is_empty() {
            write_configuration(self.port, self.bus_port, &self.options, folder)?;
        }
        self.process = launch(folder, &[CONFIGURATION], &self.door)?;
        Ok(())
    }

    /// Ends it in an orderly way.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it in its tracks: its connections stay open, and it answers nothing.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.thaw();
    }

    /// A connection of the test's own, for looking behind the scenes: it may do everything, and is
    /// no TCP connection.
    pub fn connection(&self) -> Result<Connection> {
        self.door.connection()
    }

    /// Sends one command on a new connection: `server.command::<String>(&["GET", "x"])`.
    pub fn command<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        self.door.command(command)
    }

    /// A line of what `INFO` says; none too when it doesn't answer.
    fn info(&self, name: &str) -> Option<String> {
        let info: String = self.door.ask(&["INFO"]).ok()?;
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
    }
}

fn write_configuration(
    port: u16,
    bus_port: Option<u16>,
    options: &Options,
    folder: &Path,
) -> Result<()> {
    let lines = options.lines(port, bus_port, folder)?;
    folder::write(&folder.join(CONFIGURATION), &lines, None)
}

fn launch(folder: &Path, arguments: &[&str], door: &Door) -> Result<Process> {
    let program = match packages::find(&["usr/bin/redis-server", "usr/bin/valkey-server"]) {
        Some(binary) => folder::text(&binary)?,
        None => "redis-server".to_owned(),
    };
    let program = Program::new(program, "redis-server").args(arguments.iter().copied());
    let mut process = program.start(folder)?;
    process.wait_until_ready(|| door.answers().then_some(()))?;
    Ok(process)
}
