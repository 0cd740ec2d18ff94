use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;

use super::{Link, Live};

/// The shortest time-out that marks a connection as broken. A busy machine may cause shorter ones,
/// so a probe decides.
const SILENCE: Duration = Duration::from_millis(100);

/// Dropping it starts a probe, because a caller with a short limit gives up before a time-out
/// detects a silent connection.
#[must_use]
pub(super) struct Unanswered<'r> {
    link: &'r Arc<Link>,
    live: &'r Arc<Live>,
    limit: Duration,
    is_over: bool,
}

impl<'r> Unanswered<'r> {
    pub(super) fn new(link: &'r Arc<Link>, live: &'r Arc<Live>, limit: Duration) -> Self {
        Self { link, live, limit, is_over: false }
    }

    pub(super) fn answered(mut self) {
        self.is_over = true;
    }

    pub(super) fn timed_out(mut self) {
        if self.limit >= self.link.silence() {
            self.is_over = true;
            self.link.mark_broken(&self.live.alive);
            if let Some((waiting, live)) =
                self.link.waiting.as_ref().and_then(|waiting| Some((waiting, waiting.usable()?)))
            {
                waiting.probe(&live, Duration::ZERO);
            }
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.link.probe(self.live, self.limit);
        }
    }
}

impl Link {
    fn silence(&self) -> Duration {
        let longest = self.shared.config.response_timeout;
        let blocks = self.shared.config.replicas.filter(|_| self.is_waiting);
        // An earlier request's `WAIT` may delay the reply.
        let wait = blocks.map_or(Duration::ZERO, |replicas| replicas.limit * 3 / 2);
        SILENCE.max(wait).min(longest)
    }

    pub(super) fn probe(self: &Arc<Self>, live: &Arc<Live>, limit: Duration) {
        if !live.alive.load(Ordering::Acquire) || live.probed.swap(true, Ordering::AcqRel) {
            return;
        }
        let limit = limit.max(self.silence()).min(self.shared.config.response_timeout);
        let (link, live) = (Arc::downgrade(self), Arc::clone(live));
        self.shared.runtime.spawn(async move {
            let (ping, mut connection) = (redis::cmd("PING"), live.connection.clone());
            // Any reply counts, because PING may be denied.
            let answer = timeout(limit, ping.query_async::<redis::Value>(&mut connection)).await;
            live.probed.store(false, Ordering::Release);
            if let (Err(_), Some(link)) = (answer, link.upgrade()) {
                link.mark_broken(&live.alive);
            }
        });
    }
}
