use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockwright_core::Locks;

use crate::common::{Five, LIMIT, eventually, options};

/// Checks that only one contender is inside at a time.
#[derive(Default)]
struct Room {
    inside: AtomicUsize,
    highest: AtomicU64,
    turns: AtomicUsize,
}

impl Room {
    async fn turn(&self, locks: &Locks) {
        let guard = locks.mutex("x").wait_for(LIMIT).acquire().await.unwrap();
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two are in");
        let fence = guard.fence().get();
        let before = self.highest.swap(fence, Ordering::SeqCst);
        assert!(fence > before, "{fence} after {before}");
        tokio::time::sleep(Duration::from_millis(1)).await;
        guard.check().unwrap();
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.turns.fetch_add(1, Ordering::SeqCst);
        // If too few nodes answer, the release continues in the background.
        let _ = guard.release().await;
    }

    async fn goes_on(&self, turns: usize) {
        let wanted = self.turns.load(Ordering::SeqCst) + turns;
        eventually(async || (self.turns.load(Ordering::SeqCst) >= wanted).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_while_minorities_come_and_go() {
    let servers = lockwright_testbed::Redis::options().append_only("always");
    let largest_ttl = Duration::from_secs(8);
    let mut five = Five::start_as(servers, options().largest_ttl(largest_ttl)).await;
    let (room, is_over) = (Arc::new(Room::default()), Arc::new(AtomicBool::new(false)));
    let mut contenders = Vec::new();
    for _ in 0..4 {
        let locks = Locks::builder(five.connect().await).ttl(largest_ttl).build().unwrap();
        let (room, is_over) = (Arc::clone(&room), Arc::clone(&is_over));
        contenders.push(tokio::spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                room.turn(&locks).await;
            }
            locks.close().await;
        }));
    }
    room.goes_on(20).await;
    for pair in [[0, 1], [2, 3]] {
        five.each(pair, |server| server.kill());
        room.goes_on(20).await;
        five.each(pair, |server| server.restart(true).unwrap());
        room.goes_on(20).await;
    }
    for pair in [[1, 2], [3, 4]] {
        five.each(pair, |server| server.freeze());
        room.goes_on(10).await;
        five.each(pair, |server| server.thaw());
        room.goes_on(10).await;
    }
    // Node 4 can't vote after losing its data, and node 0 is dead: the other three are needed.
    five.server(4).restart(false).unwrap();
    five.server(0).kill();
    room.goes_on(20).await;
    five.server(0).restart(true).unwrap();
    room.goes_on(20).await;
    is_over.store(true, Ordering::SeqCst);
    for contender in contenders {
        contender.await.unwrap();
    }
    five.nothing_is_left().await;
}
