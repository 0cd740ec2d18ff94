use lockwright_core::ReleaseMode;

use crate::common::{claim, grant, released, server_and_client};

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_one_key_that_ends_with_the_lease() {
    let (cluster, etcd) = server_and_client().await;
    let claim = claim("orders/42");
    let granted = grant(&etcd, &claim).await;
    let keys = cluster.ctl(&["get", "", "--prefix", "--keys-only"]).unwrap();
    let key = keys.trim();
    assert!(key.starts_with("lockwright/orders%2F42/"), "{keys}");
    let fields = cluster.ctl(&["get", key, "-w", "fields"]).unwrap();
    assert!(fields.contains(&format!("\"CreateRevision\" : {}", granted.fence)), "{fields}");
    assert!(fields.contains(&claim.token.to_string()), "{fields}");
    released(&etcd, &claim, ReleaseMode::Plain).await;
    assert_eq!(cluster.ctl(&["get", "", "--prefix", "--keys-only"]).unwrap().trim(), "");
}
