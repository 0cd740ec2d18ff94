use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use redis::FromRedisValue;
use tempfile::TempDir;

use super::admin_conn::{AdminConn, Login};
use super::options::quoted;
use super::{Options, Redis, launch};
use crate::ensemble::{all_at_once, wait_until};
use crate::{Error, Process, Result, folder, methods, port};

const MASTER: &str = "lockwright";
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
const CONFIGURATION: &str = "sentinel.conf";

/// Milliseconds, shorter than by default.
const PERIODS: [&str; 8] =
    ["PUBLISH-PERIOD", "100", "ASK-PERIOD", "100", "INFO-PERIOD", "200", "TILT-PERIOD", "1000"];

#[derive(Debug, Clone)]
pub struct SentinelsOptions {
    server: Options,
    replicas: usize,
    down_after: Duration,
    password: Option<String>,
}

methods::setters! { SentinelsOptions {
    pub fn servers(options: Options) sets server to options;
    /// By default one.
    pub fn replicas(count: usize) sets replicas to count;
    /// How long a server may be silent before it counts as down; 1 s by default. Shorter times
    /// cause needless failovers.
    pub fn down_after(limit: Duration) sets down_after to limit;
    pub fn sentinel_password(password: &str) sets password to Some(password.to_owned());
} }

impl SentinelsOptions {
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

/// A master, its replicas, and three Sentinels with a quorum of two. A server that
/// [restarts](Redis::restart) keeps its role, until the Sentinels make an old master a replica,
/// about a second later.
#[derive(Debug)]
pub struct Sentinels {
    /// The first server starts as the master.
    pub servers: Vec<Redis>,
    pub sentinels: Vec<Sentinel>,
}

impl Sentinels {
    pub fn start() -> Result<Self> {
        Self::options().start()
    }

    pub fn options() -> SentinelsOptions {
        SentinelsOptions {
            server: Redis::options(),
            replicas: 1,
            down_after: Duration::from_secs(1),
            password: None,
        }
    }

    pub fn master_name(&self) -> &'static str {
        MASTER
    }

    pub fn url(&self) -> String {
        self.url_through(self.sentinels.iter().map(Sentinel::port))
    }

    pub fn url_through(&self, ports: impl IntoIterator<Item = u16>) -> String {
        let hosts: Vec<_> = ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let options = &self.servers[0].options;
        let (scheme, user) = (options.scheme(), options.in_url());
        format!("{scheme}+sentinel://{user}{}/{MASTER}", hosts.join(","))
    }

    pub fn master(&self) -> Result<usize> {
        let named: Vec<usize> = self.opinions().into_iter().flatten().collect();
        named
            .iter()
            .find(|index| named.iter().filter(|other| other == index).count() >= QUORUM)
            .copied()
            .ok_or_else(|| Error::new("no two Sentinels agree on the master"))
    }

    fn opinions(&self) -> Vec<Option<usize>> {
        let opinion = |sentinel: &Sentinel| {
            let asked = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER];
            let (_, port): (String, u16) = sentinel.admin.ask(&asked).ok()?;
            self.servers.iter().position(|server| server.port == port)
        };
        self.sentinels.iter().map(opinion).collect()
    }

    /// Waits for a master other than `old`, on which all answering Sentinels and the server itself
    /// agree.
    pub fn wait_for_failover(&self, old: usize) -> Result<usize> {
        wait_until("the failover", || {
            let master = self.master().ok().filter(|master| *master != old)?;
            let agreed = self.opinions().into_iter().flatten().all(|named| named == master);
            let role = self.servers[master].info("role")?;
            (agreed && role == "master").then_some(master)
        })
    }

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

#[derive(Debug)]
pub struct Sentinel {
    process: Process,
    port: u16,
    admin: AdminConn,
    folder: TempDir,
}

methods::process_methods!(Sentinel);
methods::port_methods!(Sentinel);

impl Sentinel {
    fn start(options: &SentinelsOptions, master: u16) -> Result<Self> {
        port::retried(|| Self::start_on(port::free(), options, master))
    }

    fn start_on(port: u16, options: &SentinelsOptions, master: u16) -> Result<Self> {
        let folder = folder::temporary("sentinel", None)?;
        let socket = folder.path().join("testbed.sock");
        let lines = options.lines(port, master, &socket);
        folder::write(&folder.path().join(CONFIGURATION), &lines, None)?;
        let login = options.password.clone();
        let login = login.map(|password| Login { user: None, password });
        let admin = AdminConn { socket, login };
        Ok(Self { process: launch_sentinel(folder.path(), &admin)?, port, admin, folder })
    }

    pub fn restart(&mut self) -> Result<()> {
        self.process.stop();
        self.process = launch_sentinel(self.folder.path(), &self.admin)?;
        Ok(())
    }

    pub fn command<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        self.admin.command(command)
    }

    fn knows_all(&self, replicas: usize) -> bool {
        self.sees(&["SENTINEL", "REPLICAS", MASTER], replicas, "slave")
            && self.sees(&["SENTINEL", "SENTINELS", MASTER], SENTINELS - 1, "sentinel")
            && self.sees(&["SENTINEL", "MASTERS"], 1, "master")
    }

    fn sees(&self, command: &[&str], count: usize, kind: &str) -> bool {
        let found: Result<Vec<HashMap<String, String>>> = self.admin.ask(command);
        // A process that is down or in a failover has further flags.
        let is_well = |one: &HashMap<String, String>| {
            one.get("flags").is_some_and(|flags| flags == kind)
                && one.get("master-link-status").is_none_or(|status| status == "ok")
        };
        found.is_ok_and(|found| found.len() == count && found.iter().all(is_well))
    }
}

fn launch_sentinel(folder: &Path, admin: &AdminConn) -> Result<Process> {
    let process = launch(folder, &[CONFIGURATION, "--sentinel"], admin)?;
    let mut command = vec!["SENTINEL", "DEBUG"];
    command.extend(PERIODS);
    admin.command::<()>(&command)?;
    Ok(process)
}

impl SentinelsOptions {
    fn lines(&self, port: u16, master: u16, socket: &Path) -> String {
        let mut lines = String::from("bind 127.0.0.1\ndaemonize no\nprotected-mode no\n");
        lines += &self.server.listening(port, socket);
        if let Some(password) = &self.password {
            let _ = writeln!(lines, "requirepass {}", quoted(password));
        }
        let down_after = self.down_after.as_millis();
        for line in [
            "resolve-hostnames no".to_owned(),
            "announce-ip 127.0.0.1".to_owned(),
            format!("announce-port {port}"),
            format!("monitor {MASTER} 127.0.0.1 {master} {QUORUM}"),
            format!("down-after-milliseconds {MASTER} {down_after}"),
            // Sentinels retry a failed failover after twice these milliseconds.
            format!("failover-timeout {MASTER} 3000"),
        ] {
            let _ = writeln!(lines, "sentinel {line}");
        }
        if let Some(Login { user, password }) = self.server.login() {
            let _ = writeln!(lines, "sentinel auth-pass {MASTER} {}", quoted(&password));
            if let Some(user) = user {
                let _ = writeln!(lines, "sentinel auth-user {MASTER} {}", quoted(&user));
            }
        }
        lines
    }
}
