//! Kills a command that exceeds its limit, with its descendants, and reports their state. It kills
//! by id: a foreground command shares this process's group.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const LONGEST: usize = 300;

pub(crate) fn end(child: &mut Child) -> String {
    let said = all(child.id()).iter().map(|pid| describe(*pid)).collect::<Vec<_>>().join("\n");
    // A suspended process starts no more descendants, so list them again.
    signal("STOP", &[child.id()]);
    let started = all(child.id());
    let _ = child.kill();
    kill(&started[1..]);
    said
}

pub(crate) fn kill(pids: &[u32]) {
    signal("KILL", pids);
}

/// The standard library can only signal children.
fn signal(signal: &str, pids: &[u32]) {
    if !pids.is_empty() {
        let mut kill = Command::new("kill");
        kill.args(["-s", signal, "--"]).args(pids.iter().map(u32::to_string));
        let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn all(first: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        processes().filter_map(|(pid, folder)| Some((pid, parent(&folder)?))).collect();
    let mut found = vec![first];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    found
}

pub(crate) fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

fn parent(folder: &Path) -> Option<u32> {
    // The process's name, in parentheses, may contain any character.
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

pub(crate) fn name(pid: u32) -> String {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    format!("process {pid} ({})", shortened(command.trim()))
}

/// A test's thread has the name of the test.
fn describe(pid: u32) -> String {
    let mut threads: BTreeMap<String, usize> = BTreeMap::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    for task in tasks.filter_map(Result::ok).map(|entry| entry.path()) {
        let read = |file| fs::read_to_string(task.join(file)).unwrap_or_default();
        *threads
            .entry(format!("{} in {}", read("comm").trim(), read("wchan").trim()))
            .or_default() += 1;
    }
    let threads = threads.into_iter().map(|(thread, count)| match count {
        1 => thread,
        _ => format!("{count} × {thread}"),
    });
    format!("{}: {}", name(pid), shortened(&threads.collect::<Vec<_>>().join(", ")))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text.to_owned(),
    }
}
