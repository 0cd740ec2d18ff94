use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::options::{Options, SUPERUSER_DIGEST};
use crate::port::local;
use crate::{Error, Process, Program, Result, folder, http, port};

pub(super) const JAVA_PACKAGE: &str = "default-jre-headless";
const PACKAGE: &str = "libzookeeper-java";

const JARS: &str = "/usr/share/java";

/// The manifest of `zookeeper.jar` adds the rest.
const CLASS_PATH: [&str; 5] = [
    "zookeeper.jar",
    "netty-codec.jar",
    "netty-resolver.jar",
    "netty-transport-native-unix-common.jar",
    "slf4j-simple.jar",
];

pub(super) const SMALL: [&str; 5] =
    ["-Xmx64m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"];

/// The heap size of ZooKeeper's own start script.
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
    // In KiB. The default is 64 MB, and each restart creates a log.
    "-Dzookeeper.preAllocSize=1024",
];

/// In milliseconds, the longest pause before an isolated member contacts others again. The default
/// is a minute.
const ASKS_SOON: &str = "-Dzookeeper.fastleader.maxNotificationInterval=1000";

pub(super) const CONFIGURATION: &str = "zoo.cfg";
const HOSTS: &str = "hosts";

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

pub(super) fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// `hosts` maps the other members' names to addresses.
pub(super) fn prepare(
    folder: &Path,
    number: usize,
    options: &Options,
    ports: Ports,
    members: &str,
    hosts: &str,
) -> Result<()> {
    let data = data(folder);
    fs::create_dir(&data)?;
    folder::write(&data.join("myid"), &number.to_string(), None)?;
    folder::write(&folder.join(HOSTS), hosts, None)?;
    let lines = options.lines(ports, folder)?;
    let lines = format!("dataDir={}\n{lines}{members}", folder::text(&data));
    folder::write(&folder.join(CONFIGURATION), &lines, None)
}

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
        // Each pair of members has its own proxies.
        .arg(format!("-Djdk.net.hosts.file={}", folder::text(&folder.join(HOSTS))))
        .args(["-cp", &class_path()?])
        .args(["org.apache.zookeeper.server.quorum.QuorumPeerMain", CONFIGURATION])
        .start(folder)
}

pub(super) fn java() -> Program {
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
    let answer = http::exchange(local(port), command, limit)?;
    if answer.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}
