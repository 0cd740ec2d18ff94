use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::server::Ports;
use crate::certificates::Tls;
use crate::{Certificates, Result, folder, methods};

pub(super) const SUPERUSER: (&str, &str) = ("super", "testbed-of-lockwright");
/// The superuser's name, with the base64 of the SHA-1 of `name:password`.
pub(super) const SUPERUSER_DIGEST: &str = "super:BjMD6lv93tLW0ebdOOqhyYONNqs=";

const KEY_STORE: &str = "key-store.pem";
const TRUST_STORE: &str = "trust-store.pem";

/// Options, by default without disk syncs.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) voters: usize,
    pub(super) observers: usize,
    tick: Duration,
    pub(super) settings: Vec<(String, String)>,
    pub(super) properties: Vec<String>,
    pub(super) tls: Tls,
    pub(super) is_durable: bool,
    pub(super) is_full_size: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            voters: 3,
            observers: 0,
            tick: Duration::from_millis(200),
            settings: Vec::new(),
            properties: Vec::new(),
            tls: Tls::default(),
            is_durable: false,
            is_full_size: false,
        }
    }
}

methods::setters! { Options {
    /// By default three. One is a standalone server.
    pub fn members(count: usize) sets voters to count;
    pub fn observers(count: usize) sets observers to count;
    /// By default 200 ms (ZooKeeper's is 2 s).
    pub fn tick(tick: Duration) sets tick to tick;
    pub fn durable() sets is_durable to true;
    /// The default heap, compilers and threads, for benchmarks.
    pub fn full_size() sets is_full_size to true;
} }

impl Options {
    /// Sets the number of silent ticks until members disconnect; 10 by default. Until then, an
    /// isolated member answers clients' pings.
    pub fn sync_limit(self, ticks: u32) -> Self {
        self.set("syncLimit", ticks.to_string())
    }

    /// The session timeouts are by default two ticks and 40 s.
    pub fn sessions(self, shortest: Duration, longest: Duration) -> Self {
        self.set("minSessionTimeout", shortest.as_millis().to_string())
            .set("maxSessionTimeout", longest.as_millis().to_string())
    }

    /// Sets a JVM property, for settings that `zoo.cfg` lacks.
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push(format!("-D{name}={value}"));
        self
    }

    pub(super) fn lines(&self, ports: Ports, folder: &Path) -> Result<String> {
        let mut lines = vec![
            ("tickTime", self.tick.as_millis().to_string()),
            ("initLimit", "100".to_owned()),
            ("syncLimit", "10".to_owned()),
            ("maxSessionTimeout", "40000".to_owned()),
            ("maxClientCnxns", "0".to_owned()),
            ("clientPort", ports.clients.to_string()),
            ("clientPortAddress", "127.0.0.1".to_owned()),
            ("4lw.commands.whitelist", "*".to_owned()),
            ("admin.enableServer", "false".to_owned()),
        ];
        if let Some(certificates) = &self.tls.certificates {
            let key_store = folder.join(KEY_STORE);
            let trust_store = folder.join(TRUST_STORE);
            write_stores(certificates, &key_store, &trust_store)?;
            let need = if self.tls.wants_client_certificates { "need" } else { "none" };
            lines.extend([
                ("secureClientPort", ports.secure.to_string()),
                ("secureClientPortAddress", "127.0.0.1".to_owned()),
                ("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory".into()),
                ("ssl.keyStore.location", folder::text(&key_store)),
                ("ssl.trustStore.location", folder::text(&trust_store)),
                ("ssl.clientAuth", need.to_owned()),
            ]);
        }
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
        lines.extend(own);
        // ZooKeeper rejects duplicate names, so only the last value is written.
        let mut text = String::new();
        for (index, (name, value)) in lines.iter().enumerate() {
            if lines[index + 1..].iter().all(|(later, _)| later != name) {
                let _ = writeln!(text, "{name}={value}");
            }
        }
        Ok(text)
    }
}

fn write_stores(certificates: &Certificates, keys: &Path, trusted: &Path) -> Result<()> {
    let read = fs_err::read_to_string::<PathBuf>;
    let both = read(certificates.key())? + &read(certificates.certificate())?;
    folder::write(keys, &both, None)?;
    folder::write(trusted, &read(certificates.authority())?, None)
}
