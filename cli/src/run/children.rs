//! The descendants of `lockwright run` that the supervisor can't end.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitOptions, getpid, set_child_subreaper, wait, waitid,
};
use tokio::time::sleep;

use crate::process::descendants::{self, Process};

/// The first and the longest pause before the next scan for processes that escaped a KILL by
/// forking.
const AGAIN: Duration = Duration::from_millis(2);
const AGAIN_LIMIT: Duration = Duration::from_millis(10);

/// The required number of consecutive empty scans if the kernel can't be asked.
const EMPTY_LOOKS: u32 = 3;

pub(super) struct Children {
    /// Descendants that aren't the command's, because a shell with jobs became this process by
    /// `exec`.
    strangers: RefCell<Vec<Process>>,
}

impl Children {
    /// Makes this process the parent of all orphans among its descendants.
    pub(super) fn adopt() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { strangers: RefCell::new(descendants::of(getpid(), &[])?) })
    }

    pub(super) fn had_any_before(&self) -> bool {
        !self.strangers.borrow().is_empty()
    }

    /// Updates the strangers: all orphans of the command are below the living supervisor, so other
    /// descendants aren't the command's.
    pub(super) fn know_strangers(&self, supervisor: Pid) {
        if !self.had_any_before() {
            return;
        }
        let Some(ours) = descendants::process(supervisor) else { return };
        let Ok(beside_it) = descendants::of(getpid(), &[ours]) else { return };
        // Checked after the scan: the supervisor's end and the transfer of its orphans are one step
        // of the kernel, so the scan preceded both.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(None) = waitid(WaitId::Pid(supervisor), options) {
            self.strangers.replace(beside_it);
        }
    }

    /// Kills all descendants except strangers, until none is left. Returns `true` if the kernel
    /// confirms that. With strangers only scans can check, which a constantly forking process may
    /// escape.
    pub(super) async fn end_all(&self, command: Option<Pid>) -> bool {
        let strangers = self.strangers.take();
        let mut again = AGAIN;
        let mut empty_looks = 0;
        loop {
            let found = descendants::kill_all(getpid(), &strangers, command)
                .map_or(0, |killed| killed.found);
            let none_left = loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some(_)) => {}
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            empty_looks = if found == 0 { empty_looks + 1 } else { 0 };
            if none_left || (empty_looks >= EMPTY_LOOKS && !strangers.is_empty()) {
                self.strangers.replace(strangers);
                return none_left;
            }
            sleep(again).await;
            again = (again * 2).min(AGAIN_LIMIT);
        }
    }
}
