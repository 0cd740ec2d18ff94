//! Ends the descendants if the supervisor was killed or suspended.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, getpid, wait, waitid};
use tokio::time::sleep;

use crate::run::process::descendants::{self, ADOPTS_ORPHANS, Process};

const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(2);
const MAX_RETRY_PAUSE: Duration = Duration::from_millis(10);

/// If foreign children keep `wait` from confirming the end, this many scans in a row must find
/// none.
const EMPTY_SCANS: u32 = 3;

pub(super) struct Children {
    /// Descendants that don't belong to the user's command (CMD): before its `exec`, this process
    /// was a shell with jobs.
    foreign: RefCell<Vec<Process>>,
}

impl Children {
    pub(super) fn adopt() -> io::Result<Self> {
        descendants::adopt_orphans()?;
        Ok(Self { foreign: RefCell::new(descendants::of(getpid(), &[], None)?) })
    }

    pub(super) fn has_foreign(&self) -> bool {
        !self.foreign.borrow().is_empty()
    }

    /// Updates `foreign`: this process's descendants outside the supervisor's subtree. They aren't
    /// CMD's, whose orphans stay in it while the supervisor lives.
    pub(super) fn update_foreign(&self, supervisor: Pid) {
        if !self.has_foreign() || !ADOPTS_ORPHANS {
            return;
        }
        let Some(ours) = descendants::process(supervisor) else { return };
        let Ok(others) = descendants::of(getpid(), &[ours], None) else { return };
        // The kernel ends the supervisor and transfers its orphans to this process in one step. So
        // if it still lives, none of them are in `others`.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(None) = waitid(WaitId::Pid(supervisor), options) {
            self.foreign.replace(others);
        }
    }

    /// Returns `true` if `wait` confirms that no child is left. If foreign ones are left, a
    /// constantly forking process may escape the scans.
    pub(super) async fn end_all(&self, command: Option<Pid>) -> bool {
        let foreign = self.foreign.take();
        let mut retry_pause = FIRST_RETRY_PAUSE;
        let mut empty_scans = 0;
        loop {
            let found =
                descendants::kill_all(getpid(), &foreign, command).map_or(0, |killed| killed.found);
            let none_left = loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some(_)) => {}
                    Ok(None) => break false,
                    Err(_) => {
                        break descendants::no_orphan_in(command) && (ADOPTS_ORPHANS || found == 0);
                    }
                }
            };
            empty_scans = if found == 0 { empty_scans + 1 } else { 0 };
            if none_left || (empty_scans >= EMPTY_SCANS && !foreign.is_empty()) {
                self.foreign.replace(foreign);
                return none_left;
            }
            sleep(retry_pause).await;
            retry_pause = (retry_pause * 2).min(MAX_RETRY_PAUSE);
        }
    }
}
