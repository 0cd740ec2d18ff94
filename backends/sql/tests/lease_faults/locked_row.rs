use super::server::*;
use crate::support::*;

const TTL: Duration = Duration::from_secs(3);

const LEASE: &str = "lockwright_lease";

const SHARED_HOLDER: &str = "lockwright_shared_holder";

/// Holds twenty names while another session locks one name's row in `table` for ten TTLs. The other
/// nineteen holds must stay valid.
async fn hold_twenty(table: &str, ask: impl AsyncFn(&Locks, &str) -> Guard) {
    let server = options().start().unwrap();
    let client = locks(&server.url(), TTL).await;
    let mut guards = Vec::new();
    for number in 0..20 {
        guards.push(ask(&client, &format!("held-{number}")).await);
    }
    let locking = lock_row(&server, table, "name = 'held-7'").await;
    let begun = Instant::now();
    let stuck = guards.remove(7);
    let mut signal = stuck.signal();
    let states = tokio::spawn(async move {
        let mut states = vec![signal.state()];
        while states.last().is_some_and(|state| state.is_live()) {
            states.push(signal.changed().await);
        }
        states
    });

    let other = locks(&server.url(), TTL).await;
    for number in 0..20 {
        let name = format!("other-{number}");
        let guard = timeout(Duration::from_secs(2), ask(&other, &name)).await;
        guard.expect("another name is free").release().await.unwrap();
    }

    while begun.elapsed() < TTL * 10 {
        for guard in &guards {
            guard.check().unwrap_or_else(|error| {
                panic!("{} after {:?}: {error:?}", guard.name(), begun.elapsed())
            });
        }
        sleep(ms(50)).await;
    }
    let states = states.await.unwrap();
    assert!(states.contains(&HoldState::AtRisk), "{states:?}");
    assert!(matches!(states.last(), Some(HoldState::Lost(_))), "{states:?}");
    drop(locking);
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_row_costs_one_hold_of_twenty() {
    hold_twenty(LEASE, async |locks, name| locks.mutex(name).acquire().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_row_costs_one_reader_of_twenty() {
    hold_twenty(LEASE, async |locks, name| locks.read(name).acquire().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_row_of_a_reader_costs_one_of_twenty() {
    hold_twenty(SHARED_HOLDER, async |locks, name| locks.read(name).acquire().await.unwrap()).await;
}

/// A renewal that waits for a reader's locked row must not lock the name's row, because other
/// readers' renewals need that row.
#[tokio::test(flavor = "multi_thread")]
async fn locked_row_of_a_reader_costs_no_other_reader_of_the_name() {
    let server = options().start().unwrap();
    let client = locks(&server.url(), TTL * 10).await;
    let mut guards = Vec::new();
    for _ in 0..20 {
        guards.push(client.read("shared").acquire().await.unwrap());
    }
    let stuck = guards.remove(7);
    let row = format!("name = 'shared' AND token = '{}'", stuck.token());
    let locking = lock_row(&server, SHARED_HOLDER, &row).await;
    let renewing = tokio::spawn(async move {
        loop {
            stuck.renew().await.unwrap_err();
            sleep(ms(10)).await;
        }
    });
    for guard in guards.iter().cycle().take(60) {
        let begun = Instant::now();
        guard.renew().await.unwrap();
        let took = begun.elapsed();
        assert!(took < ms(600), "late: a renewal took {took:?}");
    }
    assert!(!renewing.is_finished());
    renewing.abort();
    drop(locking);
}

/// Rejected readers retry almost without a pause. On PostgreSQL, they lock the name's row one after
/// another. The holder's renewals must still get the row.
#[tokio::test(flavor = "multi_thread")]
async fn busy_row_is_renewed() {
    let server = options().start().unwrap();
    let ttl = TTL * 2;
    let holder = locks(&server.url(), ttl).await;
    let guard = holder.mutex("busy").acquire().await.unwrap();
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        let client = locks(&format!("{}?connections=10", server.url()), ttl).await;
        for _ in 0..8 {
            let client = client.clone();
            readers.spawn(async move {
                loop {
                    let _ = client.read("busy").try_acquire().await;
                }
            });
        }
    }
    let begun = Instant::now();
    while begun.elapsed() < ttl * 2 {
        guard.check().unwrap_or_else(|error| {
            panic!("after {:?}: {error} ({:?})", begun.elapsed(), error.kind())
        });
        sleep(ms(20)).await;
    }
    readers.shutdown().await;
    guard.release().await.unwrap();
}
