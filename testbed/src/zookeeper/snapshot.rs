//! Snapshots of a ZooKeeper ensemble.

use std::path::Path;

use tempfile::TempDir;

use super::{Member, ZooKeeper};
use crate::ensemble::all_at_once;
use crate::{Error, Result, folder};

/// The state of an ensemble at one moment.
#[derive(Debug)]
pub struct Snapshot(TempDir);

impl ZooKeeper {
    /// Copies the frozen leader's data folder.
    ///
    /// # Errors
    /// If there is no leader, or its files can't be read.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let snapshot = Snapshot(folder::temporary("zookeeper-snapshot", None)?);
        let leader = &self.members[self.leader()?];
        leader.freeze();
        let copied = copy(&leader.data(), snapshot.0.path());
        leader.thaw();
        copied.map(|()| snapshot)
    }

    /// Restores a snapshot. Transaction ids go back too.
    ///
    /// # Errors
    /// If it can't be written, or the members don't form an ensemble.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        all_at_once(&mut self.members, |member| {
            member.process.thaw();
            member.process.kill();
            member.fill_from(snapshot.0.path())?;
            member.launch()
        })?;
        self.wait_until_whole()
    }
}

impl Member {
    fn fill_from(&self, snapshot: &Path) -> Result<()> {
        self.forget()?;
        copy(snapshot, &self.data())
    }
}

/// ZooKeeper's data folder has no subfolders.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let copy = || -> std::io::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    };
    copy().map_err(|error| Error::new(format!("{} to {}: {error}", from.display(), to.display())))
}
