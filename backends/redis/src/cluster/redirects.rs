//! Sends each request to the node of its slot, and reacts to its reply:
//!
//! - `MOVED` (another node has the slot): resend there, refresh the slot map.
//! - `ASK` (the keys have moved before the slot): resend only this request, after `ASKING`.
//! - `TRYAGAIN` (the slot is moving, and a key is missing): see `slot_migration.rs`.
//! - `CLUSTERDOWN`, `LOADING` (a restarted node, whose replica may have taken over): unavailable,
//!   refresh the map.
//! - No reply, or the caller drops the request: indeterminate, never resend, refresh the map.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockwright_core::{ErrorKind, Result};
use redis::{Cmd, ServerErrorKind, Value};
use tokio::time::{Instant, sleep};

use super::{Address, Cluster};
use crate::errors::{self, error};
use crate::keys::slot_of;
use crate::scripts::Call;

const REDIRECTIONS: u32 = 8;

static ASKING: LazyLock<Cmd> = LazyLock::new(|| redis::cmd("ASKING"));

/// A request in progress. Dropping it refreshes the slot map, because the node may be silent.
struct InProgress<'c>(Option<&'c Arc<Cluster>>);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        if let Some(cluster) = self.0 {
            cluster.look_up_soon();
        }
    }
}

impl Cluster {
    /// Returns `None` without a retry if the slot is moving, and either keys are missing or
    /// `ASKING` conflicts with `before`.
    pub(crate) async fn try_run(self: &Arc<Self>, call: Call<'_>) -> Result<Option<Value>> {
        let mut in_progress = InProgress(Some(self));
        let answer = self.route_until_answered(call).await;
        in_progress.0 = None;
        answer
    }

    async fn route_until_answered(self: &Arc<Self>, call: Call<'_>) -> Result<Option<Value>> {
        let slot = slot_of(call.key);
        let begun = Instant::now();
        let mut looked = false;
        let mut redirected = None;
        for redirections in 0..REDIRECTIONS {
            let (at, is_asking) = match redirected.take() {
                Some(redirected) => redirected,
                None => (self.owner(slot).await?, false),
            };
            let link = self.link(&at);
            let live = match link.live().await {
                Ok(live) => live,
                Err(failure) => {
                    // Nothing was sent, so another node may get the request.
                    if looked || begun.elapsed() >= self.shared.config.response_timeout {
                        self.look_up_soon();
                        return Err(failure);
                    }
                    looked = true;
                    let _ = self.look_up().await;
                    if self.map().owner(slot).is_none_or(|owner| *owner == at) {
                        return Err(failure);
                    }
                    continue;
                }
            };
            let before = if is_asking { Some(&*ASKING) } else { call.before };
            let cause = match link.try_run_on(&live, Call { before, ..call }).await {
                Ok(Ok(answer)) => return Ok(Some(answer)),
                Ok(Err(cause)) => cause,
                Err(error) => {
                    self.look_up_soon();
                    return Err(error);
                }
            };
            let to = cause.redirect_node().and_then(|(to, _)| Address::redirected(to, &at));
            match (cause.kind(), to) {
                (redis::ErrorKind::Server(ServerErrorKind::TryAgain), _) => return Ok(None),
                // `before` and `ASKING` can't both directly precede the command.
                (redis::ErrorKind::Server(ServerErrorKind::Ask), _) if call.before.is_some() => {
                    return Ok(None);
                }
                (redis::ErrorKind::Server(ServerErrorKind::Ask), Some(to)) => {
                    redirected = Some((to, true));
                }
                (redis::ErrorKind::Server(ServerErrorKind::Moved), Some(to)) => {
                    self.current.change(|map| map.moved(slot, &to));
                    self.look_up_soon();
                    redirected = Some((to, false));
                }
                _ => {
                    let is_down = matches!(cause.code(), Some("CLUSTERDOWN" | "LOADING"));
                    if is_down || cause.is_io_error() || errors::needs_reconnect(&cause) {
                        self.look_up_soon();
                    }
                    return Err(errors::translate(cause, call.effect));
                }
            }
            if begun.elapsed() >= self.shared.config.response_timeout {
                break;
            }
            // The first redirection is normal after a move.
            if redirections > 0 {
                sleep(Duration::from_millis(1 << redirections)).await;
            }
        }
        Err(error(
            ErrorKind::Unavailable,
            "the Cluster's nodes do not agree on which of them has the lock's slot; try again",
        ))
    }
}
