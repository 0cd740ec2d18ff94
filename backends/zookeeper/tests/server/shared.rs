use std::sync::Arc;
use std::time::Duration;

use lockwright_conformance::queue_tests::{self, claim_as};
use lockwright_core::{DistributedLock, ErrorKind, Locks, Mode, ReleaseMode, Wait};
use zookeeper_client as zk;

use crate::common::{
    FOR_EVER, busy, connect, ensemble_and_client, fails, grant, raw, server_and_client,
};

const PERMIT: Mode = Mode::Permits { count: 1, of: 3 };

async fn queue(raw: &zk::Client) -> Vec<String> {
    match raw.list_children("/lockwright/x").await {
        Err(zk::Error::NoNode) => Vec::new(),
        answer => answer.unwrap(),
    }
}

/// The readers' servers may lag behind each other.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_waited_share_a_fence() {
    let (ensemble, zookeeper) = ensemble_and_client().await;
    let other = connect(&ensemble.url()).await;
    queue_tests::readers_that_waited_share_a_fence(&zookeeper, &other).await;
    assert!(queue(&raw(&ensemble.url()).await).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_gives_up_leaves_readers_their_fence() {
    let (_server, zookeeper) = server_and_client().await;
    queue_tests::a_writer_that_gives_up_leaves_readers_their_fence(&zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_claim_leaves_nothing() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    queue_tests::refused_request_leaves_nothing(&zookeeper, async || queue(&raw).await.len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_are_kept_in_order() {
    let (ensemble, zookeeper) = ensemble_and_client().await;
    let locks = |zookeeper| {
        Locks::builder(Arc::new(zookeeper)).ttl(Duration::from_secs(20)).build().unwrap()
    };
    let clients = [locks(zookeeper), locks(connect(&ensemble.url()).await)];
    queue_tests::many_waiters_are_kept_in_order(&clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_get_at_most_all_permits() {
    let (ensemble, zookeeper) = ensemble_and_client().await;
    let other = Arc::new(connect(&ensemble.url()).await);
    queue_tests::those_who_ask_at_once_get_no_more_than_there_are([Arc::new(zookeeper), other])
        .await;
    assert!(queue(&raw(&ensemble.url()).await).await.is_empty());
}

/// A Curator client gets the lock ahead of a waiter for permits. The waiter's request fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_becomes_another_programs_lock_is_left() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    let (held, waits) = (claim_as(PERMIT), claim_as(PERMIT));
    grant(&zookeeper, &held).await;
    let options = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
    raw.create("/lockwright/x/_c_theirs-lock-", b"", &options).await.unwrap();
    let for_ever = FOR_EVER;
    busy(&zookeeper, &waits, for_ever).await;
    zookeeper.release(&held, ReleaseMode::Plain).await.unwrap();
    let answer = zookeeper.acquire(&waits, for_ever).await;
    fails(answer, ErrorKind::Conflict);
    assert_eq!(queue(&raw).await.len(), 1);
}

/// Nodes of Curator's mutex and of its read locks count as writers.
#[tokio::test(flavor = "multi_thread")]
async fn another_programs_node_is_a_writers() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    let options = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
    for kind in ["lock-", "__READ__"] {
        let reads = claim_as(Mode::Shared);
        grant(&zookeeper, &reads).await;
        let theirs = format!("/lockwright/x/_c_7b0a1f2e-1111-4222-8333-444455556666-{kind}");
        let (_, sequence) = raw.create(&theirs, b"", &options).await.unwrap();
        busy(&zookeeper, &claim_as(Mode::Shared), Wait::No).await;
        zookeeper.release(&reads, ReleaseMode::Plain).await.unwrap();
        let shown = zookeeper.inspect(&reads.name).await.unwrap();
        assert!(matches!(&shown.holders[..], [one] if one.mode == Mode::Exclusive), "{shown:?}");
        busy(&zookeeper, &claim_as(Mode::Shared), Wait::No).await;
        let permit = zookeeper.try_acquire(&claim_as(PERMIT)).await;
        fails(permit, ErrorKind::Conflict);
        raw.delete(&format!("{theirs}{sequence}"), None).await.unwrap();
        let again = claim_as(Mode::Shared);
        grant(&zookeeper, &again).await;
        zookeeper.release(&again, ReleaseMode::Plain).await.unwrap();
    }
}
