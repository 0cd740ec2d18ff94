use std::path::Path;

use tempfile::TempDir;

use super::Etcd;
use super::member::{EXISTING, Member, initial_cluster, peer_url};
use super::options::{self, CURRENT, Version};
use crate::{Program, Result, folder, go};

#[derive(Debug)]
pub struct Snapshot(TempDir);

impl Snapshot {
    fn file(&self) -> String {
        folder::text(&self.0.path().join("snapshot.db"))
    }
}

impl Etcd {
    /// Without a leader, saves the state of the first member.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let snapshot = Snapshot(folder::temporary("etcd-snapshot", None)?);
        let member = &self.members[self.leader().unwrap_or(0)];
        member.ctl(&["snapshot", "save", &snapshot.file()])?;
        Ok(snapshot)
    }

    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.has_no_learner()?;
        let file = snapshot.file();
        self.start_again(|member| {
            member.fill_from(&file)?;
            member.launch(EXISTING)
        })
    }
}

impl Member {
    fn fill_from(&self, snapshot: &str) -> Result<()> {
        self.forget()?;
        let tool = match self.cluster.options.version {
            Version::Debian => {
                Program::new("etcdctl", super::cluster::PACKAGE).env("ETCDCTL_API", "3")
            }
            // Debian's tool can't read the current version's snapshots.
            Version::Current => {
                let program = folder::text(&go::build(Path::new(CURRENT))?);
                Program::new(program, options::PACKAGE).arg("utl")
            }
        };
        tool.args(["snapshot", "restore", snapshot])
            .args([
                format!("--name={}", self.name),
                format!("--data-dir={}", folder::text(&self.data())),
                format!("--initial-advertise-peer-urls={}", peer_url(self.ports.door)),
                format!("--initial-cluster={}", initial_cluster(&self.initial)),
                format!("--initial-cluster-token={}", self.cluster.token),
            ])
            .run(self.folder.path(), "")
            .map(drop)
    }
}
