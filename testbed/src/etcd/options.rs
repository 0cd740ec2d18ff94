use std::path::Path;

use crate::certificates::Tls;
use crate::folder::text;
use crate::{Program, Result, go, methods};

pub(super) const ADMIN: (&str, &str) = ("root", "testbed-of-lockwright");

/// [`Version::Debian`] syncs to disk, [`Version::Current`] doesn't.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) version: Version,
    pub(super) members: usize,
    pub(super) settings: Vec<(String, String)>,
    pub(super) user: Option<User>,
    pub(super) tls: Tls,
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
            settings: Vec::new(),
            user: None,
            tls: Tls::default(),
        }
    }
}

methods::setters! { Options {
    /// By default, Debian's.
    pub fn version(version: Version) sets version to version;
    pub fn members(count: usize) sets members to count;
} }

impl Options {
    /// Adds a user that may access keys with this prefix (empty: all), so that clients must log in.
    pub fn user(mut self, name: &str, password: &str, prefix: &str) -> Self {
        let (name, password, prefix) = (name.to_owned(), password.to_owned(), prefix.to_owned());
        self.user = Some(User { name, password, prefix });
        self
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_on { "https" } else { "http" }
    }

    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--logger=zap".to_owned(), "--log-level=warn".to_owned()];
        if self.version == Version::Current {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        if self.user.is_some() {
            // The lowest cost that etcd accepts, for fast logins.
            flags.push("--bcrypt-cost=4".to_owned());
        }
        if let Some(certificates) = &self.tls.certificates {
            flags.push(format!("--cert-file={}", text(&certificates.certificate())));
            flags.push(format!("--key-file={}", text(&certificates.key())));
            if self.tls.wants_client_certificates {
                flags.push("--client-cert-auth".to_owned());
                flags.push(format!("--trusted-ca-file={}", text(&certificates.authority())));
            }
        }
        flags.extend(self.settings.iter().map(|(flag, value)| format!("--{flag}={value}")));
        flags
    }

    pub(super) fn login(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if let Some(certificates) = &self.tls.certificates {
            flags.push(format!("--cacert={}", text(&certificates.authority())));
            flags.push(format!("--cert={}", text(&certificates.certificate())));
            flags.push(format!("--key={}", text(&certificates.key())));
        }
        flags
    }
}

pub(super) const PACKAGE: &str = "etcd-server";

pub(super) const CURRENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/etcd-go");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The installed version. Debian 12 has 3.4.23.
    Debian,
    /// Version 3.6.16. The first use builds it with Go, which takes minutes.
    Current,
}

impl Version {
    pub(super) fn program(self) -> Result<Program> {
        match self {
            Self::Debian => Ok(Program::new("etcd", PACKAGE)),
            Self::Current => Ok(Program::new(text(&go::build(Path::new(CURRENT))?), PACKAGE)),
        }
    }
}
