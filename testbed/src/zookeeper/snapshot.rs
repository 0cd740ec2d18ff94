use std::path::Path;

use fs_err as fs;
use tempfile::TempDir;

use super::ZooKeeper;
use crate::{Result, folder};

#[derive(Debug)]
pub struct Snapshot(TempDir);

impl ZooKeeper {
    pub fn snapshot(&self) -> Result<Snapshot> {
        let snapshot = Snapshot(folder::temporary("zookeeper-snapshot", None)?);
        let leader = &self.members[self.leader()?];
        leader.freeze();
        let copied = copy(&leader.data(), snapshot.0.path());
        leader.thaw();
        copied.map(|()| snapshot)
    }

    /// Transaction ids continue after the snapshot's last id.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.start_again(|member| {
            member.forget()?;
            copy(snapshot.0.path(), &member.data())?;
            member.launch(true)
        })
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
