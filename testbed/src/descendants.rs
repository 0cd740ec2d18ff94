//! A process and its descendants, which need not share a process group.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// Returns the descendants of `pid`.
pub fn of(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let parents: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.1)))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

/// A zombie has ended.
pub(crate) fn is_stopped(pid: u32) -> bool {
    stat(pid).is_none_or(|(state, _)| matches!(state, 'T' | 'Z' | 'X'))
}

pub(crate) fn has_ended(pid: u32) -> bool {
    stat(pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}

pub(crate) fn signal(pids: &[u32], signal: Signal, done: fn(u32) -> bool) -> bool {
    for pid in pids {
        if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
    wait::until(wait::LIMIT, || pids.iter().all(|pid| done(*pid)).then_some(())).is_some()
}

fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Kills frozen processes when this process ends.
#[derive(Debug)]
pub(crate) struct KillOnExit(Child);

impl KillOnExit {
    pub(crate) fn watch(pids: &[u32]) -> std::io::Result<Self> {
        // Its input closes when this process ends. Its group protects it from Ctrl-C.
        Command::new("sh")
            .args(["-c", "read -r _; kill -KILL \"$@\"", "kill-on-exit"])
            .args(pids.iter().map(u32::to_string))
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
    }
}

impl Drop for KillOnExit {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
