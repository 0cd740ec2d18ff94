//! Tests of waits and holds whose client closes, loses its runtime, or is cut off.

use super::server::*;
use crate::support::*;

in_each_mode!(plain; closed_waiter_leaves_the_server,
    hold_ends_with_its_runtime,
    waiter_on_a_silent_connection_ends);

async fn closed_waiter_leaves_the_server(server: &Server, mode: &str) {
    let one = shared(server, mode).await;
    let locks = client(server, mode, LONG).await;
    let holder = hold(&*one, "x").await;
    let waiting = tokio::spawn(locks.mutex("x").no_limit().acquire());
    until_one_waits(&*one).await;
    let begun = Instant::now();
    locks.close().await;
    let answer = timeout(ms(2_000), waiting).await;
    let answer = answer.unwrap_or_else(|_| panic!("{mode}: it still waits after close()")).unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Closed, "{mode}");
    within(ms(2_000), "the wait to end", async || waiters(&*one, "x").await == 0).await;
    assert!(begun.elapsed() < ms(4_000), "late: {mode}: {:?}", begun.elapsed());
    one.release(&holder, ReleaseMode::Plain).await.unwrap();
    within(ms(2_000), "the name to be free", async || is_free(&*one, "x").await).await;
}

/// When the runtime ends, it closes the hold's connection, so the server releases the lock.
async fn hold_ends_with_its_runtime(server: &Server, mode: &str) {
    let other = shared(server, mode).await;
    for round in 0..4 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1 + round % 2)
            .enable_all()
            .build()
            .unwrap();
        let url = in_mode(&server.url(), mode);
        let (guard, locks) = runtime
            .spawn(async move {
                let locks = Locks::builder(Backend::connect(&url).await.unwrap());
                let locks = locks.ttl(LONG).build().unwrap();
                (locks.mutex("x").acquire().await.unwrap(), locks)
            })
            .await
            .unwrap();
        let locks = (round < 2).then_some(locks);
        let signal = guard.signal();
        guard.check().unwrap();
        tokio::task::spawn_blocking(move || drop(runtime)).await.unwrap();
        let begun = Instant::now();
        let state = guard.check();
        assert!(state.is_err(), "{mode}: still valid {:?} after", begun.elapsed());
        assert_eq!(signal.ended().await, HoldState::Lost(Reason::SessionEnded), "{mode}");
        within(ms(5_000), "the server to free it", async || is_free(&*other, "x").await).await;
        acquire_and_release(&*other, "x").await;
        drop((guard, locks));
    }
}

/// The waiter has no time limit, so the backend itself must end a wait on the silent connection.
async fn waiter_on_a_silent_connection_ends(server: &Server, mode: &str) {
    let one = shared(server, mode).await;
    let proxy = Proxy::start(server.address()).unwrap();
    let locks = client_through(server, proxy.port(), mode, ms(3_000)).await;
    let holder = hold(&*one, "x").await;
    let waiting = tokio::spawn(locks.mutex("x").no_limit().acquire());
    until_one_waits(&*one).await;
    let accepted = proxy.accepted();
    proxy.silence_present();
    within(ms(20_000), "a retry or an error", async || {
        waiting.is_finished() || proxy.accepted() > accepted
    })
    .await;
    one.release(&holder, ReleaseMode::Plain).await.unwrap();
    let answer = timeout(ms(30_000), waiting).await;
    let answer = answer.unwrap_or_else(|_| panic!("{mode}: the waiter hangs")).unwrap();
    let guard = match answer {
        Ok(guard) => guard,
        Err(error) => {
            let kinds = [ErrorKind::Unavailable, ErrorKind::Indeterminate];
            assert!(kinds.contains(&error.kind()), "{mode}: {error:?}");
            locks.mutex("x").wait_for(ms(20_000)).acquire().await.unwrap()
        }
    };
    guard.check().unwrap();
    guard.release().await.unwrap();
}
