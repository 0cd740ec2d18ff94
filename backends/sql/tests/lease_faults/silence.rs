use super::server::*;
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_replaced_in_time() {
    let server = options().start().unwrap();
    let each = [1, 2, 3, 5, 30].map(|seconds| with_ttl(&server, Duration::from_secs(seconds)));
    let [one, two, three, four, five] = each;
    tokio::join!(one, two, three, four, five);
}

/// Locks all names at the same time, so that the pool opens many connections.
fn warm(client: &Locks, names: impl Iterator<Item = String>) -> JoinSet<()> {
    let locking = names.map(|name| {
        let asking = client.mutex(name);
        async move { asking.acquire().await.unwrap().release().await.unwrap() }
    });
    locking.collect()
}

async fn with_ttl(server: &Server, ttl: Duration) {
    let proxy = Proxy::start(server.address()).unwrap();
    let client = locks(&server.url_through(proxy.port()), ttl).await;
    let name = |what: &str| format!("{what}-{}", ttl.as_secs());
    warm(&client, (0..4).map(|number| name(&format!("warm-{number}")))).join_all().await;
    let held = client.mutex(name("held")).acquire().await.unwrap();
    proxy.silence_present();
    let begun = Instant::now();
    let free = client.mutex(name("free")).acquire().await.unwrap();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "late: {ttl:?}: a free lock took {took:?}");
    while begun.elapsed() < ttl + ttl / 2 {
        held.check()
            .unwrap_or_else(|error| panic!("{ttl:?} after {:?}: {error:?}", begun.elapsed()));
        sleep(ms(20)).await;
    }
    free.release().await.unwrap();
    held.release().await.unwrap();
}

/// The caller drops each request long before the client's own time limit. The client must
/// nevertheless replace the silent connections soon.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_request_replaces_silent_connections() {
    const CONNECTIONS: usize = 40;
    let server = options().start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let url = format!("{}?connections={}", server.url_through(proxy.port()), CONNECTIONS + 10);
    let config = Config::new(&url).unwrap().response_timeout(LIMIT);
    let backend = config.connect().await.unwrap();
    let client = Locks::builder(backend).ttl(LIMIT * 4).wait(Some(LIMIT)).build().unwrap();
    // The pool gets more connections than the dropped requests below can use.
    let locking = lock_table(&server, "lockwright_lease").await;
    let warming = warm(&client, (0..CONNECTIONS).map(|number| format!("warm-{number}")));
    eventually(|| async { (sessions(&server) >= CONNECTIONS).then_some(()) }).await;
    drop(locking);
    warming.join_all().await;
    proxy.silence_present();
    let begun = Instant::now();
    let free = loop {
        let asking = client.mutex("free").try_acquire();
        if let Ok(answer) = timeout(ms(200), asking).await
            && let Some(guard) = answer.unwrap()
        {
            break guard;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "late: a free lock was not granted");
    };
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "late: a free lock took {took:?}");
    free.release().await.unwrap();
}

/// One connection is silent, while the others answer. The client must replace only the silent one.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_request_keeps_connections_that_answer() {
    const TASKS: usize = 16;
    let server = options().start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let client = locks(&server.url_through(proxy.port()), LIMIT).await;
    let mut asking = JoinSet::new();
    for task in 0..TASKS {
        let client = client.clone();
        asking.spawn(async move {
            for number in 0.. {
                let asking = client.mutex(format!("free-{task}-{number}")).try_acquire();
                if let Ok(answer) = timeout(ms(1_000), asking).await
                    && let Some(guard) = answer.unwrap()
                {
                    drop(guard);
                }
            }
        });
    }
    eventually(|| async {
        let accepted = proxy.accepted();
        sleep(Duration::from_secs(1)).await;
        (accepted >= TASKS / 4 && proxy.accepted() == accepted).then_some(())
    })
    .await;
    let mut opened = Vec::new();
    // If the machine stops for a moment, the client replaces all connections, so the test repeats.
    let is_few = |opened: &usize| (1..=3).contains(opened);
    while opened.len() < 3 && !opened.last().is_some_and(is_few) {
        opened.push(replacements(&proxy).await);
    }
    asking.shutdown().await;
    // One new connection replaces the silent one, and a second ends the silent one's session.
    // Each late answer costs one more connection.
    assert!(opened.last().is_some_and(is_few), "late: {opened:?} new connections");
}

/// Makes a connection silent, and returns how many connections the client then opens.
async fn replacements(proxy: &Proxy) -> usize {
    let kept = proxy.kept_requests();
    let before = eventually(|| async {
        let accepted = proxy.accepted();
        for connection in 0..accepted {
            proxy.keep_requests_of(Some(connection));
            sleep(ms(20)).await;
            if proxy.kept_requests() > kept {
                return Some(accepted);
            }
        }
        None
    })
    .await;
    sleep(Duration::from_secs(2)).await;
    proxy.accepted() - before
}
