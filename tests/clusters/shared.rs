use std::sync::Arc;
use std::time::Duration;

use lockwright_conformance::queue_tests;
use lockwright_core::Locks;

use super::server_and_client;
use crate::common::{Backend, cluster_and_client, connect, entries};

/// ZooKeeper's readers may be at servers that lag behind each other.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_waited_share_a_fence() {
    let (cluster, backend) = cluster_and_client().await;
    let other = connect(&cluster.url()).await;
    queue_tests::readers_that_waited_share_a_fence(&backend, &other).await;
    assert_eq!(entries(&cluster, "x").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_gives_up_leaves_readers_their_fence() {
    let (_server, backend) = server_and_client().await;
    queue_tests::a_writer_that_gives_up_leaves_readers_their_fence(&backend).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_claim_leaves_nothing() {
    let (server, backend) = server_and_client().await;
    queue_tests::refused_request_leaves_nothing(&backend, async || entries(&server, "x").await)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_are_kept_in_order() {
    let (cluster, backend) = cluster_and_client().await;
    let locks = |backend: Backend| {
        Locks::builder(Arc::new(backend)).ttl(Duration::from_secs(20)).build().unwrap()
    };
    let clients = [locks(backend), locks(connect(&cluster.url()).await)];
    queue_tests::many_waiters_are_kept_in_order(&clients).await;
    for name in ["rw", "permits"] {
        assert_eq!(entries(&cluster, name).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_get_at_most_all_permits() {
    let (cluster, backend) = cluster_and_client().await;
    let other = Arc::new(connect(&cluster.url()).await);
    queue_tests::those_who_ask_at_once_get_no_more_than_there_are([Arc::new(backend), other]).await;
    assert_eq!(entries(&cluster, "x").await, 0);
}
