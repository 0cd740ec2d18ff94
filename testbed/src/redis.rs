//! A Redis server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use redis::{Connection, FromRedisValue};
use tempfile::TempDir;

use crate::{Error, Process, Program, Result, folder, port};

/// How a [`Redis`] is to be started. What isn't set is as Redis has it, but nothing is persisted.
#[derive(Debug, Clone, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    password: Option<String>,
}

impl Options {
    /// Any setting, as a line of `redis.conf` would have it: several words are several arguments.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// A password for the default user.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.set("requirepass", quoted(password))
    }

    /// What is thrown out when the memory is full: `noeviction`, `allkeys-lru`, …
    pub fn maxmemory_policy(self, policy: &str) -> Self {
        self.set("maxmemory-policy", policy)
    }

    /// Whether each write is logged, and when the log is synced: `always`, `everysec`, `no`.
    pub fn append_only(self, fsync: &str) -> Self {
        self.set("appendonly", "yes").set("appendfsync", fsync)
    }

    /// A replica of the given server.
    pub fn replica_of(self, master: &Redis) -> Self {
        let this = self.set("replicaof", format!("{} {}", Ipv4Addr::LOCALHOST, master.port()));
        match &master.options.password {
            Some(password) => this.set("masterauth", quoted(password)),
            None => this,
        }
    }

    /// Starts it, and waits until it answers.
    pub fn start(self) -> Result<Redis> {
        // Between finding a free port and listening on it, another process may take it.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Redis::start_on(port::free(), &self) {
                Err(error) if attempts < 5 && error.0.contains("Address already in use") => {}
                other => return other,
            }
        }
    }
}

/// A Redis server of our own. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
    options: Options,
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

    fn start_on(port: u16, options: &Options) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("lockwright-redis-")
            .tempdir()
            .map_err(|error| Error::new(format!("no temporary folder: {error}")))?;
        let process = launch(port, options, folder.path())?;
        Ok(Self { process, port, options: options.clone(), folder })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// How to connect, with the password if it has one.
    pub fn url(&self) -> String {
        self.url_through(self.port)
    }

    /// How to connect through a proxy that listens on `port`.
    pub fn url_through(&self, port: u16) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{port}/"),
            None => format!("redis://127.0.0.1:{port}/"),
        }
    }

    /// The process: its id, its log.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Starts it again on the same port, after a [`Redis::stop`] or [`Redis::kill`] too.
    ///
    /// With `keep_data` it is stopped in an orderly way and comes back with whatever its
    /// persistence kept: with none configured, nothing. Without, its data are removed.
    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        self.process.thaw();
        self.process.stop();
        if !keep_data {
            folder::empty(self.folder.path())?;
        }
        self.process = launch(self.port, &self.options, self.folder.path())?;
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

    /// A connection of the test's own, for looking behind the scenes.
    pub fn connection(&self) -> Result<Connection> {
        redis::Client::open(self.url())
            .and_then(|client| client.get_connection_with_timeout(Duration::from_secs(5)))
            .map_err(|error| Error::new(format!("redis on port {}: {error}", self.port)))
    }

    /// Sends one command on a new connection: `server.command::<String>(&["GET", "x"])`.
    pub fn command<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        let (name, arguments) = command.split_first().expect("a command has a name");
        redis::cmd(name)
            .arg(arguments)
            .query(&mut self.connection()?)
            .map_err(|error| Error::new(format!("{}: {error}", command.join(" "))))
    }
}

fn launch(port: u16, options: &Options, folder: &Path) -> Result<Process> {
    let mut settings = format!("bind 127.0.0.1\nport {port}\ndaemonize no\nsave \"\"\n");
    // A replica would wait 5 s for others to join it.
    settings.push_str("repl-diskless-sync-delay 0\n");
    for (name, value) in &options.settings {
        settings.push_str(&format!("{name} {value}\n"));
    }
    let file = folder.join("redis.conf");
    std::fs::write(&file, settings)
        .map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
    let program = Program::new("redis-server", "redis-server").arg("redis.conf");
    let mut process = program.start(folder)?;
    process.wait_until_ready(|| answers(port, options.password.as_deref()))?;
    Ok(process)
}

/// A text as one argument of a line of `redis.conf`.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Asks in the plainest way: a server that has loaded its data answers `PONG`. One that wants a
/// password says that before anything else, so it must be told ours.
fn answers(port: u16, password: Option<&str>) -> Option<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    if let Some(password) = password {
        socket.write_all(format!("AUTH {}\r\n", quoted(password)).as_bytes()).ok()?;
        socket.read_exact(&mut [0; 5]).ok()?;
    }
    socket.write_all(b"PING\r\n").ok()?;
    let mut answer = [0; 7];
    socket.read_exact(&mut answer).ok()?;
    // It may have a password that was set in another way.
    matches!(&answer, b"+PONG\r\n" | b"-NOAUTH").then_some(())
}
