//! Connections that go silent while new ones work.

use std::time::{Duration, Instant};

use lockwright_conformance::test_helpers::{LIMIT, eventually};
use lockwright_core::Locks;
use lockwright_testbed::{Postgres, Proxy};
use tokio::time::timeout;

use crate::kit::{Server, locks};

pub(crate) async fn connections_are_replaced_in_time<S: Server>() {
    let server = S::start();
    let each = [1, 2, 3, 5, 30].map(|seconds| with_ttl(&server, Duration::from_secs(seconds)));
    let [one, two, three, four, five] = each;
    tokio::join!(one, two, three, four, five);
}

async fn with_ttl<S: Server>(server: &S, ttl: Duration) {
    let proxy = Proxy::start(server.address()).unwrap();
    let client = locks::<S>(&server.url_through(proxy.port()), ttl).await;
    let name = |what: &str| format!("{what}-{}", ttl.as_secs());
    let warming = (0..4).map(|number| {
        let asking = client.mutex(name(&format!("warm-{number}")));
        tokio::spawn(async move { asking.acquire().await.unwrap().release().await.unwrap() })
    });
    for warming in warming.collect::<Vec<_>>() {
        warming.await.unwrap();
    }
    let held = client.mutex(name("held")).acquire().await.unwrap();
    proxy.silence_present();
    let begun = Instant::now();
    let free = client.mutex(name("free")).acquire().await.unwrap();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{ttl:?}: a free lock took {took:?}");
    while begun.elapsed() < ttl + ttl / 2 {
        held.check().unwrap_or_else(|error| panic!("{ttl:?} after {:?}: {error}", begun.elapsed()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    free.release().await.unwrap();
    held.release().await.unwrap();
}

/// The caller drops each request long before the client's own limit.
pub(crate) async fn dropped_request_replaces_connections<S: Server>() {
    const CONNECTIONS: usize = 40;
    let server = S::start();
    let proxy = Proxy::start(server.address()).unwrap();
    let url = format!("{}?connections={}", server.url_through(proxy.port()), CONNECTIONS + 10);
    let backend = S::patient_backend(&url, LIMIT).await;
    let client = Locks::builder(backend).ttl(LIMIT * 4).wait(Some(LIMIT)).build().unwrap();
    // Requests that wait for the table open more connections than the dropped requests can use up.
    let locking = server.lock_table().await;
    let warming = (0..CONNECTIONS).map(|number| {
        let asking = client.mutex(format!("warm-{number}"));
        tokio::spawn(async move { asking.acquire().await.unwrap().release().await.unwrap() })
    });
    let warming = warming.collect::<Vec<_>>();
    eventually(|| async { (server.sessions() >= CONNECTIONS).then_some(()) }).await;
    drop(locking);
    for warming in warming {
        warming.await.unwrap();
    }
    proxy.silence_present();
    let begun = Instant::now();
    let free = loop {
        let asking = client.mutex("free").try_acquire();
        if let Ok(answer) = timeout(Duration::from_millis(200), asking).await
            && let Some(guard) = answer.unwrap()
        {
            break guard;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "a free lock was not granted");
    };
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "a free lock took {took:?}");
    free.release().await.unwrap();
}

pub(crate) async fn listener_is_replaced(server: &Postgres) {
    let proxy = Proxy::start(server.address()).unwrap();
    let ttl = Duration::from_secs(10);
    let client = locks::<Postgres>(&server.url_through(proxy.port()), ttl).await;
    let other = locks::<Postgres>(&Server::url(server), ttl).await;
    let held = other.mutex("x").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let asking = client.mutex("x");
        async move { asking.acquire().await.unwrap() }
    });
    let listening = "SELECT min(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid > ";
    let listener = async |after: String| {
        let ask = format!("{listening}{after}");
        eventually(|| async { Some(server.sql(&ask).unwrap()).filter(|pid| !pid.is_empty()) }).await
    };
    let first = listener("0".to_owned()).await;
    proxy.silence_present();
    listener(first).await;
    held.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}
