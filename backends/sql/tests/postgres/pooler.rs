//! Behind a pooler.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{BootInstant, DistributedLock, Settle, Wait, WakeUp};
use lockwright_testbed::{self as testbed, PgBouncer};

use crate::kit::{LIMIT, busy, claim, connect, grant, name, patient};

const WAIT: Wait = Wait::Until(BootInstant::FAR_FUTURE);

#[tokio::test(flavor = "multi_thread")]
async fn one_that_pools_transactions_is_noticed() {
    let server = testbed::Postgres::options().durable().start().unwrap();
    let pooler = PgBouncer::in_front_of(&server).set("default_pool_size", "2").start().unwrap();
    let postgres = connect(&pooler.url()).await;
    assert_eq!(postgres.profile().wake_up, WakeUp::Poll);
    let found: Vec<_> =
        postgres.doctor().await.unwrap().into_iter().map(|finding| finding.code).collect();
    assert_eq!(found, ["pooler"]);

    // One that sees through it, and one that doesn't, exclude each other, and many of our
    // connections share two of the server's.
    let direct = connect(&server.url()).await;
    let postgres = Arc::new(postgres);
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let postgres = Arc::clone(&postgres);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let held = claim(&format!("x{task}"));
                    grant(&postgres, &held).await;
                    postgres.release(&held, Settle::Answered).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let held = claim("x");
    grant(&postgres, &held).await;
    busy(&direct, &claim("x"), Wait::No).await;
    postgres.release(&held, Settle::Unanswered).await.unwrap();
    grant(&direct, &claim("x")).await;
}

/// A pooler that is busy when we connect may give two of our connections two of the server's: then
/// it is noticed later.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_not_noticed_does_no_harm() {
    let server = testbed::Postgres::start().unwrap();
    // In turn, so that the second connection isn't the first.
    let pooler = PgBouncer::in_front_of(&server)
        .set("default_pool_size", "3")
        .set("min_pool_size", "3")
        .set("server_round_robin", "1")
        .start()
        .unwrap();
    // Until it has its connections, it has one.
    let mut postgres = connect(&pooler.url()).await;
    for _ in 0..50 {
        if postgres.profile().wake_up == WakeUp::Push {
            break;
        }
        let busy: Vec<_> = (0..3).map(|_| pooler.sql("SELECT pg_sleep(0.01)")).collect();
        drop(busy);
        postgres = connect(&pooler.url()).await;
    }
    assert_eq!(postgres.profile().wake_up, WakeUp::Push, "it was always noticed");
    let postgres = Arc::new(postgres);
    // What is prepared doesn't stay with our connections.
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let postgres = Arc::clone(&postgres);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let held = claim(&format!("x{task}"));
                    grant(&postgres, &held).await;
                    postgres.release(&held, Settle::Answered).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // Nothing is told, so a waiter is soon told to ask often.
    let held = claim("x");
    grant(&postgres, &held).await;
    let second = claim("x");
    let asking = async {
        loop {
            let refused = busy(&postgres, &second, WAIT).await;
            if refused.retry_after.unwrap() <= Duration::from_millis(100) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LIMIT, asking).await.expect("it is noticed");
    postgres.release(&held, Settle::Answered).await.unwrap();
    assert!(postgres.inspect(&name("x")).await.unwrap().holders.is_empty());
}

#[tokio::test]
async fn one_that_pools_sessions_is_as_good_as_none() {
    let server = testbed::Postgres::start().unwrap();
    let pooler = PgBouncer::in_front_of(&server).pool_mode("session").start().unwrap();
    let postgres = patient(&pooler.url()).connect().await.unwrap();
    assert_eq!(postgres.profile().wake_up, WakeUp::Push);
    let held = claim("x");
    grant(&postgres, &held).await;
    postgres.release(&held, Settle::Answered).await.unwrap();
}
