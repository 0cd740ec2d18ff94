//! A follower is cut off from its peers, with a client connected to it: it answers pings and reads as
//! if nothing was.

use lockwright_conformance::participants::now;
use lockwright_testbed::ZooKeeper;

use super::{LONG, SHORT, blocking, follower, hold_at, locks, participants, url_of, url_without};
use crate::kit::eventually;

/// For longer than the TTL: only who asks the quorum notices.
const UNNOTICED: u32 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_follower_that_is_cut_off_loses_its_hold_in_time() {
    let ensemble = ZooKeeper::options().sync_limit(UNNOTICED).start().unwrap();
    let all = participants(SHORT);
    let cut_off = follower(&ensemble);
    let ours = locks(&url_of(&ensemble, cut_off)).await;
    let others = locks(&url_without(&ensemble, cut_off)).await;
    let holder = all.hold("holder", &ours).await;
    let waiter = all.wait("waiter", &others).await;
    let since = now();
    ensemble.isolate(cut_off);
    let next = all.is_lost(&holder, waiter, since, SHORT).await;
    let mode = eventually(|| async { ensemble.members[cut_off].mode() }).await;
    assert_eq!(mode, "follower", "it still answers as if nothing was");
    ensemble.heal(cut_off);
    all.comes_back(&ours, next).await;
}

/// One that waits there isn't granted anything either, and waits on when the follower is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_at_a_follower_that_is_cut_off_gets_its_turn_later() {
    let ensemble = ZooKeeper::options().sync_limit(UNNOTICED).start().unwrap();
    let all = participants(SHORT);
    let cut_off = follower(&ensemble);
    let ours = locks(&url_of(&ensemble, cut_off)).await;
    let others = locks(&url_without(&ensemble, cut_off)).await;
    let holder = all.hold("holder", &others).await;
    let waiter = all.wait("waiter", &ours).await;
    ensemble.isolate(cut_off);
    holder.goes_on().await;
    assert!(!waiter.is_finished());
    let fence = holder.guard.fence();
    holder.release().await;
    let third = all.hold("third", &others).await;
    assert!(third.guard.fence() > fence);
    ensemble.heal(cut_off);
    third.goes_on().await;
    third.release().await;
    let last = waiter.await.unwrap();
    last.release().await;
    all.check();
}

/// Within ten ticks the follower gives up, and a client that knows the others goes on there.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_a_follower_that_is_cut_off_where_the_others_are_known() {
    let ensemble = ZooKeeper::start().unwrap();
    let all = participants(LONG);
    let first = follower(&ensemble);
    let (_ours, holder) = hold_at(first, &ensemble, &all, LONG).await;
    let others = locks(&ensemble.url()).await;
    let waiter = all.wait("waiter", &others).await;
    // And then the leader, to whom it may have gone.
    for cut_off in [first, ensemble.leader().unwrap()] {
        ensemble.isolate(cut_off);
        eventually(|| async { ensemble.members[cut_off].mode().is_none().then_some(()) }).await;
        holder.goes_on().await;
        ensemble.heal(cut_off);
        blocking(|| ensemble.wait_until_whole()).unwrap();
    }
    all.survives(holder, waiter).await;
}
