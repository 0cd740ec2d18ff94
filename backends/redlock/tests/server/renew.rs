use lockwright_core::{
    BreakMode, BreakTarget, DistributedLock, Reason, ReleaseMode, Renew, RenewalOutcome,
};

use crate::common::{Five, claim, eventually, grant};

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_that_shrank_is_topped_up() {
    let mut five = Five::start().await;
    let redlock = five.connect().await;
    let held = claim("x");
    let fence = grant(&redlock, &held).await.fence;
    five.all_hold(&redlock, &held).await;
    five.each([1, 2], |server| server.command::<()>(&["DEL", "x"]).unwrap());
    let hold = Renew::of(&held);
    let renewed = redlock.renew(&[hold]).await.unwrap();
    assert_eq!(renewed[0].outcome, RenewalOutcome::Renewed { valid: None });
    five.all_hold(&redlock, &held).await;
    let noted = |at: usize| {
        let get = |key| five.fleet.servers[at].command::<String>(&["GET", key]).unwrap_or_default();
        let noted = get("x");
        let fences = noted.split(':').nth(2).unwrap_or_default();
        // A value without `@FENCE` has the counter's fence.
        let noted = fences.strip_prefix("1@").map(str::to_owned);
        noted.unwrap_or_else(|| get("lockwright:{x}:fence")) == fence.to_string()
    };
    eventually(async || (0..5).all(noted).then_some(())).await;
    let left: i64 = five.fleet.servers[1].command(&["PTTL", "x"]).unwrap();
    assert!(left > 0 && left <= 30_000, "it has no end: {left}");
    redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    five.nothing_is_left(0..5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn less_than_a_quorum_is_lost_and_not_topped_up() {
    let mut five = Five::start().await;
    let redlock = five.connect().await;
    let held = claim("x");
    grant(&redlock, &held).await;
    five.all_hold(&redlock, &held).await;
    five.each([0, 1, 2], |server| server.command::<()>(&["DEL", "x"]).unwrap());
    let hold = Renew::of(&held);
    let renewed = redlock.renew(&[hold]).await.unwrap();
    assert_eq!(renewed[0].outcome, RenewalOutcome::NotHeld(Reason::Gone));
    // Nodes execute requests in order. After these two, an earlier repair would be visible.
    redlock.renew(&[hold]).await.unwrap();
    grant(&redlock, &claim("y")).await;
    assert_eq!(five.holders(&held, 0..3), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_away_is_topped_up_when_it_votes_again() {
    let servers = lockwright_testbed::Redis::options().append_only("always");
    let mut five = Five::start_as(servers, crate::common::options()).await;
    let redlock = five.connect().await;
    five.server(3).kill();
    let held = claim("x");
    grant(&redlock, &held).await;
    five.server(3).restart(true).unwrap();
    let hold = Renew::of(&held);
    eventually(async || {
        let renewed = redlock.renew(&[hold]).await.unwrap();
        assert_eq!(renewed[0].outcome, RenewalOutcome::Renewed { valid: None });
        (five.holders(&held, 0..5) == 5).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_hold_is_reported_at_once() {
    let five = Five::start().await;
    let locks = lockwright_core::Locks::builder(five.connect().await).build().unwrap();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let other = five.connect().await;
    let name = lockwright_core::LockName::new("x").unwrap();
    let seen = BreakTarget::Token(guard.token());
    other.break_lock(&name, seen, BreakMode::Now, "ada", "stuck").await.unwrap();
    // The renewal is due after 10 s, so only a notification can end the hold in time.
    let signal = guard.signal();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(8), signal.ended());
    assert_eq!(ended.await.unwrap(), lockwright_core::HoldState::Lost(Reason::Broken));
    grant(&other, &claim("x")).await;
}
