use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Redis;
use super::admin_conn::Login;
use crate::certificates::Tls;
use crate::{Result, folder, in_url, port};

const ADMIN: &str = "testbed-of-lockwright";
const ADMIN_PASSWORD: &str = "testbed-of-lockwright";

/// Options, by default without persistence.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(super) settings: Vec<(String, String)>,
    password: Option<String>,
    users: Vec<User>,
    without_default_user: bool,
    pub(super) tls: Tls,
    pub(super) cluster: Option<Duration>,
    pub(super) is_told_its_role: bool,
}

#[derive(Debug, Clone)]
struct User {
    name: String,
    password: String,
    rules: String,
}

impl Options {
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.set("requirepass", quoted(password))
    }

    /// Adds a user with rules as in `ACL SETUSER`.
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        let (name, password, rules) = (name.to_owned(), password.to_owned(), rules.to_owned());
        self.users.push(User { name, password, rules });
        self
    }

    pub fn without_default_user(mut self) -> Self {
        self.without_default_user = true;
        self
    }

    /// `fsync` is `always`, `everysec` or `no`.
    pub fn append_only(self, fsync: &str) -> Self {
        self.set("appendonly", "yes").set("appendfsync", fsync)
    }

    /// Makes the server a replica, with the master's TLS and CA, but its own password and users.
    pub fn replica_of(mut self, master: &Redis) -> Self {
        self.tls.use_ca_of(&master.options.tls);
        self.logs_in_as(master.options.login())
            .set("replicaof", format!("{} {}", Ipv4Addr::LOCALHOST, master.port()))
    }

    pub fn start(mut self) -> Result<Redis> {
        self.tls.make_certificates()?;
        port::retried(|| Redis::start_on(port::free(), self.cluster.map(|_| port::free()), &self))
    }

    pub(super) fn in_a_set(mut self) -> Result<Self> {
        self.tls.make_certificates()?;
        self.is_told_its_role = true;
        let login = self.login();
        Ok(self.logs_in_as(login))
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

    pub(super) fn in_url(&self) -> String {
        let (name, password) = match (self.users.first(), &self.password) {
            (Some(user), _) => (user.name.as_str(), &user.password),
            (None, Some(password)) => ("", password),
            (None, None) => return String::new(),
        };
        format!("{}:{}@", in_url(name), in_url(password))
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_on { "rediss" } else { "redis" }
    }

    pub(super) fn socket(&self, folder: &Path) -> PathBuf {
        let own = self.settings.iter().rfind(|(name, _)| name == "unixsocket");
        own.map_or_else(|| folder.join("testbed.sock"), |(_, path)| path.into())
    }

    pub(super) fn lines(&self, port: u16, bus_port: Option<u16>, folder: &Path) -> String {
        let mut lines = String::from("bind 127.0.0.1\ndaemonize no\nsave \"\"\n");
        // By default, a master waits 5 s for more replicas before it synchronizes one.
        lines += "repl-diskless-sync-delay 0\n";
        lines += &self.listening(port, &self.socket(folder));
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
        lines
    }

    pub(super) fn listening(&self, port: u16, socket: &Path) -> String {
        let mut lines = format!("unixsocket {}\n", quoted(&folder::text(socket)));
        let Some(certificates) = &self.tls.certificates else {
            let _ = writeln!(lines, "port {port}");
            return lines;
        };
        let wanted = if self.tls.wants_client_certificates { "yes" } else { "no" };
        let _ = writeln!(lines, "port 0\ntls-port {port}\ntls-auth-clients {wanted}");
        for (name, file) in [
            ("tls-ca-cert-file", certificates.authority()),
            ("tls-cert-file", certificates.certificate()),
            ("tls-key-file", certificates.key()),
        ] {
            let _ = writeln!(lines, "{name} {}", quoted(&folder::text(&file)));
        }
        lines += "tls-replication yes\ntls-cluster yes\n";
        lines
    }
}

pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
