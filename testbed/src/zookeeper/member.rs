//! A member of a ZooKeeper ensemble.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::archive;
use super::options::{Options, SUPERUSER, SUPERUSER_DIGEST};
use crate::{Error, Process, Program, Result, folder, port};

pub(super) const JAVA_PACKAGE: &str = "default-jre-headless";
const PACKAGE: &str = "libzookeeper-java";

const JARS: &str = "/usr/share/java";

/// The first file's manifest refers to most of its dependencies.
const CLASS_PATH: [&str; 5] = [
    "zookeeper.jar",
    "netty-codec.jar",
    "netty-resolver.jar",
    "netty-transport-native-unix-common.jar",
    "slf4j-simple.jar",
];

/// JVM options for a small process that starts fast: simple collector, one compiler, few threads.
const SMALL: [&str; 5] =
    ["-Xmx64m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"];

/// The heap of ZooKeeper's own script.
const FULL_SIZE: &str = "-Xmx1000m";

const JAVA: [&str; 3] = [
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

const SMALL_SETTINGS: [&str; 4] = [
    "-Dzookeeper.nio.numSelectorThreads=1",
    "-Dzookeeper.nio.numWorkerThreads=2",
    "-Dzookeeper.commitProcessor.numWorkerThreads=1",
    // Instead of 64 MB per log: each restart creates a new log.
    "-Dzookeeper.preAllocSize=1024",
];

/// The longest interval, in milliseconds, after which an isolated member contacts the others again.
/// The default is a minute.
const ASKS_SOON: &str = "-Dzookeeper.fastleader.maxNotificationInterval=1000";

const CONFIGURATION: &str = "zoo.cfg";
const HOSTS: &str = "hosts";

/// The time limit of a request that is retried. The member may be frozen.
pub(super) const SOON: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) clients: u16,
    pub(super) secure: u16,
    pub(super) quorum: u16,
    pub(super) election: u16,
}

impl Ports {
    pub(super) fn find() -> Self {
        let (clients, secure) = (port::free(), port::free());
        Self { clients, secure, quorum: port::free(), election: port::free() }
    }
}

/// A member. Dropping it stops it.
#[derive(Debug)]
pub struct Member {
    pub(super) process: Process,
    pub(super) ports: Ports,
    pub(super) options: Arc<Options>,
    pub(super) is_observer: bool,
    pub(super) folder: TempDir,
}

impl Member {
    /// Returns the port for clients, the TLS port if it has one.
    pub fn port(&self) -> u16 {
        if self.options.has_tls() { self.ports.secure } else { self.ports.clients }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        local(self.port())
    }

    /// Returns whether it is an observer, without a vote.
    pub fn is_observer(&self) -> bool {
        self.is_observer
    }

    /// Returns the process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the settings file, which a [restart](Self::restart) reads again.
    pub fn settings(&self) -> PathBuf {
        self.folder.path().join(CONFIGURATION)
    }

