use std::error::Error as _;

use lockwright_core::fencing::Fenced;
use lockwright_core::{ErrorKind, Fence, Reason, Result};
use lockwright_zookeeper::fencing::commit;
use zookeeper_client::{self as zk, Client};

use crate::common::{Cluster, fails, name, one_server, persistent, raw};

const FENCE: &str = "/order/fence";
const ORDER: &str = "/order";

fn fenced(fence: u64) -> Fenced {
    Fenced { name: name("orders/42"), fence: Fence::new(fence) }
}

async fn server() -> (Cluster, Client) {
    let server = one_server();
    let client = raw(&server.url()).await;
    client.create(ORDER, b"", &persistent()).await.unwrap();
    (server, client)
}

async fn put(client: &Client, fence: &Fenced, text: &str) -> Result<Vec<zk::MultiWriteResult>> {
    commit(client, FENCE, fence, |write| write.add_set_data(ORDER, text.as_bytes(), None)).await
}

async fn get(client: &Client) -> String {
    String::from_utf8(client.get_data(ORDER).await.unwrap().0).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_increase_up_to_the_largest() {
    let (_server, client) = server().await;
    let largest = Fence::MAX.get();
    for fence in [5, 5, 10, 100, largest] {
        let text = fence.to_string();
        let results = put(&client, &fenced(fence), &text).await.unwrap();
        assert!(matches!(results[..], [zk::MultiWriteResult::SetData { .. }]), "{results:?}");
        assert_eq!(get(&client).await, text);
    }
    fails(put(&client, &fenced(100), "late").await, ErrorKind::Lost(Reason::Superseded));
    fails(put(&client, &fenced(largest + 1), "x").await, ErrorKind::InvalidInput);
    assert_eq!(get(&client).await, largest.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_operation_undoes_all_and_is_reported() {
    let (_server, client) = server().await;
    put(&client, &fenced(3), "begun").await.unwrap();
    let answer = commit(&client, FENCE, &fenced(4), |write| {
        write.add_set_data(ORDER, b"paid", None)?;
        write.add_delete("/nothing", None)
    })
    .await;
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let cause = error.source().unwrap().downcast_ref::<zk::MultiWriteError>().unwrap();
    let expected = zk::MultiWriteError::OperationFailed { index: 1, source: zk::Error::NoNode };
    assert_eq!(*cause, expected);
    assert_eq!(get(&client).await, "begun");
    put(&client, &fenced(3), "nothing was noted").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fenced_write_is_rejected_and_changes_nothing() {
    let (_server, client) = server().await;
    client.create("/other", b"", &persistent()).await.unwrap();
    let write = |write: &mut zk::MultiWriter<'_>| write.add_set_data(ORDER, b"x", None);
    for other in ["", "x", "05", "-1", "5 "] {
        client.set_data("/other", other.as_bytes(), None).await.unwrap();
        fails(commit(&client, "/other", &fenced(5), write).await, ErrorKind::Conflict);
    }
    for path in ["/nothing/fence", "no path"] {
        fails(commit(&client, path, &fenced(5), write).await, ErrorKind::InvalidInput);
    }
    assert_eq!(get(&client).await, "");
}

/// A later holder writes after the fence was read, and before the operations are sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_holder_that_comes_in_between_is_noticed() {
    let (_server, client) = server().await;
    put(&client, &fenced(3), "begun").await.unwrap();
    let answer = commit(&client, FENCE, &fenced(4), |write| {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(put(&client, &fenced(5), "paid")).unwrap()
        });
        write.add_set_data(ORDER, b"late", None)
    })
    .await;
    fails(answer, ErrorKind::Lost(Reason::Superseded));
    assert_eq!(get(&client).await, "paid");
}
