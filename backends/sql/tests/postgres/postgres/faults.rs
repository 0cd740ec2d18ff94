//! Faults of servers: errors state the true effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{AcquireOutcome, DistributedLock, ErrorKind, ReleaseMode};
use lockwright_sql::Postgres;
use lockwright_testbed::{self as testbed, Proxy, proxy::Traffic};
use sqlx::Executor;

use crate::kit::{
    LIMIT, claim, connect, eventually, grant, locking, name, patient, server_and_client,
};

async fn impatient(url: &str) -> Postgres {
    patient(url).response_timeout(Duration::from_secs(1)).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_hangs_nothing() {
    let server = testbed::Postgres::start().unwrap();
    let postgres = impatient(&server.url()).await;
    let held = claim("x");
    grant(&postgres, &held).await;
    server.freeze();
    let begun = Instant::now();
    let reading = postgres.inspect(&name("x")).await.unwrap_err();
    assert_eq!(reading.kind(), ErrorKind::Unavailable, "{reading:?}");
    drop(postgres);
    server.thaw();
    let postgres = impatient(&server.url()).await;
    grant(&postgres, &claim("warm")).await;
    server.freeze();
    let changing = postgres.release(&held, ReleaseMode::Plain).await.unwrap_err();
    assert_eq!(changing.kind(), ErrorKind::Indeterminate, "{changing:?}");
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    server.thaw();
    // Carried out late or never; the release reconciles both.
    let postgres = connect(&server.url()).await;
    postgres.release(&held, ReleaseMode::Reconcile).await.unwrap();
    assert!(postgres.inspect(&name("x")).await.unwrap().holders.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_indeterminate() {
    let server = testbed::Postgres::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let postgres = impatient(&server.url_through(proxy.port())).await;
    grant(&postgres, &claim("warm")).await;
    proxy.set(Traffic::SwallowAnswers);
    let held = claim("x");
    let error = postgres.try_acquire(&held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    let direct = connect(&server.url()).await;
    eventually(|| async {
        let shown = direct.inspect(&name("x")).await.unwrap();
        shown.holders.first().map(|holder| assert_eq!(holder.token, Some(held.token)))
    })
    .await;
    // It is the same hold, on a new connection.
    proxy.mend();
    assert!(matches!(postgres.try_acquire(&held).await.unwrap(), AcquireOutcome::Granted(_)));
}

#[tokio::test]
async fn it_comes_back_by_itself() {
    let (mut server, postgres) = server_and_client().await;
    let held = claim("x");
    let fence = grant(&postgres, &held).await.fence;
    assert!(server.terminate_sessions().unwrap() > 0);
    // At most one request fails on a dead connection.
    if let Err(error) = postgres.try_acquire(&held).await {
        let honest = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate);
        assert!(honest, "{error:?}");
    }
    assert_eq!(grant(&postgres, &held).await.fence, fence);

    server.kill();
    let _ = postgres.try_acquire(&held).await.unwrap_err();
    let error = postgres.try_acquire(&held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "nobody is there: {error:?}");
    server.restart(true).unwrap();
    assert_eq!(grant(&postgres, &held).await.fence, fence, "a crash ends no hold");
}

#[tokio::test]
async fn what_the_server_refuses_has_no_effect() {
    let (server, postgres) = server_and_client().await;
    let before = claim("x");
    grant(&postgres, &before).await;
    postgres.release(&before, ReleaseMode::Plain).await.unwrap();

    server.sql("ALTER ROLE lockwright SET statement_timeout = '200ms'").unwrap();
    let hurried = connect(&server.url()).await;
    let row = locking(&server, "x").await;
    let late = claim("x");
    let error = hurried.try_acquire(&late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    drop(row);
    server.sql("ALTER ROLE lockwright RESET statement_timeout").unwrap();
    assert!(postgres.inspect(&name("x")).await.unwrap().holders.is_empty());

    server.sql("ALTER DATABASE lockwright SET default_transaction_read_only = on").unwrap();
    server.terminate_sessions().unwrap();
    let _ = postgres.inspect(&name("x")).await;
    let error = postgres.try_acquire(&late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    server.sql("BEGIN READ WRITE; ALTER DATABASE lockwright RESET default_transaction_read_only; COMMIT").unwrap();
    grant(&postgres, &late).await;

    server.sql("DROP TABLE lockwright_tombstone").unwrap();
    let error = postgres.try_acquire(&claim("y")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("lockwright schema"), "{error}");
}

/// Nothing of a dropped request reaches the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_request_spoils_nothing() {
    let (server, postgres) = server_and_client().await;
    let postgres = Arc::new(postgres);
    let before = claim("x");
    grant(&postgres, &before).await;
    postgres.release(&before, ReleaseMode::Plain).await.unwrap();
    for _ in 0..6 {
        let mut row = locking(&server, "x").await;
        let dropped = claim("x");
        let asking =
            tokio::time::timeout(Duration::from_millis(100), postgres.try_acquire(&dropped));
        assert!(asking.await.is_err(), "the row is locked");
        // More requests are dropped than there are connections.
        let other = claim("y");
        grant(&postgres, &other).await;
        postgres.release(&other, ReleaseMode::Plain).await.unwrap();
        row.execute("COMMIT").await.unwrap();
        postgres.release(&dropped, ReleaseMode::Reconcile).await.unwrap();
        assert!(postgres.inspect(&name("x")).await.unwrap().holders.is_empty());
    }
}
