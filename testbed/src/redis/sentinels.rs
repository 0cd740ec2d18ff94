//! A master, its replicas, and the Sentinels that watch them.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use redis::FromRedisValue;
use tempfile::TempDir;

use super::door::{Door, Login};
use super::options::quoted;
use super::{Options, Redis, launch};
use crate::ensemble::{all_at_once, wait_until};
use crate::{Error, Process, Result, folder, port};

/// What the Sentinels call the master.
const MASTER: &str = "lockwright";
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
const CONFIGURATION: &str = "sentinel.conf";

/// In milliseconds, how often things happen that otherwise take seconds: how often Sentinels tell
/// each other what they know, ask each other about a master that seems down, and look at a server
/// that seems up; and how long one doesn't trust its clock after it was frozen.
const PERIODS: [&str; 8] =
    ["PUBLISH-PERIOD", "100", "ASK-PERIOD", "100", "INFO-PERIOD", "200", "TILT-PERIOD", "1000"];

/// How [`Sentinels`] are to be started.
#[derive(Debug, Clone)]
pub struct SentinelsOptions {
    server: Options,
    replicas: usize,
    down_after: Duration,
    failover_timeout: Duration,
    password: Option<String>,
}

impl SentinelsOptions {
    /// How each of the servers is started: persistence, TLS, users. With TLS the Sentinels speak it
    /// too.
    pub fn servers(mut self, options: Options) -> Self {
        self.server = options;
        self
    }

    /// How many replicas there are; else one.
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// How long a server may be silent before it's down; else 1 s: with less, a busy machine sees
    /// failovers that nobody asked for.
    pub fn down_after(mut self, limit: Duration) -> Self {
        self.down_after = limit;
        self
    }

    /// How long a failover may take; after twice that time a failed one is tried again. Else 3 s.
    pub fn failover_timeout(mut self, limit: Duration) -> Self {
        self.failover_timeout = limit;
        self
    }

    /// A password of the Sentinels themselves.
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Starts them all, and waits until each Sentinel knows all others and all servers, so that any
    /// two can have a replica take over.
    pub fn start(mut self) -> Result<Sentinels> {
        self.server = self.server.in_a_set()?;
        let master = self.server.clone().start()?;
        let (replicas, sentinels) = std::thread::scope(|scope| {
            let sentinels = scope
                .spawn(|| all_at_once(0..SENTINELS, |_| Sentinel::start(&self, master.port())));
            let replicas =
                all_at_once(0..self.replicas, |_| self.server.clone().replica_of(&master).start());
            (replicas, sentinels.join().expect("no panic"))
        });
        let mut servers = vec![master];
        servers.extend(replicas?);
        let this = Sentinels { servers, sentinels: sentinels? };
        this.wait_until_whole()?;
        Ok(this)
    }
}

/// A master with its replicas, and three Sentinels, of whom two decide. Dropping it ends them all.
///
/// The servers and the Sentinels can be killed, frozen and restarted one by one. Sentinel tells a
/// server what it is, and writes that into the server's configuration, so a restarted one remembers:
/// see [`Redis::restart`]. A master that comes back too late is made a replica after about a second:
/// that takes some 10 s with Sentinel's own settings.
#[derive(Debug)]
pub struct Sentinels {
    /// The servers; at first the master is the first one.
    pub servers: Vec<Redis>,
    /// The Sentinels.
    pub sentinels: Vec<Sentinel>,
}

impl Sentinels {
    /// One replica, and default settings.
    ///
    /// # Errors
    /// When `redis-server` isn't installed, or they don't find each other.
    pub fn start() -> Result<Self> {
        Self::options().start()
    }

    /// Others.
    pub fn options() -> SentinelsOptions {
        SentinelsOptions {
            server: Redis::options(),
            replicas: 1,
            down_after: Duration::from_secs(1),
            failover_timeout: Duration::from_secs(3),
            password: None,
        }
    }

    /// What the Sentinels call the master.
    pub fn master_name(&self) -> &'static str {
        MASTER
    }

    /// How to connect: who one is to the servers, the Sentinels' addresses, the master's name.
    pub fn url(&self) -> String {
        self.url_through(self.sentinels.iter().map(Sentinel::port))
    }

    /// How to connect through Sentinels, or proxies of them, that listen on `ports`.
    pub fn url_through(&self, ports: impl IntoIterator<Item = u16>) -> String {
        let hosts: Vec<_> = ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let options = &self.servers[0].options;
        let (scheme, user) = (options.scheme(), options.in_url());
        format!("{scheme}+sentinel://{user}{}/{MASTER}", hosts.join(","))
    }

    /// The index of the master, as two Sentinels at least say now.
    ///
    /// # Errors
    /// When no two answer and agree.
    pub fn master(&self) -> Result<usize> {
        let named: Vec<usize> = self.opinions().into_iter().flatten().collect();
        named
            .iter()
            .find(|index| named.iter().filter(|other| other == index).count() >= QUORUM)
            .copied()
            .ok_or_else(|| Error::new("no two Sentinels agree on the master"))
    }

    /// Which server each Sentinel says is the master; none of those that don't answer.
    fn opinions(&self) -> Vec<Option<usize>> {
        let opinion = |sentinel: &Sentinel| {
            let asked = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER];
            let (_, port): (String, u16) = sentinel.door.ask(&asked).ok()?;
            self.servers.iter().position(|server| server.port == port)
        };
        self.sentinels.iter().map(opinion).collect()
    }

    /// Waits until another server than `old` is the master: it says so itself, and so do all
    /// Sentinels that answer, two at least. Returns its index.
    ///
    /// # Errors
    /// When that takes longer than a minute.
    pub fn wait_for_failover(&self, old: usize) -> Result<usize> {
        wait_until("the failover", || {
            let master = self.master().ok().filter(|master| *master != old)?;
            let agreed = self.opinions().into_iter().flatten().all(|named| named == master);
            let role = self.servers[master].info("role")?;
            (agreed && role == "master").then_some(master)
        })
    }

    /// Waits until nothing is amiss: each Sentinel sees all others and all servers, and each
    /// replica follows the master. Then the next failover can come.
    ///
    /// # Errors
    /// When that takes longer than a minute, as it does when one of them is dead.
    pub fn wait_until_whole(&self) -> Result<()> {
        wait_until("that all know each other", || {
            let master = self.master().ok()?;
            self.sentinels.iter().all(|one| one.knows_all(self.servers.len() - 1)).then_some(())?;
            let follows = |(index, server): (usize, &Redis)| {
                index == master || server.info("master_link_status").as_deref() == Some("up")
            };
            self.servers.iter().enumerate().all(follows).then_some(())
        })
    }
}

