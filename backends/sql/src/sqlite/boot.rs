use std::fs;
use std::sync::Arc;

use lockwright_core::{Error, Result};

/// Processes with the same boot id can compare instants of `CLOCK_BOOTTIME`.
pub(super) fn boot_id() -> Result<Arc<str>> {
    const ID: &str = "/proc/sys/kernel/random/boot_id";
    const MOUNTS: &str = "/proc/self/mountinfo";
    const OFFSETS: &str = "/proc/self/timens_offsets";

    let id = fs::read_to_string(ID).map_err(|source| {
        Error::unavailable(format!(
            "the boot id can't be read from {ID}; lock files need a mounted /proc"
        ))
        .with_source(source)
    })?;
    // With its own boot id, a container would treat others' live holds as expired.
    if fs::read_to_string(MOUNTS).is_ok_and(|mounts| is_mounted_over(&mounts, ID)) {
        return Err(Error::invalid_config(format!(
            "{ID} was replaced in this container (systemd-nspawn and LXC do that), so holds of \
             other containers on the same machine can't be distinguished from those of another \
             boot; \
             unmount it there, or keep the locks on a server"
        )));
    }
    if fs::read_to_string(OFFSETS).is_ok_and(|offsets| shifts_boot_clock(&offsets)) {
        return Err(Error::invalid_config(
            "this process is in a time namespace that shifts CLOCK_BOOTTIME, so that other \
             processes read another time than it does; run it outside of that namespace",
        ));
    }
    Ok(Arc::from(id.trim()))
}

/// The fifth field of each line is the mount point.
fn is_mounted_over(mounts: &str, path: &str) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(path))
}

fn shifts_boot_clock(offsets: &str) -> bool {
    offsets.lines().any(|line| {
        let mut words = line.split_whitespace();
        // Old kernels show the clock's number, not its name.
        matches!(words.next(), Some("boottime" | "7")) && words.any(|number| number != "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_boot_id_is_noticed() {
        const REPLACE: &str = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        if std::env::var_os("LOCKWRIGHT_TEST_REPLACED_BOOT_ID").is_some() {
            let error = boot_id().unwrap_err();
            assert!(error.to_string().contains("was replaced"), "{error}");
            return;
        }
        let fake = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(fake.path(), "5c73d9a9-1444-4e4f-a077-000000000000\n").unwrap();
        let child = std::process::Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", REPLACE])
            .arg(fake.path())
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "sqlite::boot::tests::a_replaced_boot_id_is_noticed"])
            .env("LOCKWRIGHT_TEST_REPLACED_BOOT_ID", "yes")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && text.contains("1 passed"), "{child:?}");
    }

    #[test]
    fn a_shifted_boot_clock_is_noticed() {
        for (offsets, is_shifted) in [
            ("monotonic           0         0\nboottime            0         0\n", false),
            ("monotonic           5         0\nboottime            0         0\n", false),
            ("monotonic           0         0\nboottime          -10         0\n", true),
            ("monotonic           0         0\nboottime            0         1\n", true),
        ] {
            assert_eq!(shifts_boot_clock(offsets), is_shifted, "{offsets}");
        }
    }
}
