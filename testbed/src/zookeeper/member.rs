use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::archive;
use super::options::{Options, SUPERUSER};
use super::server::{self, CONFIGURATION, Ports, SMALL, ask, class_path, data, java};
use crate::port::local;
use crate::wait::SOON;
use crate::{Error, Process, Result, folder};

#[derive(Debug)]
pub struct Member {
    pub(super) process: Process,
    pub(super) ports: Ports,
    pub(super) options: Arc<Options>,
    pub(super) folder: TempDir,
}

crate::methods::process_methods!(Member);

impl Member {
    pub fn port(&self) -> u16 {
        if self.options.tls.is_on { self.ports.secure } else { self.ports.clients }
    }

    pub fn address(&self) -> SocketAddr {
        local(self.port())
    }

    pub fn settings(&self) -> PathBuf {
        self.folder.path().join(CONFIGURATION)
    }

    /// Restarts on the same ports, and waits only for this member.
    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        self.process.stop();
        self.launch(keep_data)
    }

    pub fn four_letter(&self, command: &str) -> Result<String> {
        ask(self.ports.clients, command, Duration::from_secs(5)).map_err(|error| {
            Error::new(format!("{command}: {error}; the log says:\n{}", self.process.log()))
        })
    }

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

    pub fn is_leader(&self) -> bool {
        matches!(self.mode().as_deref(), Some("leader" | "standalone"))
    }

    /// Returns `leader`, `follower`, `observer`, `standalone`, or `None` during an election.
    pub fn mode(&self) -> Option<String> {
        self.line("srvr", "Mode: ")
    }

    pub fn zxid(&self) -> Option<u64> {
        let zxid = self.line("srvr", "Zxid: 0x")?;
        u64::from_str_radix(&zxid, 16).ok()
    }

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

    pub(super) fn launch(&mut self, keep_data: bool) -> Result<()> {
        if !keep_data {
            self.forget()?;
        }
        self.process = start(self.folder.path(), &self.options)?;
        self.wait_until_it_runs()
    }

    pub(super) fn wait_until_it_runs(&mut self) -> Result<()> {
        let (port, address) = (self.ports.clients, self.address());
        self.process.wait_until_ready(|| {
            ask(port, "ruok", SOON).ok()?;
            // The TLS port opens after the client port.
            TcpStream::connect_timeout(&address, SOON).ok().map(drop)
        })
    }

    pub(super) fn forget(&self) -> Result<()> {
        folder::remove(&self.data())
    }
}

pub(super) fn start(folder: &Path, options: &Options) -> Result<Process> {
    let archive = if options.is_full_size { None } else { archive::option() };
    server::start_with(folder, options, archive)
}
