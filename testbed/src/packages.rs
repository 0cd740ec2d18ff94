//! Servers from a folder of unpacked packages.
//!
//! `LOCKWRIGHT_SERVER_ROOT` names the folder, as an absolute path. `cargo xtask test versions`
//! makes such folders in `target/servers/`, one per server. Servers that the folder lacks are the
//! installed ones.

use std::path::PathBuf;

const ROOT: &str = "LOCKWRIGHT_SERVER_ROOT";

/// Returns the folder, if the variable is set.
///
/// # Panics
/// If the folder has no servers. Otherwise the installed servers would be tested by mistake.
pub(crate) fn root() -> Option<PathBuf> {
    let root = PathBuf::from(std::env::var_os(ROOT)?);
    assert!(root.join("usr").is_dir(), "{ROOT}={} has no folder usr", root.display());
    Some(root)
}

/// Returns the first of these paths that exists in the folder.
pub(crate) fn find(paths: &[&str]) -> Option<PathBuf> {
    let root = root()?;
    paths.iter().map(|path| root.join(path)).find(|path| path.exists())
}
