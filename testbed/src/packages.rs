use std::path::PathBuf;

use crate::folder;

const ROOT: &str = "LOCKWRIGHT_SERVER_ROOT";

/// # Panics
/// Without a folder `usr`, because the tests would then use the installed servers.
pub(crate) fn root() -> Option<PathBuf> {
    let root = PathBuf::from(std::env::var_os(ROOT)?);
    assert!(root.join("usr").is_dir(), "{ROOT}={} has no folder usr", root.display());
    Some(root)
}

pub(crate) fn find(paths: &[&str]) -> Option<String> {
    let root = root()?;
    let path = paths.iter().map(|path| root.join(path)).find(|path| path.exists());
    path.map(|path| folder::text(&path))
}
