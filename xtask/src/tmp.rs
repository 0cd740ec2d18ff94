//! The temporary folder of tests and servers, in memory if possible: syncs of a shared disk may
//! take seconds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::process::output;

const IN_MEMORY: &str = "/dev/shm";

/// The servers of all tests used 2.6 GB.
const ENOUGH_KIB: u64 = 8 << 20;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

pub(crate) struct TmpFolder;

impl TmpFolder {
    pub(crate) fn begin() -> Self {
        if std::env::var_os("TMPDIR").is_none()
            && let Some(folder) = in_memory()
        {
            let _ = FOLDER.set(folder);
        }
        Self
    }
}

impl Drop for TmpFolder {
    fn drop(&mut self) {
        if let Some(folder) = FOLDER.get() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

pub(crate) fn set(command: &mut Command) {
    let is_set = command.get_envs().any(|(name, _)| name == "TMPDIR");
    if let Some(folder) = FOLDER.get().filter(|_| !is_set) {
        command.env("TMPDIR", folder);
    }
}

pub(crate) fn folder() -> PathBuf {
    FOLDER.get().cloned().unwrap_or_else(std::env::temp_dir)
}

fn in_memory() -> Option<PathBuf> {
    let all = Path::new(IN_MEMORY);
    remove_leftovers(all);
    // `df` fails if the folder isn't in memory.
    let free = output("df", &["-Pk", "--type=tmpfs", IN_MEMORY]).ok()?;
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    if field(&free, IN_MEMORY, 3)?.min(field(&memory, "MemAvailable:", 1)?) < ENOUGH_KIB {
        return None;
    }
    let folder = all.join(format!("{PREFIX}{}", std::process::id()));
    fs::create_dir(&folder).ok()?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).ok()?;
    Some(folder)
}

fn field(text: &str, word: &str, index: usize) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(word))?;
    line.split_whitespace().nth(index)?.parse().ok()
}

const PREFIX: &str = "lockwright-tests-";

fn remove_leftovers(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_system_files_are_parsed() {
        let memory = "MemTotal:       24682416 kB\nMemAvailable:   24057596 kB\n";
        assert_eq!(field(memory, "MemAvailable:", 1), Some(24_057_596));
        let df = "Filesystem     1024-blocks  Used Available Capacity Mounted on\n\
                  tmpfs             24682416     8  24682408       1% /dev/shm\n";
        assert_eq!(field(df, IN_MEMORY, 3), Some(24_682_408));
    }

    #[test]
    fn only_folders_of_ended_runs_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let of = |pid: u32| folder.path().join(format!("{PREFIX}{pid}"));
        // Linux has no process ids above 2²².
        let paths = [of(1 << 30), of(std::process::id()), folder.path().join("other")];
        paths.iter().for_each(|path| fs::create_dir_all(path.join("data")).unwrap());
        remove_leftovers(folder.path());
        assert_eq!(paths.map(|path| path.exists()), [false, true, true]);
    }
}
