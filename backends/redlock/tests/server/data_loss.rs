use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, ReleaseMode, Renew, RenewalOutcome, Wait,
};
use lockwright_redlock::Redlock;
use lockwright_testbed as testbed;

use crate::common::{Five, busy, claim_for, eventually, grant, options};

const LARGEST_TTL: Duration = Duration::from_secs(4);

/// Nodes 0 to 2 store a hold of `x`, and the others are down.
async fn bare_quorum() -> (Five, Redlock, Claim, Instant) {
    let servers = testbed::Redis::options().append_only("always");
    let mut five = Five::start_as(servers, options().largest_ttl(LARGEST_TTL)).await;
    let redlock = five.connect().await;
    five.each([3, 4], |server| server.kill());
    let held = claim_for("x", LARGEST_TTL);
    let since = Instant::now();
    grant(&redlock, &held).await;
    (five, redlock, held, since)
}

async fn exclusive_hold_excludes_all_others(five: &Five, since: Instant) {
    let other = five.connect().await;
    let granted = loop {
        let next = claim_for("x", LARGEST_TTL);
        let asked = other.try_acquire(&next).await;
        if let Ok(AcquireOutcome::Granted(_)) = asked {
            break since.elapsed();
        }
        assert!(since.elapsed() < LARGEST_TTL * 5, "late: nobody ever got in: {asked:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(granted >= LARGEST_TTL, "somebody got in after {granted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_restarted_empty_lets_no_second_holder_in() {
    // If the emptied node 2 voted, it would complete a quorum with nodes 3 and 4.
    let (mut five, _redlock, _held, since) = bare_quorum().await;
    five.each([3, 4], |server| server.restart(true).unwrap());
    five.server(2).kill();
    five.server(2).restart(false).unwrap();
    exclusive_hold_excludes_all_others(&five, since).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_node_lets_no_second_holder_in() {
    let (mut five, _redlock, _held, since) = bare_quorum().await;
    five.each([3, 4], |server| server.restart(true).unwrap());
    // After the flush, `other` still has the old incarnation, and must get no grant.
    let other = five.connect().await;
    busy(&other, &claim_for("x", LARGEST_TTL), Wait::No).await;
    five.server(1).command::<()>(&["FLUSHALL"]).unwrap();
    let next = claim_for("x", LARGEST_TTL);
    let answer = other.try_acquire(&next).await;
    assert!(!matches!(answer, Ok(AcquireOutcome::Granted(_))), "{answer:?}");
    exclusive_hold_excludes_all_others(&five, since).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_kept_every_write_votes_at_once() {
    let (mut five, redlock, held, _) = bare_quorum().await;
    five.server(2).kill();
    five.server(2).restart(true).unwrap();
    let hold = Renew::of(&held);
    eventually(async || {
        let renewed = redlock.renew(&[hold]).await.ok()?;
        assert!(!matches!(renewed[0].outcome, RenewalOutcome::NotHeld(_)), "{renewed:?}");
        (renewed[0].outcome == RenewalOutcome::Renewed { valid: None }).then_some(())
    })
    .await;
    redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    grant(&redlock, &claim_for("x", LARGEST_TTL)).await;
}
