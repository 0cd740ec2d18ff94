//! Tests that a lock file on FUSE is refused. The test mounts FUSE in its own mount namespace.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use lockwright_core::ErrorKind;
use lockwright_sql::Sqlite;

const INSIDE: &str = "LOCKWRIGHT_TEST_FUSE";

#[test]
fn lock_file_on_a_network_file_system_is_refused() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if open_fuse().is_err() {
        println!("/dev/fuse can't be opened here, so nothing can be mounted");
        return;
    }
    let child = Command::new("unshare")
        .args(["--mount", "--map-root-user"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "file_system::lock_file_on_a_network_file_system_is_refused"])
        .env(INSIDE, "yes")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("1 passed"), "{child:?}");
}

fn open_fuse() -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/fuse")
}

fn inside() {
    let folder = tempfile::tempdir().unwrap();
    let fuse = open_fuse().unwrap();
    let mounted = Command::new("mount")
        .args(["--internal-only", "--types", "fuse.sshfs", "--options"])
        .arg("fd=0,rootmode=40000,user_id=0,group_id=0")
        .args(["you@host:", folder.path().to_str().unwrap()])
        .stdin(Stdio::from(fuse.try_clone().unwrap()))
        .status()
        .unwrap();
    assert!(mounted.success());
    std::thread::spawn(move || serve(fuse));
    let file = folder.path().join("locks.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(Sqlite::open(&file)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    for part in ["fuse.sshfs", "local disk", "file_system=any"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(!Path::new(&file).exists());
    // With `file_system=any`, the backend accepts the path. SQLite then can't create the file,
    // because `serve` rejects it.
    let url = format!("sqlite:{}?file_system=any", file.display());
    let error = runtime.block_on(Sqlite::connect(&url)).unwrap_err();
    assert!(!error.to_string().contains("other machines"), "{error}");
}

/// Serves an empty folder by the kernel's FUSE protocol.
fn serve(mut fuse: File) {
    const LOOKUP: u32 = 1;
    const FORGET: u32 = 2;
    const GETATTR: u32 = 3;
    const STATFS: u32 = 17;
    const INIT: u32 = 26;
    const ACCESS: u32 = 34;
    const NOT_FOUND: i32 = -2;
    const NOT_IMPLEMENTED: i32 = -38;

    let mut request = vec![0; 1 << 17];
    while let Ok(length) = fuse.read(&mut request) {
        if length < 40 {
            return;
        }
        let operation = u32::from_ne_bytes(request[4..8].try_into().unwrap());
        let (error, answer) = match operation {
            FORGET => continue,
            INIT => {
                let mut words = [0u32; 16];
                (words[0], words[1], words[5]) = (7, 31, 4096);
                (0, words.map(u32::to_ne_bytes).concat())
            }
            GETATTR => {
                // The answer has the attributes' lifetime, then the root's inode, mode and link
                // count.
                let mut words = [0u32; 26];
                (words[0], words[4], words[19], words[20]) = (1, 1, 0o040_777, 2);
                (0, words.map(u32::to_ne_bytes).concat())
            }
            STATFS => (0, vec![0; 80]),
            ACCESS => (0, Vec::new()),
            LOOKUP => (NOT_FOUND, Vec::new()),
            _ => (NOT_IMPLEMENTED, Vec::new()),
        };
        let mut reply = u32::try_from(16 + answer.len()).unwrap().to_ne_bytes().to_vec();
        reply.extend(error.to_ne_bytes());
        reply.extend(&request[8..16]);
        reply.extend(answer);
        if fuse.write_all(&reply).is_err() {
            return;
        }
    }
}
