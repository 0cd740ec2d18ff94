//! The temporary folder of tests and servers: in memory if possible.
//!
//! A shared disk's syncs may take seconds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const IN_MEMORY: &str = "/dev/shm";

/// All tests' servers together used 2.6 GB.
const ENOUGH_KIB: u64 = 8 << 20;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

pub(crate) struct TmpFolder;

impl TmpFolder {
    /// If there is enough and `TMPDIR` isn't set.
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
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let is_enough = available(&memory)? >= ENOUGH_KIB && free(all)? >= ENOUGH_KIB;
    if !is_enough || !is_in_memory(&mounts) {
        return None;
    }
    let folder = all.join(format!("{PREFIX}{}", std::process::id()));
    fs::create_dir(&folder).ok()?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).ok()?;
    Some(folder)
}

const PREFIX: &str = "lockwright-tests-";

/// They use memory until a reboot.
fn remove_leftovers(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// In KiB, from `/proc/meminfo`.
fn available(memory: &str) -> Option<u64> {
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn free(folder: &Path) -> Option<u64> {
    let output = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    last_line_free(&String::from_utf8(output.stdout).ok()?)
}

fn last_line_free(df: &str) -> Option<u64> {
    df.lines().last()?.split_whitespace().nth(3)?.parse().ok()
}

/// By `/proc/mounts`. The last mount counts.
fn is_in_memory(mounts: &str) -> bool {
    let mut kinds = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        (words.next()? == IN_MEMORY).then(|| words.next())?
    });
    kinds.next_back() == Some("tmpfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files_are_parsed() {
        let memory = "MemTotal:       24682416 kB\nMemAvailable:   24057596 kB\n";
        assert_eq!(available(memory), Some(24_057_596));
        let df = "Filesystem     1024-blocks  Used Available Capacity Mounted on\n\
                  tmpfs             24682416     8  24682408       1% /dev/shm\n";
        assert_eq!(last_line_free(df), Some(24_682_408));
        assert!(is_in_memory("/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw,relatime 0 0\n"));
        assert!(!is_in_memory("/dev/vda / ext4 rw 0 0\n"));
        assert!(!is_in_memory("tmpfs /dev/shm tmpfs rw 0 0\n/dev/vda /dev/shm ext4 rw 0 0\n"));
    }

    #[test]
    fn only_folders_of_ended_runs_are_removed() {
        let folder = std::env::temp_dir().join(format!("lockwright-tmp-{}", std::process::id()));
        let of = |pid: u32| folder.join(format!("{PREFIX}{pid}"));
        // Linux has no process ids above 2²².
        let (dead, alive, other) = (of(1 << 30), of(std::process::id()), folder.join("other"));
        for path in [&dead, &alive, &other] {
            fs::create_dir_all(path.join("data")).unwrap();
        }
        remove_leftovers(&folder);
        let exist = [dead, alive, other].map(|path| path.exists());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(exist, [false, true, true]);
    }
}
