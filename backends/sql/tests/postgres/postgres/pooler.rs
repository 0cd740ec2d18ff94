use std::sync::Arc;

use lockwright_core::{BootInstant, DistributedLock, ReleaseMode, Wait, WakeUp};
use lockwright_testbed::{self as testbed, PgBouncer};

use crate::kit::{busy, claim, connect, grant, patient};

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

    // A client behind the pooler and a direct client exclude each other. Many client connections
    // share two server connections.
    let direct = connect(&server.url()).await;
    let postgres = Arc::new(postgres);
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let postgres = Arc::clone(&postgres);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let held = claim(&format!("x{task}"));
                    grant(&postgres, &held).await;
                    postgres.release(&held, ReleaseMode::Plain).await.unwrap();
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
    postgres.release(&held, ReleaseMode::Reconcile).await.unwrap();
    grant(&direct, &claim("x")).await;
}

/// A `LISTEN` would stay with a server connection that other clients use.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_in_a_session_of_others() {
    for ignores in [false, true] {
        let server = testbed::Postgres::start().unwrap();
        let mut pooler = PgBouncer::in_front_of(&server).set("default_pool_size", "1");
        if ignores {
            pooler = pooler.set("ignore_startup_parameters", "options,extra_float_digits");
        }
        let pooler = pooler.start().unwrap();
        let postgres = connect(&pooler.url()).await;
        assert_eq!(postgres.profile().wake_up, WakeUp::Poll, "{ignores}");
        let held = claim("x");
        grant(&postgres, &held).await;
        busy(&postgres, &claim("x"), WAIT).await;
        postgres.doctor().await.unwrap();
        postgres.release(&held, ReleaseMode::Plain).await.unwrap();
        let left = "SELECT (SELECT count(*) FROM pg_listening_channels()), \
                    (SELECT count(*) FROM pg_prepared_statements), \
                    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')";
        assert_eq!(pooler.sql(left).unwrap(), "0|0|0");
    }
}

#[tokio::test]
async fn one_that_pools_sessions_works() {
    let server = testbed::Postgres::start().unwrap();
    let pooler = PgBouncer::in_front_of(&server).pool_mode("session").start().unwrap();
    let postgres = patient(&pooler.url()).connect().await.unwrap();
    assert_eq!(postgres.profile().wake_up, WakeUp::Poll);
    let held = claim("x");
    grant(&postgres, &held).await;
    postgres.release(&held, ReleaseMode::Plain).await.unwrap();
}
