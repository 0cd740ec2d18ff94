use std::sync::atomic::Ordering;

use lockwright_core::DistributedLock;
use lockwright_core::{Event, HoldState, LockName, Reason};
use tokio::time::{sleep, timeout};

use super::world::{Client, LOCKS, PERMITS, SEMAPHORE, World};
use crate::support::{millis, secs, settle_down};

impl World {
    pub(super) async fn check_the_end(&self) {
        self.server.is_calm.store(true, Ordering::SeqCst);
        self.holders.clear();
        let closing = std::mem::take(&mut *self.closing.lock().unwrap());
        closing.join_all().await;
        sleep(secs(60)).await;
        settle_down().await;
        for client in self.all_clients() {
            let counted = client.locks.metrics();
            assert_eq!((counted.held, counted.releasing), (0, 0), "{counted:?}");
            assert_eq!(counted.acquired, counted.released + counted.lost, "{counted:?}");
        }
        for client in self.present() {
            for name in LOCKS {
                self.check_lock(&client, name).await;
            }
            let semaphore = client.locks.semaphore(SEMAPHORE, PERMITS).permits(PERMITS);
            let permit = timeout(secs(30), semaphore.acquire()).await.expect("all are free");
            permit.unwrap().release().await.unwrap();
            timeout(secs(60), client.close()).await.expect("close comes to its end");
        }
        assert!(self.server.memory.is_empty(), "the server has something left");
    }

    /// Waits until no client has a hold or a release in progress. Then checks that the server is
    /// empty.
    pub(super) async fn check_between_rounds(&self) {
        if !self.plan.leaves_nothing() {
            return;
        }
        let is_busy = |client: &Client| {
            let counted = client.locks.metrics();
            (counted.held, counted.releasing) != (0, 0)
        };
        while self.all_clients().iter().any(is_busy) {
            sleep(millis(1)).await;
        }
        for name in LOCKS.into_iter().chain([SEMAPHORE]) {
            let left = self.server.memory.inspect(&LockName::new(name).unwrap()).await.unwrap();
            assert!(left.holders.is_empty() && left.waiters == Some(0), "not given back: {left:?}");
        }
    }

    async fn check_lock(&self, client: &Client, name: &str) {
        let acquire = timeout(secs(30), client.locks.mutex(name).acquire());
        let guard = acquire.await.expect("the turn wasn't lost").unwrap();
        let first = guard.deadline();
        sleep(secs(5)).await;
        guard.check().unwrap();
        assert!(guard.deadline() > first, "it is renewed");

        let before = guard.deadline();
        self.server.send(&Event::Recall(guard.token()));
        self.server.send(&Event::AtRisk(guard.token()));
        sleep(millis(2)).await;
        assert!(guard.deadline() > before, "a hold at risk is renewed at once");
        assert_eq!(guard.signal().state(), HoldState::Held);

        self.server.send(&Event::Lost(guard.token(), Reason::SessionEnded));
        sleep(millis(1)).await;
        assert_eq!(guard.signal().state(), HoldState::Lost(Reason::SessionEnded));
        guard.release().await.unwrap_err();
    }
}
