//! How a ZooKeeper ensemble is to be started.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ZooKeeper;
use super::member::Ports;
use crate::{Certificates, Error, Result, folder, port};

/// The one who may do everything, for tests that look at nodes of others.
pub(super) const SUPERUSER: (&str, &str) = ("super", "testbed-of-lockwright");
/// Name, and the base64 of the SHA-1 of `name:password`.
pub(super) const SUPERUSER_DIGEST: &str = "super:BjMD6lv93tLW0ebdOOqhyYONNqs=";

/// What a server's TLS is made of.
const KEY_STORE: &str = "key-store.pem";
const TRUST_STORE: &str = "trust-store.pem";

/// How a [`ZooKeeper`] is to be started. What isn't set is as ZooKeeper has it, but its tick is short
/// and it doesn't wait for the disk.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) voters: usize,
    pub(super) observers: usize,
    tick: Duration,
    settings: Vec<(String, String)>,
    pub(super) properties: Vec<String>,
    tls: bool,
    wants_client_certificates: bool,
    pub(super) is_durable: bool,
    pub(super) is_full_size: bool,
    /// Those of all members, once they are made.
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            voters: 3,
            observers: 0,
            tick: Duration::from_millis(200),
            settings: Vec::new(),
            properties: Vec::new(),
            tls: false,
            wants_client_certificates: false,
            is_durable: false,
            is_full_size: false,
            certificates: None,
        }
    }
}

impl Options {
    /// How many members that vote; else three. One is a server on its own.
    pub fn members(mut self, count: usize) -> Self {
        self.voters = count;
        self
    }

    /// How many more that don't vote; else none. They are the last ones of [`ZooKeeper::members`].
    pub fn observers(mut self, count: usize) -> Self {
        self.observers = count;
        self
    }

    /// The unit of time; else 200 ms, where ZooKeeper's own is 2 s. The shortest session is two of
    /// them.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// How many ticks a member may be silent to the others; else 10. Before that, one that was cut off
    /// answers its clients' pings as if nothing was.
    pub fn sync_limit(self, ticks: u32) -> Self {
        self.set("syncLimit", ticks.to_string())
    }

    /// The shortest and the longest session; else two ticks, and 40 s.
    pub fn sessions(self, shortest: Duration, longest: Duration) -> Self {
        self.set("minSessionTimeout", shortest.as_millis().to_string())
            .set("maxSessionTimeout", longest.as_millis().to_string())
    }

    /// Any setting, as a line of `zoo.cfg` has it. The last one of a name counts.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// A property of the JVM, for what can't be set in `zoo.cfg`.
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push(format!("-D{name}={value}"));
        self
    }

    /// Speaks TLS to clients, with a certificate for `localhost` and `127.0.0.1`, at another port,
    /// which is the one that [`ZooKeeper::url`] has. Who signed it is in [`ZooKeeper::authority`].
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Like [`Options::tls`], and clients must show a certificate too, as the one in
    /// [`ZooKeeper::client_certificate`].
    pub fn tls_with_client_certificates(mut self) -> Self {
        self.wants_client_certificates = true;
        self.tls()
    }

    /// Waits for the disk, as an ensemble with data that matter does.
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// With the heap, the compilers and the threads that it has by default, for who measures it: else
    /// each member is a small process.
    pub fn full_size(mut self) -> Self {
        self.is_full_size = true;
        self
    }

    /// Starts it, and waits until all members answer and follow a leader.
    ///
    /// # Errors
    /// When Java or ZooKeeper isn't installed, or doesn't answer.
    pub fn start(mut self) -> Result<ZooKeeper> {
        if self.tls && self.certificates.is_none() {
            self.certificates = Some(Arc::new(Certificates::new()?));
        }
        port::retried(|| ZooKeeper::start_with(&self))
    }

    /// The lines of `zoo.cfg`, but for those that say who the members are.
    pub(super) fn lines(&self, ports: Ports, folder: &Path) -> Result<String> {
        let mut lines = vec![
            ("tickTime", self.tick.as_millis().to_string()),
            // In ticks: a busy machine takes its time.
            ("initLimit", "100".to_owned()),
            ("syncLimit", "10".to_owned()),
            ("maxSessionTimeout", "40000".to_owned()),
            ("maxClientCnxns", "0".to_owned()),
            ("clientPort", ports.clients.to_string()),
            ("clientPortAddress", "127.0.0.1".to_owned()),
            ("4lw.commands.whitelist", "*".to_owned()),
            ("admin.enableServer", "false".to_owned()),
        ];
        if let Some(certificates) = &self.certificates {
            let key_store = folder.join(KEY_STORE);
            let trust_store = folder.join(TRUST_STORE);
            write_stores(certificates, &key_store, &trust_store)?;
            let need = if self.wants_client_certificates { "need" } else { "none" };
            lines.extend([
                ("secureClientPort", ports.secure.to_string()),
                ("secureClientPortAddress", "127.0.0.1".to_owned()),
                ("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory".into()),
                ("ssl.keyStore.location", folder::text(&key_store)?),
                ("ssl.trustStore.location", folder::text(&trust_store)?),
                ("ssl.clientAuth", need.to_owned()),
            ]);
        }
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
        lines.extend(own);
        // Twice the same name is an error.
        let mut text = String::new();
        for (index, (name, value)) in lines.iter().enumerate() {
            if lines[index + 1..].iter().all(|(later, _)| later != name) {
                let _ = writeln!(text, "{name}={value}");
            }
        }
        Ok(text)
    }

    /// Whether clients use the port with TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.tls
    }
}

/// In the forms that ZooKeeper knows by the names of the files.
fn write_stores(certificates: &Certificates, keys: &Path, trusted: &Path) -> Result<()> {
    let read = |file: std::path::PathBuf| {
        std::fs::read_to_string(&file)
            .map_err(|error| Error::new(format!("{}: {error}", file.display())))
    };
    let both = read(certificates.key())? + &read(certificates.certificate())?;
    folder::write(keys, &both, None)?;
    folder::write(trusted, &read(certificates.authority())?, None)
}
