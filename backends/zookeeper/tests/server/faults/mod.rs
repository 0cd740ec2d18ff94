//! Members that die, freeze, are cut off or restart during holds and waits.
//!
//! A lock ends with its session. So a cut-off holder must stop before the leader ends the session,
//! and a new leader's election must not end other sessions.

mod leader;
mod minority;
mod proof;

use std::time::Duration;

use lockwright_core::Locks;

use crate::clusters::faults::{
    Holder, LONG, Participants, elected, follower, hold_is_lost_in_time, holder_and_waiter, now,
    participants, url_of, url_without, whole,
};
use crate::common::{Cluster, locks};

const SHORT: Duration = Duration::from_secs(6);

/// Returns a client whose URL has all members, and its hold in a session at `member`.
async fn hold_at(member: usize, ensemble: &Cluster, all: &Participants) -> (Locks, Holder) {
    let timeout = format!("to={},", LONG.as_millis());
    for _ in 0..50 {
        // The client chooses a member at random, so repeat until it is `member`.
        let ours = locks(&ensemble.url()).await;
        let holder = all.hold("holder", &ours).await;
        if ensemble.members[member].four_letter("cons").unwrap().contains(&timeout) {
            return (ours, holder);
        }
        holder.release().await;
    }
    panic!("its session never was at this member");
}
