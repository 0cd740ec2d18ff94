use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

pub fn of(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
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

pub(crate) fn is_stopped(pid: u32) -> bool {
    state(pid) == Some('T')
}

/// A zombie counts as ended.
pub fn has_ended(pid: u32) -> bool {
    state(pid).is_none_or(|state| matches!(state, 'Z' | 'X'))
}

fn state(pid: u32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

/// The ids aren't reused: an ended child keeps its id until its parent waits.
pub(crate) fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        let _ = kill_process(pid, signal);
    }
}

pub(crate) fn wait(pids: &[u32], done: fn(u32) -> bool) -> bool {
    wait::until(wait::LIMIT, || pids.iter().all(|pid| done(*pid)).then_some(())).is_some()
}

fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[derive(Debug)]
pub(crate) struct KillOnExit(Child);

impl KillOnExit {
    pub(crate) fn watch(pids: &[u32]) -> std::io::Result<Self> {
        // The shell's input closes when this process ends, so the shell kills `pids`. Its own
        // process group protects it from Ctrl-C.
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
