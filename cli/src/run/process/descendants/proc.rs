//! Processes on Linux: `/proc` and pidfds.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::{Entry, Process};

pub(crate) const SOURCE: &str = "/proc";

/// Fails if `/proc` shows another PID namespace.
pub(crate) fn check() -> io::Result<()> {
    if fs::read_link("/proc/self")?.to_str() == Some(&getpid().to_string()) {
        return Ok(());
    }
    Err(io::Error::other("it belongs to another PID namespace; mount it for this one"))
}

pub(super) fn all() -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        found.extend(pid.and_then(look_at));
    }
    Ok(found)
}

pub(super) fn look_at(pid: Pid) -> Option<Entry> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The last `)` ends the program's name, which may contain parentheses.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields: Vec<&str> =
        std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace().collect();
    Some(Entry {
        process: Process {
            pid,
            started: fields.get(19)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
        },
        parent: fields.get(1)?.parse().ok()?,
        // A process whose first thread has ended looks like a zombie, but its number of threads
        // (field 17) is above 1.
        ended: matches!(*fields.first()?, "Z" | "X") && matches!(*fields.get(17)?, "0" | "1"),
    })
}

/// Returns the real, effective and saved user.
pub(super) fn users(pid: Pid) -> Option<[u32; 3]> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_ascii_whitespace().map_while(|user| user.parse().ok());
    Some([users.next()?, users.next()?, users.next()?])
}

pub(super) fn send(process: Process, signal: Signal) -> Result<(), Errno> {
    // The handle, opened before `look_at`, can't refer to a later process with this id.
    let handle = pidfd_open(process.pid, PidfdFlags::empty())?;
    match look_at(process.pid) {
        Some(entry) if entry.process == process => pidfd_send_signal(handle, signal),
        _ => Ok(()),
    }
}
