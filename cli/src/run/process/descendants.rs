//! A process's descendants, and signals that never reach an unrelated process with a reused id.

#[cfg(target_os = "linux")]
mod proc;
#[cfg(any(test, not(target_os = "linux")))]
mod ps;

use std::collections::HashMap;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process_group, test_kill_process_group};

#[cfg(target_os = "linux")]
use proc as table;
#[cfg(not(target_os = "linux"))]
use ps as table;
pub(crate) use table::{SOURCE, check};
use table::{all, look_at, send, users};

/// Whether orphans become children of the supervisor, so that `wait` shows when none is left. If
/// not, only those in the command's process group are found.
pub(crate) const ADOPTS_ORPHANS: bool = cfg!(target_os = "linux");

#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub pid: Pid,
    /// The start time, in a unit of the system: only compared.
    pub started: u64,
    group: i32,
}

impl Process {
    fn is_in(&self, group: Option<Pid>) -> bool {
        group.is_some_and(|group| group.as_raw_nonzero().get() == self.group)
    }
}

impl PartialEq for Process {
    fn eq(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

impl Eq for Process {}

#[derive(Debug, Clone, Copy)]
struct Entry {
    process: Process,
    parent: i32,
    ended: bool,
}

pub(crate) fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Returns whether `group`, the command's, has no orphan that isn't a child of this process.
pub(crate) fn no_orphan_in(group: Option<Pid>) -> bool {
    ADOPTS_ORPHANS || group.is_none_or(|group| test_kill_process_group(group) == Err(Errno::SRCH))
}

/// Returns the living descendants of `root`, without `except` and their descendants. A process
/// forked during the scan may be missing, so callers repeat the scan and check with `wait`.
///
/// The members of `group`, the command's, count as children if [orphans do not](ADOPTS_ORPHANS).
pub(crate) fn of(root: Pid, except: &[Process], group: Option<Pid>) -> io::Result<Vec<Process>> {
    let mut found = entries_of(root, except, group)?;
    found.retain(|entry| !entry.ended);
    Ok(found.into_iter().map(|entry| entry.process).collect())
}

/// Like [`of`], but includes zombies.
fn entries_of(root: Pid, except: &[Process], group: Option<Pid>) -> io::Result<Vec<Entry>> {
    let root = root.as_raw_nonzero().get();
    let mut children: HashMap<i32, Vec<Entry>> = HashMap::new();
    for entry in all()? {
        let is_orphan = !ADOPTS_ORPHANS && entry.process.is_in(group);
        let parent = if is_orphan { root } else { entry.parent };
        children.entry(parent).or_default().push(entry);
    }
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for entry in children.remove(&parent).unwrap_or_default() {
            if except.contains(&entry.process) {
                continue;
            }
            parents.push(entry.process.pid.as_raw_nonzero().get());
            found.push(entry);
        }
    }
    Ok(found)
}

pub(crate) fn process(pid: Pid) -> Option<Process> {
    look_at(pid).filter(|entry| !entry.ended).map(|entry| entry.process)
}

pub(crate) fn ancestors() -> impl Iterator<Item = Process> {
    let above = |entry: &Entry| Pid::from_raw(entry.parent).and_then(look_at);
    let us = look_at(getpid());
    std::iter::successors(us, above).skip(1).map(|entry| entry.process)
}

/// Returns whether `pid` runs as root or as this process's user, and so may end this process.
pub(crate) fn may_end_us(pid: Pid) -> bool {
    let (Some([real, effective, _]), Some([ours, _, saved])) = (users(pid), users(getpid())) else {
        return false;
    };
    effective == 0 || [real, effective].into_iter().any(|it| [ours, saved].contains(&it))
}

/// Returns how many processes can't be signalled, because they run as another user.
pub(crate) fn signal(processes: &[Process], signal: Signal) -> u32 {
    let is_refused = |process: &&Process| send(**process, signal) == Err(Errno::PERM);
    processes.iter().filter(is_refused).count() as u32
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Killed {
    pub found: usize,
    pub refused: u32,
}

/// Kills all descendants, and `group` if a descendant is in it: an empty group's id may be reused.
/// The kernel signals a group atomically with `fork`, so none of its processes escapes.
pub(crate) fn kill_all(root: Pid, except: &[Process], group: Option<Pid>) -> io::Result<Killed> {
    let mut entries = entries_of(root, except, group)?;
    if let Some(group) = group
        && entries.iter().any(|entry| entry.process.is_in(Some(group)))
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    entries.retain(|entry| !entry.ended);
    let living: Vec<Process> = entries.into_iter().map(|entry| entry.process).collect();
    Ok(Killed { found: living.len(), refused: signal(&living, Signal::KILL) })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn started(command: &mut Command) -> Child {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    #[test]
    fn whole_tree_is_ended_and_no_other_process() {
        let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
        let script = "sleep 60 & setsid sleep 60 & echo up; wait";
        let mut tree = started(Command::new("sh").args(["-c", script]));

        let root = Pid::from_child(&tree);
        let found = of(root, &[], None).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(of(root, &found[..1], None).unwrap(), found[1..]);

        assert_eq!(signal(&found, Signal::KILL), 0);
        assert!(tree.wait().unwrap().success(), "the shell waited for both");
        assert!(of(root, &[], None).unwrap().is_empty());

        let reused_id = Process { pid: Pid::from_child(&bystander), started: 1, group: 1 };
        signal(&[reused_id], Signal::KILL);
        assert!(bystander.try_wait().unwrap().is_none(), "another start time, so another process");
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }

    #[test]
    fn process_lives_until_its_last_thread_ends() {
        let script = "import ctypes, threading, time\n\
                      threading.Thread(target=time.sleep, args=(60,)).start()\n\
                      print('up', flush=True)\n\
                      ctypes.CDLL(None).pthread_exit(None)\n";
        let mut child = started(Command::new("python3").args(["-c", script]));
        let stat = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let us = rustix::process::getpid();
        let mut found = of(us, &[], None).unwrap();
        found.retain(|found| found.pid == Pid::from_child(&child));
        assert_eq!((found.len(), signal(&found, Signal::KILL)), (1, 0));
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn parent_is_the_first_ancestor() {
        let parent = rustix::process::getppid().unwrap();
        let above: Vec<Pid> = ancestors().map(|process| process.pid).collect();
        assert_eq!(above.first(), Some(&parent));
        assert!(!above.contains(&rustix::process::getpid()));
    }

    #[test]
    fn name_may_contain_parentheses() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(") R 1 (");
        // If this process wrote the file, another test's child could inherit it, and `exec` would
        // fail.
        assert!(Command::new("cp").arg("/bin/sleep").arg(&odd).status().unwrap().success());
        let mut child = Command::new(&odd).arg("60").spawn().unwrap();
        let us = rustix::process::getpid();
        assert!(
            of(us, &[], None).unwrap().iter().any(|found| found.pid == Pid::from_child(&child))
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
