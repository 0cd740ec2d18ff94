//! Copies of what a ZooKeeper ensemble knows, and going back to one.

use std::path::Path;

use tempfile::TempDir;

use super::{Member, ZooKeeper};
use crate::ensemble::all_at_once;
use crate::{Error, Result, folder};

/// All that an ensemble knew at one moment.
#[derive(Debug)]
pub struct Snapshot(TempDir);

impl ZooKeeper {
    /// Copies the leader's data folder, as an operator does who keeps copies. The leader stands still
    /// meanwhile.
    ///
    /// # Errors
    /// When there is no leader, or its files can't be read.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let snapshot = Snapshot(folder::temporary("zookeeper-snapshot", None)?);
        let leader = &self.members[self.leader()?];
        leader.freeze();
        let copied = copy(&leader.data(), snapshot.0.path());
        leader.thaw();
        copied.map(|()| snapshot)
    }

    /// Goes back to a copy as an operator does: ends all members, gives each the copy for its data
    /// folder, and starts them. Transaction ids go back too.
    ///
    /// # Errors
    /// When it can't be written, or the members don't find each other.
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

/// ZooKeeper has no folders within that one.
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
