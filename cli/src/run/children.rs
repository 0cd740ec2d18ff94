//! What descends from `lockwright run`, where the supervisor can't see to it any more.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitOptions, getpid, set_child_subreaper, wait, waitid,
};
use tokio::time::sleep;

use crate::process::descendants::{self, Process};

/// How soon is looked again for what escaped a KILL by forking, at first and at most.
const AGAIN: Duration = Duration::from_millis(2);
const AGAIN_LIMIT: Duration = Duration::from_millis(10);

/// How many looks in a row must find nothing where the kernel can't be asked.
const EMPTY_LOOKS: u32 = 3;

/// The processes that descend from this one.
pub(super) struct Children {
    /// Those that aren't the command's, because a shell with jobs became us by `exec`.
    strangers: RefCell<Vec<Process>>,
}

impl Children {
    /// Makes this process the parent of every orphan among its descendants.
    pub(super) fn adopt() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { strangers: RefCell::new(descendants::of(getpid(), &[])?) })
    }

    pub(super) fn had_any_before(&self) -> bool {
        !self.strangers.borrow().is_empty()
    }

    /// While the supervisor lives, all orphans of the command are below it, so that what is beside
    /// it isn't the command's.
    pub(super) fn know_strangers(&self, supervisor: Pid) {
        if !self.had_any_before() {
            return;
        }
        let Some(ours) = descendants::process(supervisor) else { return };
        let Ok(beside_it) = descendants::of(getpid(), &[ours]) else { return };
        // Asked after the look: its end and the handing over of its orphans are one step of the
        // kernel's, so the look was before both.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(None) = waitid(WaitId::Pid(supervisor), options) {
            self.strangers.replace(beside_it);
        }
    }

    /// Kills all of them but the strangers, and returns when none is left. True when the kernel
    /// says so. Beside strangers only looks can tell, and one that forks all the time may hide from
    /// a look.
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
