//! Detects file systems that several machines may share. Each machine would treat the others' holds
//! as expired, because their boot ids differ.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FUSE: u64 = 0x6573_5546;

const LOCAL_FUSE: &str = "fuseblk fuse.bindfs fuse.encfs fuse.exfat fuse.fuse-overlayfs \
                          fuse.gocryptfs fuse.mergerfs fuse.ntfs-3g";

pub(super) fn network(path: &Path) -> io::Result<Option<String>> {
    let magic = rustix::fs::statfs(path)?.f_type as u64;
    let kind = || {
        let device = fs::metadata(path)?.dev();
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        io::Result::Ok(kind_of_mount(&mounts, device).map(str::to_owned))
    };
    Ok(of_magic(magic, || kind().ok().flatten()))
}

/// Returns the network file system with this number of statfs(2). For FUSE, the mount's kind
/// decides.
fn of_magic(magic: u64, kind: impl FnOnce() -> Option<String>) -> Option<String> {
    // 32-bit machines may sign-extend the number.
    let name = match magic & 0xffff_ffff {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB 2",
        0x0102_1997 => "9p",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x786f_4256 => "a VirtualBox shared folder",
        0xbacb_acbc => "a VMware shared folder",
        0xaad7_aaea => "PanFS",
        0x1983_0326 => "BeeGFS",
        0x2003_0528 => "OrangeFS",
        FUSE => {
            return match kind() {
                Some(kind) if LOCAL_FUSE.split(' ').any(|local| local == kind) => None,
                kind => Some(kind.unwrap_or_else(|| "FUSE".to_owned())),
            };
        }
        _ => return None,
    };
    Some(name.to_owned())
}

fn kind_of_mount(mounts: &str, device: u64) -> Option<&str> {
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == device).then(|| source.split(' ').next())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(magic: u64, kind: Option<&str>) -> Option<String> {
        of_magic(magic, || kind.map(str::to_owned))
    }

    #[test]
    fn network_file_systems_are_found_by_their_number() {
        let sign_extended = 0xffff_ffff_ff53_4d42;
        for (network, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (sign_extended, "CIFS")] {
            assert_eq!(named(network, None).as_deref(), Some(name), "{network:x}");
        }
        for (local, name) in [(0xef53, "ext4"), (0x9123_683e, "btrfs"), (0x794c_7630, "overlay")] {
            assert_eq!(named(local, None), None, "{name}");
        }
    }

    #[test]
    fn fuse_is_judged_by_its_kind() {
        for kind in ["fuse.sshfs", "virtiofs", "fuse"] {
            assert_eq!(named(FUSE, Some(kind)).as_deref(), Some(kind));
        }
        assert_eq!(named(FUSE, None).as_deref(), Some("FUSE"));
        for kind in ["fuseblk", "fuse.fuse-overlayfs"] {
            assert_eq!(named(FUSE, Some(kind)), None, "{kind}");
        }
    }

    #[test]
    fn mount_is_found_by_its_device() {
        let mounts = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                      36 27 0:31 / /mnt/a\\040b rw shared:1 - fuse.sshfs you@host: rw,user_id=0\n";
        let device = |major, minor| rustix::fs::makedev(major, minor);
        assert_eq!(kind_of_mount(mounts, device(0, 31)), Some("fuse.sshfs"));
        assert_eq!(kind_of_mount(mounts, device(254, 0)), Some("ext4"));
        assert_eq!(kind_of_mount(mounts, device(0, 3)), None);
    }
}