/// One Sentinel. Dropping it ends it.
#[derive(Debug)]
pub struct Sentinel {
    process: Process,
    port: u16,
    door: Door,
    folder: TempDir,
}

impl Sentinel {
    fn start(options: &SentinelsOptions, master: u16) -> Result<Self> {
        port::retried(|| Self::start_on(port::free(), options, master))
    }

    fn start_on(port: u16, options: &SentinelsOptions, master: u16) -> Result<Self> {
        let folder = folder::temporary("sentinel", None)?;
        let socket = folder.path().join("testbed.sock");
        let lines = options.lines(port, master, &socket)?;
        folder::write(&folder.path().join(CONFIGURATION), &lines, None)?;
        let login = options.password.clone();
        let login = login.map(|password| Login { user: None, password });
        let door = Door { socket, login };
        Ok(Self { process: launch_sentinel(folder.path(), &door)?, port, door, folder })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The process: its id, its log.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Starts it again on the same port, after a [`Sentinel::stop`] or [`Sentinel::kill`] too, with
    /// all that it knew.
    pub fn restart(&mut self) -> Result<()> {
        self.process.thaw();
        self.process.stop();
        self.process = launch_sentinel(self.folder.path(), &self.door)?;
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

    /// Sends one command on a new connection.
    pub fn command<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        self.door.command(command)
    }

    fn knows_all(&self, replicas: usize) -> bool {
        self.sees(&["SENTINEL", "REPLICAS", MASTER], replicas, "slave")
            && self.sees(&["SENTINEL", "SENTINELS", MASTER], SENTINELS - 1, "sentinel")
            && self.sees(&["SENTINEL", "MASTERS"], 1, "master")
    }

    /// Whether it sees so many, and nothing amiss with any.
    fn sees(&self, command: &[&str], count: usize, kind: &str) -> bool {
        let found: Result<Vec<HashMap<String, String>>> = self.door.ask(command);
        // Whoever is down, disconnected, or about to be replaced has more flags.
        let is_well = |one: &HashMap<String, String>| {
            one.get("flags").is_some_and(|flags| flags == kind)
                && one.get("master-link-status").is_none_or(|status| status == "ok")
        };
        found.is_ok_and(|found| found.len() == count && found.iter().all(is_well))
    }
}

fn launch_sentinel(folder: &Path, door: &Door) -> Result<Process> {
    let process = launch(folder, &[CONFIGURATION, "--sentinel"], door)?;
    let mut command = vec!["SENTINEL", "DEBUG"];
    command.extend(PERIODS);
    door.command::<()>(&command)?;
    Ok(process)
}

impl SentinelsOptions {
    /// The lines of `sentinel.conf`, which Sentinel writes to later.
    fn lines(&self, port: u16, master: u16, socket: &Path) -> Result<String> {
        let mut lines = String::from("bind 127.0.0.1\ndaemonize no\nprotected-mode no\n");
        lines += &self.server.listening(port, socket)?;
        if let Some(password) = &self.password {
            let _ = writeln!(lines, "requirepass {}", quoted(password));
        }
        let down_after = self.down_after.as_millis();
        let failover_timeout = self.failover_timeout.as_millis();
        for line in [
            "resolve-hostnames no".to_owned(),
            "announce-ip 127.0.0.1".to_owned(),
            format!("announce-port {port}"),
            format!("monitor {MASTER} 127.0.0.1 {master} {QUORUM}"),
            format!("down-after-milliseconds {MASTER} {down_after}"),
            format!("failover-timeout {MASTER} {failover_timeout}"),
        ] {
            let _ = writeln!(lines, "sentinel {line}");
        }
        if let Some(Login { user, password }) = self.server.login() {
            let _ = writeln!(lines, "sentinel auth-pass {MASTER} {}", quoted(&password));
            if let Some(user) = user {
                let _ = writeln!(lines, "sentinel auth-user {MASTER} {}", quoted(&user));
            }
        }
        Ok(lines)
    }
}
