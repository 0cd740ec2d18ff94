use lockwright_core::{BreakMode, BreakTarget, DistributedLock, ErrorKind, ReleaseMode, Token};

use crate::common::{
    FOR_EVER, busy, claim, connect, fails, grant, grant_next, name, one_server, released,
    server_and_client,
};

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

#[tokio::test(flavor = "multi_thread")]
async fn nested_names_are_independent_also_raw() {
    let cluster = one_server();
    for url in [cluster.url(), format!("{}?names=raw&prefix=raw/", cluster.url())] {
        let (one, other) = (connect(&url).await, connect(&url).await);
        let claims: Vec<_> = ["a/b/c", "a/b", "a", "a/"].map(claim).into();
        for claim in &claims {
            grant(&one, claim).await;
        }
        for held in &claims {
            let waits = claim(held.name.as_str());
            busy(&other, &waits, FOR_EVER).await;
            assert_eq!(one.inspect(&held.name).await.unwrap().waiters, Some(1), "{}", held.name);
            released(&one, held, ReleaseMode::Plain).await;
            grant_next(&other, &waits).await;
            other.release(&waits, ReleaseMode::Plain).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_lease_does_not_run_out() {
    let (cluster, etcd) = server_and_client().await;
    let value = format!("{{\"token\":\"{}\"}}", Token::random());
    cluster.ctl(&["put", "lockwright/a/77", &value]).unwrap();
    let holders = etcd.inspect(&name("a")).await.unwrap().holders;
    assert!(holders[0].endless && holders[0].remaining.is_none(), "{holders:?}");
    let broken =
        etcd.break_lock(&name("a"), BreakTarget::Any, BreakMode::RunOut, "me", "why").await;
    fails(broken, ErrorKind::Conflict);
    etcd.break_lock(&name("a"), BreakTarget::Any, BreakMode::Now, "me", "why").await.unwrap();
    grant(&etcd, &claim("a")).await;
}

/// With raw names, keys of `a/b` lie among those of `a`, and a page may end at any key.
#[tokio::test(flavor = "multi_thread")]
async fn raw_names_are_all_listed_once_wherever_a_page_ends() {
    let cluster = one_server();
    let mut client = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
    let etcd = connect(&format!("{}?names=raw&prefix=raw/", cluster.url())).await;
    // The first page ends within the nested names of `a`.
    let mut expected: Vec<String> = (0..799).map(|at| format!("a/0{at:03}")).collect();
    expected.extend(["a/0", "a/0/0", "a/z0", "a/z0/b", "a/z1", "b"].map(str::to_owned));
    for name in &expected {
        client.put(format!("raw/{name}/1"), "", None).await.unwrap();
    }
    // Keys of `a` lie before, between and after the nested names. One more key has no valid name.
    expected.push("a".to_owned());
    for key in ["a/0", "a/05", "a/07998", "a/5", "a/zz"] {
        client.put(format!("raw/{key}"), "", None).await.unwrap();
    }
    client.put([&b"raw/a/y\xff"[..], b"/"].concat(), "", None).await.unwrap();
    expected.sort();
    for prefix in ["", "a/0", "a/", "a"] {
        let mut expected = expected.clone();
        expected.retain(|name| name.starts_with(prefix));
        let (mut listed, mut pages, mut from) = (Vec::new(), 0, None);
        loop {
            let page = etcd.list(prefix, from).await.unwrap();
            for inspection in page.names {
                let is_a = inspection.name.as_str() == "a";
                assert_eq!(inspection.waiters, Some(if is_a { 4 } else { 0 }), "{inspection:?}");
                listed.push(inspection.name.to_string());
            }
            pages += 1;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        listed.sort();
        assert_eq!(listed, expected, "{prefix:?}");
        assert!(pages > 1, "one page held all: it showed nothing");
    }
}
