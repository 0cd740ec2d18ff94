use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, DistributedLock, ErrorKind, ReleaseMode, Token, Wait,
};
use lockwright_etcd::Config;

use crate::common::{
    FOR_EVER, busy, claim, connect, fails, grant, grant_next, name, one_server, released,
    server_and_client,
};

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
async fn foreign_keys_below_a_name_are_ignored() {
    let (cluster, etcd) = server_and_client().await;
    cluster.ctl(&["put", "lockwright/a/b/c", "x"]).unwrap();
    cluster.ctl(&["put", "lockwright/a/b/", "x"]).unwrap();
    let (held, refused, waits) = (claim("a"), claim("a"), claim("a"));
    assert!(etcd.inspect(&name("a")).await.unwrap().holders.is_empty());
    grant(&etcd, &held).await;
    busy(&etcd, &refused, Wait::No).await;
    busy(&etcd, &waits, FOR_EVER).await;
    let inspection = etcd.inspect(&name("a")).await.unwrap();
    assert_eq!((inspection.holders.len(), inspection.waiters), (1, Some(1)));
    assert_eq!(inspection.holders[0].token, Some(held.token));
    etcd.release(&held, ReleaseMode::Plain).await.unwrap();
    grant_next(&etcd, &waits).await;
    let listed = etcd.list("", None).await.unwrap();
    assert_eq!(listed.names.len(), 1, "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_key_holds_and_queues_like_a_claim() {
    let (cluster, etcd) = server_and_client().await;
    cluster.ctl(&["put", "lockwright/a/77", ""]).unwrap();
    let waits = claim("a");
    let held = busy(&etcd, &claim("a"), Wait::No).await.holder.unwrap();
    assert_eq!(held.token, None);
    busy(&etcd, &waits, FOR_EVER).await;
    cluster.ctl(&["put", "lockwright/a/78", ""]).unwrap();
    cluster.ctl(&["del", "lockwright/a/77"]).unwrap();
    let attempt = etcd.acquire(&waits, FOR_EVER).await.unwrap();
    assert!(matches!(attempt, AcquireOutcome::Granted(granted) if granted.waiters), "{attempt:?}");
    etcd.release(&waits, ReleaseMode::Plain).await.unwrap();
    busy(&etcd, &claim("a"), Wait::No).await;
    let inspection = etcd.inspect(&name("a")).await.unwrap();
    assert_eq!(inspection.holders[0].remaining, None);
    assert!(inspection.holders[0].endless);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_prefixes_are_two_places() {
    let (cluster, one) = server_and_client().await;
    let other = Config::new(&cluster.url()).unwrap().key_prefix("shop/");
    let other = other.connect().await.unwrap();
    grant(&one, &claim("a")).await;
    grant(&other, &claim("a")).await;
    assert_eq!(other.list("", None).await.unwrap().names.len(), 1);
}

/// All keys that begin with some text and a slash may be the queue of another program's lock. No
/// such queue contains a tombstone.
#[tokio::test(flavor = "multi_thread")]
async fn tombstone_is_in_no_queue_of_any_prefix_on_etcd() {
    let cluster = one_server();
    for (prefix, others) in [("orders", ["orders", "orders/"]), ("shop/", ["shop", "shop/"])] {
        let config = Config::new(&cluster.url()).unwrap().key_prefix(prefix);
        let etcd = config.connect().await.unwrap();
        let ended = claim("x");
        grant(&etcd, &ended).await;
        released(&etcd, &ended, ReleaseMode::Reconcile).await;
        let left = cluster.ctl(&["get", prefix, "--prefix", "--keys-only"]).unwrap();
        assert!(left.contains(&ended.token.to_string()), "there is no tombstone: {left}");
        for raw in [false, true] {
            let config = Config::new(&cluster.url()).unwrap().key_prefix("").raw_names(raw);
            let whole = config.connect().await.unwrap();
            for name in others {
                let inspection = whole.inspect(&crate::common::name(name)).await.unwrap();
                assert_eq!(inspection.holders, [], "{name}: {left}");
                let claim = claim(name);
                grant(&whole, &claim).await;
                whole.release(&claim, ReleaseMode::Plain).await.unwrap();
            }
            assert_eq!(whole.list("", None).await.unwrap().names, []);
        }
    }
    let of_go = cluster.ctl(&["get", "orders/", "--prefix", "--keys-only"]).unwrap();
    assert_eq!(of_go.trim(), "", "etcdctl's lock of 'orders' would wait for it");
    assert_eq!(cluster.ctl(&["lock", "orders", "echo", "held"]).unwrap().trim(), "held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_lease_does_not_run_out() {
    let (cluster, etcd) = server_and_client().await;
    let value = format!("{{\"token\":\"{}\"}}", Token::random());
    cluster.ctl(&["put", "lockwright/a/77", &value]).unwrap();
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
