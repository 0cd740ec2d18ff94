use sqlx::postgres::PgListener;

use super::server::*;
use crate::support::*;

const LISTENERS: &str = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'lockwright' \
                         AND application_name = 'lockwright' AND query LIKE 'LISTEN%'";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_published_that_nobody_waits_for() {
    let (server, holder) = start().await;
    let waiter = connect(&server.url()).await;
    let mut listener = PgListener::connect(&server.url()).await.unwrap();
    listener.listen("lockwright").await.unwrap();
    for i in 0..10 {
        let held = claim(&format!("quiet/{i}"));
        grant(&holder, &held).await;
        busy(&waiter, &claim(&format!("quiet/{i}")), Wait::No).await;
        holder.release(&held, ReleaseMode::Plain).await.unwrap();
    }
    assert_eq!(count(&server, LISTENERS), 0, "nobody waits, so nobody of ours listens");
    let held = hold(&holder, "loud").await;
    let mut told = events(&waiter);
    busy(&waiter, &claim("loud"), FOR_EVER).await;
    holder.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(next(&mut told).await, Event::Wake(name("loud")));
    // Notifications arrive in the order of commits, so a notification for `quiet/…` would precede
    // that for `loud`.
    let hearing = async {
        loop {
            let note = listener.recv().await.unwrap();
            if !note.payload().starts_with(' ') {
                return note.payload().to_owned();
            }
        }
    };
    assert_eq!(timeout(LIMIT, hearing).await.expect("it is told"), "loud");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_listener_comes_back() {
    let (server, holder) = start().await;
    let waiter = connect(&server.url()).await;
    let mut told = events(&waiter);
    let (first, second) = (claim("x"), claim("x"));
    grant(&holder, &first).await;
    busy(&waiter, &second, FOR_EVER).await;
    assert_eq!(next(&mut told).await, Event::Wake(name("x")));
    server.terminate_sessions().unwrap();
    assert_eq!(next(&mut told).await, Event::Wake(name("x")));
    // The row still records a waiter, so the release sends a notification. The test repeats the
    // release, because the holder's first request may fail on a dead connection.
    eventually(|| async { holder.release(&first, ReleaseMode::Reconcile).await.ok() }).await;
    assert_eq!(next(&mut told).await, Event::Wake(name("x")));
}

/// The client listens for notifications in the runtime of the connect call. When that runtime has
/// ended, the client listens in a waiter's runtime.
#[test]
fn waiter_is_woken_after_the_end_of_the_first_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = plain();
    let waiter = Arc::new(runtime().block_on(connect(&server.url())));
    runtime().block_on(async {
        let holder = connect(&server.url()).await;
        let held = hold(&holder, "x").await;
        let locks = Locks::new(Arc::clone(&waiter)).unwrap();
        let waiting = tokio::spawn(locks.mutex("x").acquire());
        within(ms(5_000), "the waiter to listen", async || count(&server, LISTENERS) == 1).await;
        sleep(ms(2_000)).await;
        let attempts = locks.metrics().attempts;
        assert!(attempts < 20, "{attempts} attempts");
        holder.release(&held, ReleaseMode::Plain).await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_that_names_the_default_schema_is_woken() {
    let (server, holder) = start().await;
    let waiter = connect(&format!("{}?schema=public", server.url())).await;
    let held = hold(&holder, "x").await;
    let mut told = events(&waiter);
    busy(&waiter, &claim("x"), FOR_EVER).await;
    // A client wakes all its waiters when it begins to listen.
    assert_eq!(next(&mut told).await, Event::Wake(name("x")));
    busy(&waiter, &claim("x"), FOR_EVER).await;
    holder.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(next(&mut told).await, Event::Wake(name("x")));
}
