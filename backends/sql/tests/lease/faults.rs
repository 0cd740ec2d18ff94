//! Tests of server faults. An error must state whether the request may have had an effect.

use super::server::*;
use super::{READ_ONLY, SHORT_LIMIT};
use crate::support::*;

async fn impatient(url: &str) -> Backend {
    patient(url).response_timeout(ms(1_000)).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_hangs_nothing() {
    let server = Server::start().unwrap();
    let (reading, writing) = (impatient(&server.url()).await, impatient(&server.url()).await);
    let held = hold(&writing, "x").await;
    server.freeze();
    let begun = Instant::now();
    refused(reading.inspect(&name("x")).await, ErrorKind::Unavailable, "");
    let changing = writing.release(&held, ReleaseMode::Plain).await;
    refused(changing, ErrorKind::Indeterminate, "");
    assert!(begun.elapsed() < LIMIT, "late: {:?}", begun.elapsed());
    server.thaw();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_indeterminate() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let backend = impatient(&server.url_through(proxy.port())).await;
    grant(&backend, &claim("warm")).await;
    proxy.set(Traffic::SwallowAnswers);
    let held = claim("x");
    refused(backend.try_acquire(&held).await, ErrorKind::Indeterminate, "");
    let direct = connect(&server.url()).await;
    eventually(|| async {
        let shown = direct.inspect(&name("x")).await.unwrap();
        shown.holders.first().map(|holder| assert_eq!(holder.token, Some(held.token)))
    })
    .await;
    proxy.mend();
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), AcquireOutcome::Granted(_)));
}

#[tokio::test]
async fn it_comes_back_by_itself() {
    let (mut server, backend) = start().await;
    let held = claim("x");
    let fence = grant(&backend, &held).await.fence;
    assert!(server.terminate_sessions().unwrap() > 0);
    // At most one request fails on a dead connection.
    if let Err(error) = backend.try_acquire(&held).await {
        let honest = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate);
        assert!(honest, "{error:?}");
    }
    assert_eq!(grant(&backend, &held).await.fence, fence);
    server.kill();
    let _ = backend.try_acquire(&held).await.unwrap_err();
    refused(backend.try_acquire(&held).await, ErrorKind::Unavailable, "");
}

#[tokio::test]
async fn refused_statement_has_no_effect() {
    let (server, backend) = start().await;
    acquire_and_release(&backend, "x").await;

    server.sql(SHORT_LIMIT[0]).unwrap();
    let hurried = connect(&server.url()).await;
    let row = lock_lease(&server, "x").await;
    let late = claim("x");
    refused(hurried.try_acquire(&late).await, ErrorKind::Unavailable, "");
    drop(row);
    server.sql(SHORT_LIMIT[1]).unwrap();
    assert!(backend.inspect(&name("x")).await.unwrap().holders.is_empty());

    server.sql(READ_ONLY[0]).unwrap();
    server.terminate_sessions().unwrap();
    let _ = backend.inspect(&name("x")).await;
    refused(backend.try_acquire(&late).await, ErrorKind::Unavailable, "");
    server.sql(READ_ONLY[1]).unwrap();
    grant(&backend, &late).await;

    server.sql("DROP TABLE lockwright_tombstone").unwrap();
    refused(backend.try_acquire(&claim("y")).await, ErrorKind::InvalidConfig, "lockwright schema");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_request_spoils_nothing() {
    let (server, backend) = start().await;
    acquire_and_release(&backend, "x").await;
    for _ in 0..6 {
        let mut row = lock_lease(&server, "x").await;
        let dropped = claim("x");
        let asking = timeout(ms(100), backend.try_acquire(&dropped));
        assert!(asking.await.is_err(), "the row is locked");
        acquire_and_release(&backend, "y").await;
        row.execute("COMMIT").await.unwrap();
        backend.release(&dropped, ReleaseMode::Reconcile).await.unwrap();
        assert!(backend.inspect(&name("x")).await.unwrap().holders.is_empty());
    }
}
