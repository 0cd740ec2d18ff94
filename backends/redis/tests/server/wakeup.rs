use lockwright_core::{DistributedLock, Event, ReleaseMode, Wait};
use lockwright_redis::Config;

use crate::common::{
    FOR_EVER, busy, claim, events, eventually, grant, handed, name, next, server_and_client,
};

#[tokio::test]
async fn a_release_wakes_those_who_wait_and_nobody_else() {
    let (server, holder) = server_and_client().await;
    let waiter = crate::common::connect(&server.url()).await;
    let elsewhere =
        Config::new(&server.url()).unwrap().key_prefix("shop:").connect().await.unwrap();
    let mut woken = events(&waiter);
    let mut undisturbed = events(&elsewhere);

    let quiet = claim("nobody waits");
    grant(&holder, &quiet).await;
    busy(&waiter, &claim("nobody waits"), Wait::No).await;
    let (wanted, waits) = (claim("orders/42"), claim("orders/42"));
    grant(&holder, &wanted).await;
    busy(&waiter, &waits, FOR_EVER).await;

    holder.release(&quiet, ReleaseMode::Plain).await.unwrap();
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        holder.release(&claim("orders/42"), release_mode).await.unwrap();
    }
    holder.release(&wanted, ReleaseMode::Plain).await.unwrap();
    assert_eq!(handed(&mut woken).await.0, waits.token, "the only one");
    waiter.release(&waits, ReleaseMode::Plain).await.unwrap();
    let next_claim = claim("orders/42");
    grant(&holder, &next_claim).await;
    holder.release(&next_claim, ReleaseMode::Plain).await.unwrap();
    assert!(woken.try_recv().is_err());
    assert!(undisturbed.try_recv().is_err());
}

#[tokio::test]
async fn there_is_one_connection_for_everything() {
    let (server, redis) = server_and_client().await;
    let count = || {
        let clients: String = server.command(&["CLIENT", "LIST", "TYPE", "PUBSUB"]).unwrap();
        let all: String = server.command(&["CLIENT", "LIST"]).unwrap();
        // The requesting connection isn't counted.
        (clients.lines().count(), all.lines().count() - 1)
    };
    for i in 0..50 {
        grant(&redis, &claim(&format!("lock {i}"))).await;
        busy(&redis, &claim(&format!("lock {i}")), FOR_EVER).await;
    }
    eventually(|| async { (count() == (1, 1)).then_some(()) }).await;
    drop(redis);
    eventually(|| async { (count() == (0, 0)).then_some(()) }).await;
}

#[tokio::test]
async fn the_subscription_comes_back_and_everybody_who_waited_is_woken() {
    let mut server = lockwright_testbed::Redis::options().append_only("always").start().unwrap();
    let holder = crate::common::connect(&server.url()).await;
    let waiter = crate::common::connect(&server.url()).await;
    let mut woken = events(&waiter);
    for waited_for in ["a", "b"] {
        grant(&holder, &claim(waited_for)).await;
        busy(&waiter, &claim(waited_for), FOR_EVER).await;
    }
    let held = claim("c");
    grant(&holder, &held).await;
    server.restart(true).unwrap();
    let mut names = [next(&mut woken).await, next(&mut woken).await];
    names.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(names, [Event::Wake(name("a")), Event::Wake(name("b"))]);

    let waits = claim("c");
    busy(&waiter, &waits, FOR_EVER).await;
    eventually(|| async { holder.release(&held, ReleaseMode::Plain).await.ok() }).await;
    assert_eq!(handed(&mut woken).await.0, waits.token);
}