    /// Restarts it on the same ports, even if it was stopped. Waits until it runs, but not for the
    /// ensemble: see [`super::ZooKeeper::wait_until_whole`].
    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        self.process.thaw();
        self.process.stop();
        if !keep_data {
            self.forget()?;
        }
        self.launch()
    }

    /// Shuts it down.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Kills it, like a crash.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Freezes it: connections stay open, and it doesn't answer.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// Resumes it.
    pub fn thaw(&self) {
        self.process.thaw();
    }

    /// Returns its answer to a four-letter command: `mntr`, `cons`, `dump`, `wchp`, `ruok`.
    ///
    /// # Errors
    /// If it doesn't answer.
    pub fn four_letter(&self, command: &str) -> Result<String> {
        ask(self.ports.clients, command, Duration::from_secs(5)).map_err(|error| {
            Error::new(format!("{command}: {error}; the log says:\n{}", self.process.log()))
        })
    }

    /// Runs ZooKeeper's command line client with this member, as the superuser, and returns its
    /// output. Example: `&["get", "-s", "/path"]`. This starts a JVM and a session.
    ///
    /// # Errors
    /// With the whole output, if it fails.
    pub fn cli(&self, arguments: &[&str]) -> Result<String> {
        let (user, password) = SUPERUSER;
        let mut script = format!("addauth digest {user}:{password}\n{}\n", arguments.join(" "));
        script += "quit\n";
        java()
            .args(SMALL)
            .args(["-cp", &class_path()?])
            .args(["org.apache.zookeeper.ZooKeeperMain", "-waitforconnection"])
            .args(["-timeout", "10000", "-server", &local(self.ports.clients).to_string()])
            .run(self.folder.path(), &script)
    }

    /// Returns whether it regards itself as the leader. A leader that was just cut off still does.
    pub fn is_leader(&self) -> bool {
        matches!(self.mode().as_deref(), Some("leader" | "standalone"))
    }

    /// Returns `leader`, `follower`, `observer` or `standalone`, or `None` during an election.
    pub fn mode(&self) -> Option<String> {
        self.line("srvr", "Mode: ")
    }

    /// Returns the id of the last transaction that it has seen.
    pub fn zxid(&self) -> Option<u64> {
        let zxid = self.line("srvr", "Zxid: 0x")?;
        u64::from_str_radix(&zxid, 16).ok()
    }

    /// Returns one of the values of `mntr`, or `None` if it doesn't answer.
    pub fn monitor(&self, name: &str) -> Option<String> {
        self.line("mntr", &format!("{name}\t"))
    }

    fn line(&self, command: &str, start: &str) -> Option<String> {
        let answer = ask(self.ports.clients, command, SOON).ok()?;
        answer.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned)
    }

    pub(super) fn data(&self) -> PathBuf {
        data(self.folder.path()).join("version-2")
    }

    pub(super) fn launch(&mut self) -> Result<()> {
        self.process = start(self.folder.path(), &self.options)?;
        self.wait_until_it_runs()
    }

    pub(super) fn wait_until_it_runs(&mut self) -> Result<()> {
        let (port, address) = (self.ports.clients, self.address());
        self.process.wait_until_ready(|| {
            ask(port, "ruok", SOON).ok()?;
            // The TLS port opens later.
            TcpStream::connect_timeout(&address, SOON).ok().map(drop)
        })
    }

    pub(super) fn forget(&self) -> Result<()> {
        let data = self.data();
        match fs::remove_dir_all(&data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::new(format!("{}: {error}", data.display())))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// Writes the files that a member reads at its start. `hosts` maps the names of the other members
/// to addresses.
pub(super) fn prepare(
    folder: &Path,
    number: usize,
    options: &Options,
    ports: Ports,
    members: &str,
    hosts: &str,
) -> Result<()> {
    let data = data(folder);
    fs::create_dir(&data).map_err(|error| Error::new(format!("{}: {error}", data.display())))?;
    folder::write(&data.join("myid"), &number.to_string(), None)?;
    folder::write(&folder.join(HOSTS), hosts, None)?;
    let lines = options.lines(ports, folder)?;
    let lines = format!("dataDir={}\n{lines}{members}", folder::text(&data)?);
    folder::write(&folder.join(CONFIGURATION), &lines, None)
}

pub(super) fn start(folder: &Path, options: &Options) -> Result<Process> {
    let archive = if options.is_full_size { None } else { archive::option() };
    start_with(folder, options, archive)
}

/// Starts a member whose JVM has one more option.
pub(super) fn start_with(
    folder: &Path,
    options: &Options,
    option: Option<String>,
) -> Result<Process> {
    let force_sync = if options.is_durable { "yes" } else { "no" };
    let sized = match options.is_full_size {
        true => java().arg(FULL_SIZE),
        false => java().args(SMALL).args(SMALL_SETTINGS),
    };
    sized
        .args(option)
        .arg(ASKS_SOON)
        .args(&options.properties)
        .arg(format!("-Dzookeeper.forceSync={force_sync}"))
        .arg(format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPERUSER_DIGEST}"))
        // Each member has its own addresses for the others, so that each pair has its own link.
        .arg(format!("-Djdk.net.hosts.file={}", folder::text(&folder.join(HOSTS))?))
        .args(["-cp", &class_path()?])
        .args(["org.apache.zookeeper.server.quorum.QuorumPeerMain", CONFIGURATION])
        .start(folder)
}

fn java() -> Program {
    Program::new("java", JAVA_PACKAGE).args(JAVA)
}

pub(super) fn class_path() -> Result<String> {
    let jars = CLASS_PATH.map(|jar| format!("{JARS}/{jar}"));
    match jars.iter().find(|jar| !Path::new(jar).is_file()) {
        None => Ok(jars.join(":")),
        Some(missing) => Err(Error::new(format!(
            "{missing} is not installed; on Debian or Ubuntu ZooKeeper and what it needs are in the \
             package {PACKAGE}, and `cargo xtask test`, run as root, installs it"
        ))),
    }
}

pub(super) fn ask(port: u16, command: &str, limit: Duration) -> std::io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&local(port), limit)?;
    connection.set_read_timeout(Some(limit))?;
    connection.write_all(command.as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}
