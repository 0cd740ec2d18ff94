//! How an etcd cluster is to be started.

use std::sync::Arc;

use super::{Etcd, Version};
use crate::folder::text;
use crate::{Certificates, Result, port};

/// The testbed's own user of clusters that have users.
const ADMIN: (&str, &str) = ("root", "testbed-of-lockwright");

/// How an [`Etcd`] is to be started. What isn't set is as etcd has it, but a current one doesn't wait
/// for the disk.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) version: Version,
    pub(super) members: usize,
    flags: Vec<(String, String)>,
    pub(super) user: Option<User>,
    tls: bool,
    wants_client_certificates: bool,
    is_durable: bool,
    /// Those of all members, once they are made.
    pub(super) certificates: Option<Arc<Certificates>>,
}

#[derive(Debug, Clone)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    pub(super) prefix: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: Version::Debian,
            members: 3,
            flags: Vec::new(),
            user: None,
            tls: false,
            wants_client_certificates: false,
            is_durable: false,
            certificates: None,
        }
    }
}

impl Options {
    /// Which etcd; else Debian's.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// How many members; else three.
    pub fn members(mut self, count: usize) -> Self {
        self.members = count;
        self
    }

    /// Any flag, without its dashes. The last one of a name counts.
    pub fn set(mut self, flag: impl Into<String>, value: impl Into<String>) -> Self {
        self.flags.push((flag.into(), value.into()));
        self
    }

    /// How often the leader tells the others that it lives, in milliseconds; else 100.
    pub fn heartbeat(self, milliseconds: u32) -> Self {
        self.set("heartbeat-interval", milliseconds.to_string())
    }

    /// How long a leader may be silent, in milliseconds; else 1000. The shortest lease is one and a
    /// half times as long, rounded up to seconds. A busy machine elects leaders that nobody asked
    /// for when this is short.
    pub fn election(self, milliseconds: u32) -> Self {
        self.set("election-timeout", milliseconds.to_string())
    }

    /// A user with a password, who may read and write the keys that begin with `prefix`; with an
    /// empty one, all. Nobody gets in without a user then.
    pub fn user(mut self, name: &str, password: &str, prefix: &str) -> Self {
        let (name, password, prefix) = (name.to_owned(), password.to_owned(), prefix.to_owned());
        self.user = Some(User { name, password, prefix });
        self
    }

    /// Speaks nothing but TLS to clients, with a certificate for `localhost` and `127.0.0.1`. Who
    /// signed it is in [`Etcd::authority`].
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Like [`Options::tls`], and clients must show a certificate too, as the one in
    /// [`Etcd::client_certificate`].
    pub fn tls_with_client_certificates(mut self) -> Self {
        self.wants_client_certificates = true;
        self.tls()
    }

    /// Waits for the disk, as a cluster with data that matter does. (Debian's can't do otherwise.)
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Starts it, and waits until all members answer and agree on a leader.
    ///
    /// # Errors
    /// When `etcd` isn't installed, or can't be built, or doesn't answer.
    pub fn start(mut self) -> Result<Etcd> {
        if self.tls && self.certificates.is_none() {
            self.certificates = Some(Arc::new(Certificates::new()?));
        }
        port::retried(|| Etcd::start_with(&self))
    }

    /// `http` or `https`.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// The flags that all members have.
    pub(super) fn flags(&self) -> Result<Vec<String>> {
        let mut flags = vec!["--logger=zap".to_owned(), "--log-level=warn".to_owned()];
        if self.version == Version::Current && !self.is_durable {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        if self.user.is_some() {
            // The least, so that a login costs milliseconds.
            flags.push("--bcrypt-cost=4".to_owned());
        }
        if let Some(certificates) = &self.certificates {
            flags.push(format!("--cert-file={}", text(&certificates.certificate())?));
            flags.push(format!("--key-file={}", text(&certificates.key())?));
            if self.wants_client_certificates {
                flags.push("--client-cert-auth".to_owned());
                flags.push(format!("--trusted-ca-file={}", text(&certificates.authority())?));
            }
        }
        flags.extend(self.flags.iter().map(|(flag, value)| format!("--{flag}={value}")));
        Ok(flags)
    }

    /// How `etcdctl` gets in.
    pub(super) fn login(&self) -> Result<Vec<String>> {
        let mut flags = Vec::new();
        if let Some(certificates) = &self.certificates {
            flags.push(format!("--cacert={}", text(&certificates.authority())?));
            flags.push(format!("--cert={}", text(&certificates.certificate())?));
            flags.push(format!("--key={}", text(&certificates.key())?));
        }
        Ok(flags)
    }

    /// Who the testbed is, once there are users.
    pub(super) fn admin() -> (&'static str, &'static str) {
        ADMIN
    }
}
