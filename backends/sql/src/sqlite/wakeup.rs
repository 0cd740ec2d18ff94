//! Notifies waiters of releases.
//!
//! After its commit, the writer notifies every client of its own process. For other processes, it
//! opens SQLite's log for reading, and closes it, which their inotify watches report. On macOS, they
//! poll.
//!
//! - SQLite itself opens the log for writing, so grants, renewals and checkpoints wake no waiter.
//! - The log has no POSIX locks, so closing it is safe, unlike the database file.

#[cfg(not(target_os = "macos"))]
mod inotify;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_core::backend_util::{Subscribers, lock};
use lockwright_core::{BootInstant, Claim, Clock, Event, LockName};
use tokio::runtime::Handle;
use tokio::sync::mpsc::WeakUnboundedSender;

use super::connection::Database;
use super::writer::{Answer, Job, Jobs, Request};
use crate::kind;

#[derive(Debug)]
pub(super) struct Waiters {
    log: PathBuf,
    clock: Clock,
    runtime: Handle,
    pub(super) clients: Subscribers,
    expected: Mutex<Expected>,
}

#[derive(Debug, Default)]
struct Expected {
    /// Each name's end of the watch, which waiters extend early, and largest semaphore size in
    /// claims.
    names: HashMap<LockName, (BootInstant, u32)>,
    watching: bool,
}

const KEPT: Duration = Duration::from_secs(10);

const TIDY: Duration = Duration::from_secs(1);

const POLL: Duration = Duration::from_millis(25);

impl Waiters {
    pub(super) fn new(database: &Database, clock: Clock) -> Self {
        Self {
            log: database.log(),
            clock,
            runtime: Handle::current(),
            clients: Subscribers::default(),
            expected: Mutex::default(),
        }
    }

    pub(super) fn expect(self: &Arc<Self>, claim: &Claim, until: BootInstant, jobs: &Jobs) {
        let until = until.min(self.clock.now() + KEPT);
        let (_, size) = kind::permits(claim.mode);
        let mut expected = lock(&self.expected);
        let known = expected.names.entry(claim.name.clone()).or_insert((until, size));
        *known = (until.max(known.0), size.max(known.1));
        if !expected.watching {
            expected.watching = true;
            let watch = {
                let _runtime = self.runtime.enter();
                Watch::start(&self.log)
            };
            self.runtime.spawn(watch_for(Arc::downgrade(self), jobs.0.downgrade(), watch));
        }
    }

    pub(super) fn is_expected(&self, name: &LockName) -> bool {
        lock(&self.expected).names.contains_key(name)
    }

    pub(super) fn announce(&self, freed: Vec<LockName>) {
        if !freed.is_empty() {
            ring(&self.log);
            self.wake(freed);
        }
    }

    fn wake(&self, names: impl IntoIterator<Item = LockName>) {
        for name in names {
            lock(&self.expected).names.remove(&name);
            self.clients.send(&Event::Wake(name));
        }
    }

    fn names(&self) -> Vec<(LockName, u32)> {
        let expected = lock(&self.expected);
        expected.names.iter().map(|(name, (_, size))| (name.clone(), *size)).collect()
    }

    fn tidy(&self) -> bool {
        let now = self.clock.now();
        let mut expected = lock(&self.expected);
        expected.names.retain(|_, (until, _)| *until > now);
        expected.watching = !expected.names.is_empty();
        expected.watching
    }
}

fn ring(log: &Path) {
    // If this fails, the waiters rely on their slow poll.
    drop(File::open(log));
}

async fn watch_for(waiters: Weak<Waiters>, jobs: WeakUnboundedSender<Job>, mut watch: Watch) {
    // The pause after a wake-up that found no free name.
    const GAP: Duration = Duration::from_millis(1);

    let mut tidied = tokio::time::Instant::now();
    loop {
        let change = watch.next().await;
        let (Some(waiters), Some(jobs)) = (waiters.upgrade(), jobs.upgrade().map(Jobs)) else {
            return;
        };
        if tidied.elapsed() >= TIDY {
            tidied = tokio::time::Instant::now();
            if !waiters.tidy() {
                return;
            }
        }
        match change {
            Change::Nothing => {}
            Change::Wakeup => {
                if !wake_the_free(&waiters, &jobs).await {
                    drop((waiters, jobs));
                    tokio::time::sleep(GAP).await;
                }
            }
            Change::FileGone => {
                // Each waiter repeats its request, and gets the file's error.
                lock(&waiters.expected).watching = false;
                waiters.wake(waiters.names().into_iter().map(|(name, _)| name));
                return;
            }
        }
    }
}

async fn wake_the_free(waiters: &Waiters, jobs: &Jobs) -> bool {
    let mut names = waiters.names();
    if names.is_empty() {
        return false;
    }
    if let Ok(Answer::Held(held)) = jobs.ask(Request::Held(names.clone())).await {
        names.retain(|(name, _)| !held.contains(name.as_str()));
    }
    let any = !names.is_empty();
    waiters.wake(names.into_iter().map(|(name, _)| name));
    any
}

#[cfg_attr(target_os = "macos", expect(dead_code, reason = "`Poll` returns only `Wakeup`"))]
enum Change {
    Wakeup,
    Nothing,
    FileGone,
}

/// The way to watch SQLite's log: `Poll` on macOS, if the user has no inotify watch left, or if the
/// file isn't in WAL mode.
enum Watch {
    #[cfg(not(target_os = "macos"))]
    Inotify(inotify::Inotify),
    Poll,
}

impl Watch {
    #[cfg(not(target_os = "macos"))]
    fn start(log: &Path) -> Self {
        inotify::Inotify::watch(log).map_or(Self::Poll, Self::Inotify)
    }

    #[cfg(target_os = "macos")]
    fn start(_: &Path) -> Self {
        Self::Poll
    }

    async fn next(&mut self) -> Change {
        match self {
            Self::Poll => {
                tokio::time::sleep(POLL).await;
                Change::Wakeup
            }
            #[cfg(not(target_os = "macos"))]
            Self::Inotify(inotify) => inotify.next().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_log_to_watch_it_polls() {
        let mut watch = Watch::start(Path::new("/no/such/log"));
        assert!(matches!(watch, Watch::Poll));
        assert!(matches!(watch.next().await, Change::Wakeup));
    }

    #[cfg(not(target_os = "macos"))]
    #[tokio::test]
    async fn a_ring_is_heard_and_a_write_is_not() {
        use std::io::Write;

        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut writer = File::create(&log).unwrap();
        let mut watch = Watch::start(&log);
        writer.write_all(b"a commit").unwrap();
        assert!(matches!(watch.next().await, Change::Nothing));
        ring(&log);
        assert!(matches!(watch.next().await, Change::Wakeup));
        std::fs::remove_file(&log).unwrap();
        drop(writer);
        assert!(matches!(watch.next().await, Change::FileGone));
    }
}
