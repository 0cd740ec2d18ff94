//! Faults of servers: errors state the true effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{AcquireOutcome, DistributedLock, ErrorKind, ReleaseMode};
use lockwright_sql::Mysql;
use lockwright_testbed::{self as testbed, Proxy, proxy::Traffic};
use sqlx::Executor;

use crate::kit::{
    LIMIT, claim, connect, eventually, grant, locking, name, patient, server_and_client,
};

async fn impatient(url: &str) -> Mysql {
    patient(url).response_timeout(Duration::from_secs(1)).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_hangs_nothing() {
    let server = testbed::MariaDb::start().unwrap();
    let mysql = impatient(&server.url()).await;
    let held = claim("x");
    grant(&mysql, &held).await;
    server.freeze();
    let begun = Instant::now();
    let reading = mysql.inspect(&name("x")).await.unwrap_err();
    assert_eq!(reading.kind(), ErrorKind::Unavailable, "{reading:?}");
    drop(mysql);
    server.thaw();
    let mysql = impatient(&server.url()).await;
    grant(&mysql, &claim("warm")).await;
    server.freeze();
    let changing = mysql.release(&held, ReleaseMode::Plain).await.unwrap_err();
    assert_eq!(changing.kind(), ErrorKind::Indeterminate, "{changing:?}");
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    server.thaw();
    // Carried out late or never; the release reconciles both.
    let mysql = connect(&server.url()).await;
    mysql.release(&held, ReleaseMode::Reconcile).await.unwrap();
    assert!(mysql.inspect(&name("x")).await.unwrap().holders.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_indeterminate() {
    let server = testbed::MariaDb::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let mysql = impatient(&server.url_through(proxy.port())).await;
    grant(&mysql, &claim("warm")).await;
    proxy.set(Traffic::SwallowAnswers);
    let held = claim("x");
    let error = mysql.try_acquire(&held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    let direct = connect(&server.url()).await;
    eventually(|| async {
        let shown = direct.inspect(&name("x")).await.unwrap();
        shown.holders.first().map(|holder| assert_eq!(holder.token, Some(held.token)))
    })
    .await;
    // It is the same hold, on a new connection.
    proxy.mend();
    assert!(matches!(mysql.try_acquire(&held).await.unwrap(), AcquireOutcome::Granted(_)));
}

#[tokio::test]
async fn it_comes_back_by_itself() {
    let (mut server, mysql) = server_and_client().await;
    let held = claim("x");
    let fence = grant(&mysql, &held).await.fence;
    assert!(server.terminate_sessions().unwrap() > 0);
    // At most one request fails on a dead connection.
    if let Err(error) = mysql.try_acquire(&held).await {
        let honest = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate);
        assert!(honest, "{error:?}");
    }
    assert_eq!(grant(&mysql, &held).await.fence, fence);

    server.kill();
    let _ = mysql.try_acquire(&held).await.unwrap_err();
    let error = mysql.try_acquire(&held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "nobody is there: {error:?}");
    server.restart(true).unwrap();
    assert_eq!(grant(&mysql, &held).await.fence, fence, "a crash ends no hold");
}

#[tokio::test]
async fn what_the_server_refuses_has_no_effect() {
    let (server, mysql) = server_and_client().await;
    let before = claim("x");
    grant(&mysql, &before).await;
    mysql.release(&before, ReleaseMode::Plain).await.unwrap();

    server.sql("SET GLOBAL max_statement_time = 0.2").unwrap();
    let hurried = connect(&server.url()).await;
    let row = locking(&server, "x").await;
    let late = claim("x");
    let error = hurried.try_acquire(&late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    drop(row);
    server.sql("SET GLOBAL max_statement_time = 0").unwrap();
    assert!(mysql.inspect(&name("x")).await.unwrap().holders.is_empty());

    server.sql("SET GLOBAL read_only = 1").unwrap();
    let error = mysql.try_acquire(&late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    server.sql("SET GLOBAL read_only = 0").unwrap();
    grant(&mysql, &late).await;

    server.sql("DROP TABLE lockwright_tombstone").unwrap();
    let error = mysql.try_acquire(&claim("y")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("lockwright schema"), "{error}");
}

/// Nothing of a dropped request reaches the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_request_spoils_nothing() {
    let (server, mysql) = server_and_client().await;
    let mysql = Arc::new(mysql);
    let before = claim("x");
    grant(&mysql, &before).await;
    mysql.release(&before, ReleaseMode::Plain).await.unwrap();
    for _ in 0..6 {
        let mut row = locking(&server, "x").await;
        let dropped = claim("x");
        let asking = tokio::time::timeout(Duration::from_millis(100), mysql.try_acquire(&dropped));
        assert!(asking.await.is_err(), "the row is locked");
        // More requests are dropped than there are connections.
        let other = claim("y");
        grant(&mysql, &other).await;
        mysql.release(&other, ReleaseMode::Plain).await.unwrap();
        row.execute("COMMIT").await.unwrap();
        mysql.release(&dropped, ReleaseMode::Reconcile).await.unwrap();
        assert!(mysql.inspect(&name("x")).await.unwrap().holders.is_empty());
    }
}

/// Each statement of a text is committed separately.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_grant_is_indeterminate() {
    let (server, mysql) = server_and_client().await;
    server
        .sql(
            "CREATE TRIGGER slow AFTER INSERT ON lockwright_lease FOR EACH ROW \
             SET @slept = SLEEP(1)",
        )
        .unwrap();
    let held = claim("x");
    let asking = tokio::spawn(async move { (mysql.try_acquire(&held).await, held, mysql) });
    tokio::time::sleep(Duration::from_millis(400)).await;
    let mut locked = crate::kit::session(&server).await;
    locked.execute("LOCK TABLES lockwright_tombstone WRITE").await.unwrap();
    let (answer, held, mysql) = asking.await.unwrap();
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    locked.execute("UNLOCK TABLES").await.unwrap();
    let token = server.sql("SELECT token FROM lockwright_lease WHERE name = 'x'").unwrap();
    assert_eq!(token, held.token.to_string());
    mysql.release(&held, ReleaseMode::Reconcile).await.unwrap();
}
