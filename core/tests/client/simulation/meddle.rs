use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockwright_core::{BreakMode, BreakTarget, Broken, Event, Granted, LockName, Reason};
use tokio::time::{sleep, timeout};

use super::world::{LOCKS, World, count};
use crate::support::secs;

impl World {
    pub(super) async fn meddle(self: &Arc<Self>) {
        loop {
            sleep(self.chance.millis_below(1_000)).await;
            match self.chance.below(6) {
                0 if self.plan.breaks => self.break_one().await,
                1 if self.plan.losses => self.end_one(),
                2 if self.plan.losses => self.send_hints(),
                3 if self.plan.suspends => self.clock.jump(self.chance.millis_below(2_500)),
                4 if self.plan.closes && self.chance.one_in(3) => self.close_one(),
                5 if self.plan.cuts => self.cut_off_one(),
                _ => {}
            }
        }
    }

    async fn break_one(&self) {
        let Some((name, token)) = self.holders.pick(&self.chance) else { return };
        let seen = if self.chance.one_in(4) { BreakTarget::Any } else { BreakTarget::Token(token) };
        let how = self.chance.of(&[BreakMode::RunOut, BreakMode::Now]);
        let client = self.client();
        let answer = timeout(secs(2), client.locks.break_lock(name, seen, how, "simulated")).await;
        if matches!(answer, Ok(Ok(Broken::RunsOut(_) | Broken::Freed(_)))) {
            count(&self.seen.broken);
        }
    }

    fn end_one(&self) {
        let Some((_, token)) = self.holders.pick(&self.chance) else { return };
        let Some(claim) = self.server.claim(token) else { return };
        let server = Arc::clone(&self.server);
        count(&self.seen.ended);
        if self.chance.one_in(2) {
            tokio::spawn(server.end_after_notice(claim));
        } else {
            tokio::spawn(server.end_without_notice(claim));
        }
    }

    fn send_hints(&self) {
        let mut bytes = [0; 16];
        bytes.fill_with(|| self.chance.below(256) as u8);
        let stranger = lockwright_core::Token::from_bytes(bytes);
        let token = self.holders.pick(&self.chance).map_or(stranger, |(_, token)| token);
        let mut handed = Granted::new(lockwright_core::Fence::new(1 << 40));
        handed.start = Some(self.clock.now());
        let name = LockName::new(self.chance.of(&LOCKS)).unwrap();
        let event = match self.chance.below(5) {
            0 => Event::AtRisk(token),
            1 => Event::Recall(token),
            2 => Event::Wake(name),
            3 => Event::Lost(stranger, Reason::Gone),
            _ => Event::Handed(stranger, handed),
        };
        self.server.send(&event);
    }

    fn cut_off_one(&self) {
        let (is_cut, time) = (self.client().is_cut, self.chance.millis_below(4_000));
        is_cut.store(true, Ordering::SeqCst);
        tokio::spawn(async move {
            sleep(time).await;
            is_cut.store(false, Ordering::SeqCst);
        });
    }

    fn close_one(self: &Arc<Self>) {
        let client = self.replace_client();
        let is_late = self.chance.one_in(2).then(|| self.chance.millis_below(500));
        self.closing.lock().unwrap().spawn(async move {
            if let Some(delay) = is_late {
                sleep(delay).await;
            }
            client.close().await;
        });
    }
}
