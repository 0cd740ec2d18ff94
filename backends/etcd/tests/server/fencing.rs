use etcd_client::{Client, Compare, CompareOp, GetOptions, Txn, TxnOp};
use lockwright_core::fencing::Fenced;
use lockwright_core::{ErrorKind, Fence, Reason};
use lockwright_etcd::fencing::transact;

use crate::common::{Cluster, fails, name, one_server};

const FENCE: &str = "order/42/fence";

const SUPERSEDED: ErrorKind = ErrorKind::Lost(Reason::Superseded);

fn fenced(fence: u64) -> Fenced {
    Fenced { name: name("orders/42"), fence: Fence::new(fence) }
}

fn put(text: &str) -> Txn {
    Txn::new().and_then([TxnOp::put("order/42", text, None)])
}

async fn get(client: &Client, key: &str) -> Option<String> {
    let found = client.kv_client().get(key, None).await.unwrap();
    found.kvs().first().map(|found| found.value_str().unwrap().to_owned())
}

async fn server() -> (Cluster, Client) {
    let cluster = one_server();
    let client = Client::connect(cluster.endpoints(), None).await.unwrap();
    (cluster, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_below_the_highest_is_refused_and_no_other() {
    let (_cluster, client) = server().await;
    for fence in [5, 5, 9, 10, 99, 100] {
        let text = fence.to_string();
        transact(&client, FENCE, &fenced(fence), put(&text)).await.unwrap();
        assert_eq!(get(&client, "order/42").await, Some(text));
    }
    for late in [99, 11, 0] {
        let answer = transact(&client, FENCE, &fenced(late), put("late")).await;
        let error = answer.unwrap_err();
        assert_eq!(error.lost_reason(), Some(Reason::Superseded));
        assert!(error.to_string().contains("100"), "{error}");
    }
    transact(&client, "another/fence", &fenced(1), put("another")).await.unwrap();
    let largest = Fence::MAX.get();
    transact(&client, FENCE, &fenced(largest), put("largest")).await.unwrap();
    fails(transact(&client, FENCE, &fenced(100), put("late")).await, SUPERSEDED);
    fails(transact(&client, FENCE, &fenced(largest + 1), put("x")).await, ErrorKind::InvalidInput);
    assert_eq!(get(&client, "order/42").await.as_deref(), Some("largest"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_own_conditions_count_and_their_answers_come() {
    let (_cluster, client) = server().await;
    let is = |text: &str| Compare::value("order/42", CompareOp::Equal, text);
    let write = |is: Compare| {
        let put = TxnOp::put("order/42", "paid", None);
        Txn::new().when([is]).and_then([put]).or_else([TxnOp::get("order/42", None)])
    };
    transact(&client, FENCE, &fenced(3), put("begun")).await.unwrap();
    for fence in [3, 4] {
        let answer = transact(&client, FENCE, &fenced(fence), write(is("nothing"))).await.unwrap();
        assert!(!answer.succeeded() && answer.op_responses().len() == 1);
    }
    assert_eq!(get(&client, "order/42").await.as_deref(), Some("begun"));
    let answer = transact(&client, FENCE, &fenced(4), write(is("begun"))).await.unwrap();
    assert!(answer.succeeded());
    assert_eq!(get(&client, "order/42").await.as_deref(), Some("paid"));
    fails(transact(&client, FENCE, &fenced(3), put("x")).await, SUPERSEDED);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fenced_write_is_rejected_and_changes_nothing() {
    let (_cluster, client) = server().await;
    for other in ["", "x", "5", "0", "0000000000000000000x"] {
        client.kv_client().put("other", other, None).await.unwrap();
        fails(transact(&client, "other", &fenced(5), put("x")).await, ErrorKind::Conflict);
        assert_eq!(get(&client, "other").await.as_deref(), Some(other));
    }
    let twice = ["a", "b"].map(|text| TxnOp::put("order/42", text, None));
    let twice = Txn::new().and_then(twice);
    fails(transact(&client, FENCE, &fenced(5), twice).await, ErrorKind::InvalidInput);
    let own = Txn::new().and_then([TxnOp::put(FENCE, "x", None)]);
    fails(transact(&client, FENCE, &fenced(5), own).await, ErrorKind::InvalidInput);
    let options = etcd_client::PutOptions::new().with_lease(42);
    let no_lease = Txn::new().and_then([TxnOp::put("order/42", "x", Some(options))]);
    fails(transact(&client, FENCE, &fenced(5), no_lease).await, ErrorKind::InvalidInput);
    let all = client.kv_client().get("order", Some(GetOptions::new().with_prefix())).await.unwrap();
    assert!(all.kvs().is_empty(), "{all:?}");
}
