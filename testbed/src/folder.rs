//! Temporary folders, and a cache of new databases, whose creation takes seconds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fs_err as fs;
use tempfile::TempDir;

use crate::{Account, Error, Program, Result};

pub(crate) fn temporary(server: &str, account: Option<Account>) -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix(&format!("lockwright-{server}-")).tempdir()?;
    if let Some(account) = account {
        account.own(folder.path())?;
    }
    Ok(folder)
}

/// Fills `target` with the files that `make` creates, from a cache if possible. The cache has one
/// archive per user, server and `recipe`: a clean-up of temporary files could remove parts of a
/// folder.
pub(crate) fn fill(
    target: &Path,
    server: &str,
    recipe: &str,
    account: Option<Account>,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let mut hasher = DefaultHasher::new();
    (server, recipe, account.map(|account| account.uid)).hash(&mut hasher);
    let cache = cache()?;
    let archive = cache.join(format!("{server}-{:016x}.tar", hasher.finish()));
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !archive.exists() {
        let fresh = temporary(server, account)?;
        make(fresh.path())?;
        let packed = tempfile::NamedTempFile::new_in(&cache)?;
        tar().args(["-cSf", &text(packed.path()), "."]).run(fresh.path(), "")?;
        // Another process's archive is equal.
        packed.persist(&archive).map_err(|error| error.error)?;
    }
    drop(turn);
    tar().args(["-xSpf", &text(&archive), "--numeric-owner"]).run(target, "")?;
    Ok(())
}

pub(crate) fn empty_except(folder: &Path, kept: &[&str]) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !kept.iter().any(|name| path.ends_with(name)) {
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    Ok(())
}

pub(crate) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn tar() -> Program {
    Program::new("tar", "tar")
}

/// Writes a file that the server's account can read, regardless of the umask.
pub(crate) fn write(file: &Path, text: &str, account: Option<Account>) -> Result<()> {
    fs::write(file, text)?;
    account.map_or(Ok(()), |account| account.own(file))
}

pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Checks that the cache is private, because another user may have created it. Its parent is
/// `LOCKWRIGHT_TESTBED_CACHE` or the temporary folder. All processes must share it: `port::free`
/// reserves ports by lock files in it.
pub(crate) fn cache() -> Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let parent =
        std::env::var_os("LOCKWRIGHT_TESTBED_CACHE").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = parent.join(format!("lockwright-testbed-{uid}"));
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder)?;
    if found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0 {
        return Ok(folder);
    }
    Err(Error::new(format!("{} is not a private folder of ours; remove it", folder.display())))
}
