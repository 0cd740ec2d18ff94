//! The boot id and the kind of a file system on macOS.

#[cfg(target_os = "macos")]
pub(super) use system::{boot_id, network};

/// Kinds of `f_fstypename` in statfs(2) that one machine uses. Other machines may share the rest: `nfs`,
/// `smbfs`, `afpfs`, `webdav`, `acfs` (Xsan), and all that macFUSE mounts.
const LOCAL: [&str; 5] = ["apfs", "exfat", "hfs", "msdos", "tmpfs"];

fn shared_kind(name: &[u8]) -> Option<String> {
    let name = name.split(|byte| *byte == 0).next().map(String::from_utf8_lossy)?;
    (!LOCAL.contains(&&*name)).then(|| name.into_owned())
}

fn uuid(text: &str) -> Option<&str> {
    let id = text.trim();
    let is_uuid = id.len() == 36 && id.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    is_uuid.then_some(id)
}

#[cfg(target_os = "macos")]
mod system {
    use std::io;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::Arc;

    use lockwright_core::{Error, Result};

    use super::{shared_kind, uuid};

    /// Returns the boot id. Processes with the same id can compare instants of `CLOCK_MONOTONIC`,
    /// which counts during a sleep.
    pub(in super::super) fn boot_id() -> Result<Arc<str>> {
        read_boot_id().map_err(|source| {
            Error::unavailable(
                "the boot id can't be read by `/usr/sbin/sysctl -n kern.bootsessionuuid`; allow \
                 this process to run it",
            )
            .with_source(source)
        })
    }

    fn read_boot_id() -> io::Result<Arc<str>> {
        let mut command = Command::new("/usr/sbin/sysctl");
        command.args(["-n", "kern.bootsessionuuid"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let text = io::read_to_string(child.stdout.take().expect("it is piped"));
        // Fails in a program that ignores SIGCHLD.
        let _ = child.wait();
        uuid(&text?).map(Arc::from).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns the kind of the path's file system, if other machines may share it.
    pub(in super::super) fn network(path: &Path) -> io::Result<Option<String>> {
        let name = rustix::fs::statfs(path)?.f_fstypename.map(|byte| byte as u8);
        Ok(shared_kind(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_file_systems_are_local() {
        assert_eq!(shared_kind(b"apfs\0\0\0\0\0\0\0\0\0\0\0\0"), None);
        assert_eq!(shared_kind(b"smbfs\0fs\0\0\0\0\0\0\0\0").as_deref(), Some("smbfs"));
        assert_eq!(shared_kind(b"macfuse\0\0\0\0\0\0\0\0\0").as_deref(), Some("macfuse"));
        assert_eq!(shared_kind(b"").as_deref(), Some(""));
    }

    #[test]
    fn boot_id_is_a_uuid() {
        let id = "5C73D9A9-1444-4E4F-A077-0123456789AB";
        assert_eq!(uuid(&format!("{id}\n")), Some(id));
        for text in ["", "5C73D9A9-1444", "kern.bootsessionuuid: 5C73D9A9-1444-4E4F", "unknown oid"]
        {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
