use std::path::Path;

use crate::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// For servers that refuse to run as root: the first of `names` that is a user of the system,
    /// or else `nobody`. Returns `None` if this process isn't root.
    pub fn instead_of_root(names: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let find = |name: &&str| {
            users.lines().find_map(|line| {
                let mut fields = line.split(':');
                if fields.next() != Some(*name) {
                    return None;
                }
                let uid = fields.nth(1)?.parse().ok()?;
                Some(Self { uid, gid: fields.next()?.parse().ok()? })
            })
        };
        let nobody = Self { uid: 65_534, gid: 65_534 };
        Some(names.iter().chain(&["nobody"]).find_map(find).unwrap_or(nobody))
    }

    pub fn own(self, path: &Path) -> Result<()> {
        Ok(fs_err::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))?)
    }
}
