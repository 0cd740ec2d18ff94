use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::cluster::Cluster;
use crate::port::local;
use crate::wait::SOON;
use crate::{Process, Result, folder, http, methods, port};

const AGREED: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) clients: u16,
    pub(super) peers: u16,
    /// The port of this member's proxy, to which other members connect.
    pub(super) door: u16,
    pub(super) metrics: u16,
}

impl Ports {
    pub(super) fn find() -> Self {
        let (clients, peers) = (port::free(), port::free());
        Self { clients, peers, door: port::free(), metrics: port::free() }
    }
}

/// The values of `--initial-cluster-state`.
pub(super) const NEW: &str = "new";
pub(super) const EXISTING: &str = "existing";

#[derive(Debug)]
pub struct Member {
    pub(super) process: Process,
    pub(super) name: String,
    pub(super) is_learner: bool,
    pub(super) ports: Ports,
    pub(super) initial: Vec<(String, u16)>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) pid: Arc<AtomicU32>,
    pub(super) folder: TempDir,
}

methods::process_methods!(Member);

impl Member {
    pub fn port(&self) -> u16 {
        self.ports.clients
    }

    pub fn address(&self) -> SocketAddr {
        local(self.ports.clients)
    }

    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.cluster.options.scheme(), self.address())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_learner(&self) -> bool {
        self.is_learner
    }

    pub fn ctl(&self, arguments: &[&str]) -> Result<String> {
        self.cluster.run(&[self.endpoint()], arguments)
    }

    /// Restarts on the same ports, and waits only for this member. Without `keep_data`, a new
    /// member replaces this one, for which the others must be a majority.
    pub fn restart(&mut self, keep_data: bool) -> Result<()> {
        self.process.stop();
        if keep_data {
            return self.launch(EXISTING);
        }
        let others: Vec<_> = self.initial.iter().filter(|(name, _)| *name != self.name).collect();
        if others.is_empty() {
            return self.launch(NEW);
        }
        self.forget()?;
        let (cluster, own) = (&self.cluster, self.endpoint());
        let all = cluster.endpoints();
        let others: Vec<_> = all.into_iter().filter(|endpoint| *endpoint != own).collect();
        let listed = cluster.run(&others, &["member", "list"])?;
        let peer_url = peer_url(self.ports.door);
        let old = listed.lines().find(|line| line.contains(&peer_url));
        if let Some((id, _)) = old.and_then(|line| line.split_once(',')) {
            cluster.decide(&others, &["member", "remove", id])?;
        }
        let kind: &[&str] = if self.is_learner { &["--learner"] } else { &[] };
        let add = [&["member", "add", &self.name, "--peer-urls", &peer_url], kind].concat();
        cluster.decide(&others, &add)?;
        self.launch(EXISTING)
    }

    pub fn is_leader(&self) -> bool {
        self.metric("etcd_server_is_leader") == Some(1.0)
    }

    pub fn has_leader(&self) -> bool {
        self.metric("etcd_server_has_leader") == Some(1.0)
    }

    /// Returns whether a majority accepts the member's proposals.
    pub fn is_healthy(&self) -> bool {
        let answer = http::get(local(self.ports.metrics), "/health", AGREED);
        answer.is_some_and(|answer| answer.contains(r#""health":"true""#))
    }

    pub fn metric(&self, name: &str) -> Option<f64> {
        let answer = http::get(local(self.ports.metrics), "/metrics", SOON)?;
        let mut lines = answer.lines().filter_map(|line| line.rsplit_once(' '));
        lines.find(|(found, _)| *found == name)?.1.parse().ok()
    }

    pub(super) fn data(&self) -> PathBuf {
        data(self.folder.path())
    }

    pub(super) fn launch(&mut self, state: &str) -> Result<()> {
        if state == NEW {
            self.forget()?;
        }
        let folder = self.folder.path();
        self.process = start(&self.cluster, &self.name, self.ports, &self.initial, state, folder)?;
        self.pid.store(self.process.pid(), Ordering::SeqCst);
        self.wait_until_it_runs()
    }

    pub(super) fn wait_until_it_runs(&mut self) -> Result<()> {
        let metrics = local(self.ports.metrics);
        self.process.wait_until_ready(|| http::get(metrics, "/metrics", SOON).map(drop))
    }

    pub(super) fn forget(&self) -> Result<()> {
        folder::remove(&self.data())
    }
}

pub(super) fn peer_url(door: u16) -> String {
    format!("http://{}", local(door))
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

pub(super) fn initial_cluster(members: &[(String, u16)]) -> String {
    let one = |(name, door): &(String, u16)| format!("{name}={}", peer_url(*door));
    members.iter().map(one).collect::<Vec<_>>().join(",")
}

pub(super) fn start(
    cluster: &Cluster,
    name: &str,
    ports: Ports,
    initial: &[(String, u16)],
    state: &str,
    folder: &Path,
) -> Result<Process> {
    let clients = format!("{}://{}", cluster.options.scheme(), local(ports.clients));
    let program = cluster.program.clone().args([
        format!("--name={name}"),
        format!("--data-dir={}", folder::text(&data(folder))),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={}", peer_url(ports.peers)),
        format!("--initial-advertise-peer-urls={}", peer_url(ports.door)),
        format!("--listen-metrics-urls={}", peer_url(ports.metrics)),
        format!("--initial-cluster={}", initial_cluster(initial)),
        format!("--initial-cluster-state={state}"),
        format!("--initial-cluster-token={}", cluster.token),
    ]);
    program.args(cluster.options.flags()).start(folder)
}
