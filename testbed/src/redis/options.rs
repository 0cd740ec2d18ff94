//! How a Redis server is to be started.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Redis;
use super::door::Login;
use crate::{Certificates, Result, folder, in_url, port};

/// The testbed's own user of servers that have users.
const ADMIN: &str = "testbed-of-lockwright";
const ADMIN_PASSWORD: &str = "testbed-of-lockwright";

/// How a [`Redis`] is to be started. What isn't set is as Redis has it, but nothing is persisted.
#[derive(Debug, Clone, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    password: Option<String>,
    users: Vec<User>,
    without_default_user: bool,
    tls: bool,
    wants_client_certificates: bool,
    /// Those of others, when servers trust each other.
    pub(super) certificates: Option<Arc<Certificates>>,
    /// The node time-out, in a Cluster.
    pub(super) cluster: Option<Duration>,
    /// Whether others tell it what it is: a master or a replica, and of whom.
    pub(super) is_told_its_role: bool,
}

#[derive(Debug, Clone)]
struct User {
    name: String,
    password: String,
    rules: String,
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

    /// A user with a password, and what it may do, as `ACL SETUSER` has it: `~app:* &* +@all`. The
    /// first one is who [`Redis::url`] names.
    ///
    /// The server then also has a user of the testbed's own.
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        let (name, password, rules) = (name.to_owned(), password.to_owned(), rules.to_owned());
        self.users.push(User { name, password, rules });
        self
    }

    /// Nobody gets in without naming a user.
    pub fn without_default_user(mut self) -> Self {
        self.without_default_user = true;
        self
    }

    /// Speaks nothing but TLS, to clients, replicas and other nodes, with a certificate for
    /// `localhost` and `127.0.0.1`. Who signed it is in [`Redis::authority`].
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Like [`Options::tls`], and clients must show a certificate too, as the one in
    /// [`Redis::client_certificate`].
    pub fn tls_with_client_certificates(mut self) -> Self {
        self.wants_client_certificates = true;
        self.tls()
    }

    /// What is thrown out when the memory is full: `noeviction`, `allkeys-lru`, …
    pub fn maxmemory_policy(self, policy: &str) -> Self {
        self.set("maxmemory-policy", policy)
    }

    /// Whether each write is logged, and when the log is synced: `always`, `everysec`, `no`.
    pub fn append_only(self, fsync: &str) -> Self {
        self.set("appendonly", "yes").set("appendfsync", fsync)
    }

    /// A replica of the given server. It speaks TLS if that one does, and trusts the same CA; it has
    /// a password or users only if it's told to.
    pub fn replica_of(mut self, master: &Redis) -> Self {
        if let Some(certificates) = &master.options.certificates {
            self.tls = true;
            self.certificates = Some(Arc::clone(certificates));
        }
        self.logs_in_as(master.options.login())
            .set("replicaof", format!("{} {}", Ipv4Addr::LOCALHOST, master.port()))
    }

    /// Starts it, and waits until it answers.
    pub fn start(mut self) -> Result<Redis> {
        self.make_certificates()?;
        port::retried(|| Redis::start_on(port::free(), self.cluster.map(|_| port::free()), &self))
    }

    /// For one of several servers that may become each other's replicas.
    pub(super) fn in_a_set(mut self) -> Result<Self> {
        self.make_certificates()?;
        self.is_told_its_role = true;
        let login = self.login();
        Ok(self.logs_in_as(login))
    }

    fn make_certificates(&mut self) -> Result<()> {
        if self.tls && self.certificates.is_none() {
            self.certificates = Some(Arc::new(Certificates::new()?));
        }
        Ok(())
    }

    fn logs_in_as(mut self, login: Option<Login>) -> Self {
        if let Some(login) = login {
            self = self.set("masterauth", quoted(&login.password));
            if let Some(user) = login.user {
                self = self.set("masteruser", quoted(&user));
            }
        }
        self
    }

    /// Who may do everything.
    pub(super) fn login(&self) -> Option<Login> {
        if self.has_admin() {
            let (user, password) = (Some(ADMIN.to_owned()), ADMIN_PASSWORD.to_owned());
            return Some(Login { user, password });
        }
        self.password.clone().map(|password| Login { user: None, password })
    }

    fn has_admin(&self) -> bool {
        self.without_default_user || !self.users.is_empty()
    }

    /// Who a client is, as a URL begins: `name:password@`.
    pub(super) fn in_url(&self) -> String {
        let (name, password) = match (self.users.first(), &self.password) {
            (Some(user), _) => (user.name.as_str(), &user.password),
            (None, Some(password)) => ("", password),
            (None, None) => return String::new(),
        };
        format!("{}:{}@", in_url(name), in_url(password))
    }

    /// How a URL begins.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls { "rediss" } else { "redis" }
    }

    /// Where the testbed gets in. A test may have a socket of its own, and there is only one.
    pub(super) fn socket(&self, folder: &Path) -> PathBuf {
        let own = self.settings.iter().rfind(|(name, _)| name == "unixsocket");
        own.map_or_else(|| folder.join("testbed.sock"), |(_, path)| path.into())
    }

    /// The lines of `redis.conf`.
    pub(super) fn lines(&self, port: u16, bus_port: Option<u16>, folder: &Path) -> Result<String> {
        let mut lines = String::from("bind 127.0.0.1\ndaemonize no\nsave \"\"\n");
        // A replica would wait 5 s for others to join it.
        lines += "repl-diskless-sync-delay 0\n";
        lines += &self.listening(port, &self.socket(folder))?;
        if let (Some(timeout), Some(bus_port)) = (self.cluster, bus_port) {
            let milliseconds = timeout.as_millis();
            let _ = writeln!(lines, "cluster-enabled yes\ncluster-announce-ip 127.0.0.1");
            let _ = writeln!(lines, "cluster-port {bus_port}\ncluster-config-file nodes.conf");
            let _ = writeln!(lines, "cluster-node-timeout {milliseconds}");
        }
        for (name, value) in &self.settings {
            let _ = writeln!(lines, "{name} {value}");
        }
        let mut user = |name: &str, password: &str, rules: &str| {
            let password = quoted(&format!(">{password}"));
            let _ = writeln!(lines, "user {} on {password} {rules}", quoted(name));
        };
        for User { name, password, rules } in &self.users {
            user(name, password, rules);
        }
        if self.has_admin() {
            user(ADMIN, ADMIN_PASSWORD, "~* &* +@all");
        }
        if self.without_default_user {
            lines += "user default off\n";
        }
        Ok(lines)
    }

    /// The lines that say where it listens, and how it speaks: a Sentinel's too.
    pub(super) fn listening(&self, port: u16, socket: &Path) -> Result<String> {
        let mut lines = format!("unixsocket {}\n", quoted(&folder::text(socket)?));
        let Some(certificates) = &self.certificates else {
            let _ = writeln!(lines, "port {port}");
            return Ok(lines);
        };
        let wanted = if self.wants_client_certificates { "yes" } else { "no" };
        let _ = writeln!(lines, "port 0\ntls-port {port}\ntls-auth-clients {wanted}");
        for (name, file) in [
            ("tls-ca-cert-file", certificates.authority()),
            ("tls-cert-file", certificates.certificate()),
            ("tls-key-file", certificates.key()),
        ] {
            let _ = writeln!(lines, "{name} {}", quoted(&folder::text(&file)?));
        }
        lines += "tls-replication yes\ntls-cluster yes\n";
        Ok(lines)
    }
}

/// A text as one argument of a line of `redis.conf`.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
