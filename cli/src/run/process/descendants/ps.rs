//! Processes on macOS. Without unsafe code, only `ps` shows them there.

use std::io;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::{Entry, Process};

pub(crate) const SOURCE: &str = "/bin/ps";

pub(crate) fn check() -> io::Result<()> {
    look_at(getpid()).map(drop).ok_or_else(|| io::Error::other("it doesn't show this process"))
}

pub(super) fn all() -> io::Result<Vec<Entry>> {
    Ok(ps(&["-A"])?.into_iter().map(|(entry, _)| entry).collect())
}

pub(super) fn look_at(pid: Pid) -> Option<Entry> {
    ps(&["-p", &pid.as_raw_nonzero().to_string()]).ok()?.pop().map(|(entry, _)| entry)
}

pub(super) fn users(pid: Pid) -> Option<[u32; 3]> {
    ps(&["-p", &pid.as_raw_nonzero().to_string()]).ok()?.pop().map(|(_, users)| users)
}

/// The caller has just scanned the processes, and macOS counts through all ids before it uses one
/// again.
pub(super) fn send(process: Process, signal: Signal) -> Result<(), Errno> {
    kill_process(process.pid, signal)
}

fn ps(which: &[&str]) -> io::Result<Vec<(Entry, [u32; 3])>> {
    const COLUMNS: [&str; 8] =
        ["pid=", "ppid=", "pgid=", "ruid=", "uid=", "svuid=", "stat=", "lstart="];

    let mut command = Command::new(SOURCE);
    command.args(which).args(COLUMNS.iter().flat_map(|column| ["-o", column]));
    command.envs([("LC_ALL", "C"), ("TZ", "UTC")]).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let us = Pid::from_child(&child);
    let text = io::read_to_string(child.stdout.take().expect("it is piped"))?;
    // Fails if this process's parent has set SIGCHLD to be ignored.
    let _ = child.wait();
    Ok(text.lines().filter_map(parse).filter(|(entry, _)| entry.process.pid != us).collect())
}

fn parse(line: &str) -> Option<(Entry, [u32; 3])> {
    let mut words = line.split_ascii_whitespace();
    let mut number = || words.next()?.parse::<i32>().ok();
    let (pid, parent, group) = (Pid::from_raw(number()?)?, number()?, number()?);
    let mut user = || words.next()?.parse::<u32>().ok();
    let users = [user()?, user()?, user()?];
    let ended = words.next()?.starts_with('Z');
    // Only compared: the digits of `Mon Nov 30 23:42:31 2026`.
    let digits: String = words.flat_map(str::chars).filter(char::is_ascii_digit).collect();
    let process = Process { pid, started: digits.parse().ok()?, group };
    Some((Entry { process, parent, ended }, users))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;
    use crate::run::process::descendants::proc;

    #[test]
    fn ps_shows_what_proc_shows() {
        check().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let [shown, read] = [all(), proc::all()].map(|all| {
            let entry = all.unwrap().into_iter().find(|entry| entry.process.pid == pid).unwrap();
            (entry.parent, entry.process.group, entry.ended)
        });
        assert_eq!(shown, read);
        assert_eq!(users(pid), proc::users(pid));

        send(look_at(pid).unwrap().process, Signal::KILL).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(look_at(pid).unwrap().ended, "a zombie");
        child.wait().unwrap();
        assert!(look_at(pid).is_none());
    }

    #[test]
    fn lines_of_macos_are_parsed() {
        let line = "  501     1   501   501     0   501 Ss   Mon Nov  3 23:42:31 2026    ";
        let (entry, users) = parse(line).unwrap();
        let Process { pid, started, group } = entry.process;
        assert_eq!((pid.as_raw_nonzero().get(), started, group), (501, 32342312026, 501));
        assert_eq!((entry.parent, entry.ended, users), (1, false, [501, 0, 501]));
    }
}
