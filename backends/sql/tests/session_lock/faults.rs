use super::server::*;
use super::{DEAD_SESSION, MODES_WITH_LATE_RECORD, NEXT_RECORD, OTHER_LOCKS, SHORT_TTL};
use crate::support::*;

in_each_mode!(plain; an_ended_session_is_reported_at_once,
    a_silent_way_is_a_loss_by_the_deadline_and_frees_within_the_ttl);

/// A limit much shorter than the time to the next renewal. On MySQL, the client checks once a
/// second whether the session exists.
const AT_ONCE: Duration = ms(2_000);

async fn an_ended_session_is_reported_at_once(server: &Server, mode: &str) {
    let proxy = Proxy::start(server.address()).unwrap();
    let locks = client_through(server, proxy.port(), mode, LONG).await;
    for is_cut in [false, true] {
        let guard = locks.mutex("x").acquire().await.unwrap();
        let fence = guard.fence();
        let begun = Instant::now();
        if is_cut {
            proxy.cut();
        } else {
            server.terminate_sessions().unwrap();
        }
        let ended = guard.signal().ended().await;
        assert_eq!(ended, HoldState::Lost(Reason::SessionEnded));
        assert!(begun.elapsed() < AT_ONCE, "late: told after {:?}", begun.elapsed());
        assert!(guard.check().is_err());
        drop(guard);
        proxy.mend();
        let again = locks.mutex("x").wait_for(ms(10_000)).acquire().await.unwrap();
        assert!(again.fence() > fence);
        again.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_reported_at_once_and_outlived() {
    for mode in MODES {
        let mut server = Server::start().unwrap();
        let (locks, other) = (client(&server, mode, LONG).await, client(&server, mode, LONG).await);
        let guard = locks.mutex("x").acquire().await.unwrap();
        let fence = guard.fence();
        let waiter = tokio::spawn(async move { other.mutex("x").no_limit().acquire().await });
        within(ms(5_000), "the waiter to stand in the queue", async || queued(&server) == 1).await;
        let begun = Instant::now();
        let signal = guard.signal();
        let told = tokio::spawn(async move { (signal.ended().await, Instant::now()) });
        let server = tokio::task::spawn_blocking(move || {
            server.restart(true).unwrap();
            server
        })
        .await
        .unwrap();
        let (ended, at) = told.await.unwrap();
        assert!(matches!(ended, HoldState::Lost(_)), "{ended:?}");
        let took = at.duration_since(begun);
        assert!(took < AT_ONCE, "late: told after {took:?}");
        drop(guard);
        let granted = waiter.await.unwrap().unwrap();
        assert!(granted.fence() > fence);
        granted.check().unwrap();
        granted.release().await.unwrap();
        let again = locks.mutex("x").wait_for(ms(10_000)).acquire().await.unwrap();
        again.release().await.unwrap();
        drop(server);
    }
}

/// The connection is silent in both directions, so the client and the server each end the hold when
/// its TTL has passed on their own clock.
async fn a_silent_way_is_a_loss_by_the_deadline_and_frees_within_the_ttl(
    server: &Server,
    mode: &str,
) {
    let proxy = Proxy::start(server.address()).unwrap();
    let ttl = SHORT_TTL;
    let locks = client_through(server, proxy.port(), mode, ttl).await;
    let other = client(server, mode, LONG).await;
    let guard = locks.mutex("x").acquire().await.unwrap();
    proxy.set(Traffic::SwallowAll);
    let begun = Instant::now();
    let next = other.mutex("x").wait_for(ttl + ms(1_500)).acquire().await.unwrap();
    assert!(guard.check().is_err(), "the old guard is valid while the next holder has the lock");
    assert!(begun.elapsed() < ttl + ms(700), "late: free after {:?}", begun.elapsed());
    let ended = guard.signal().ended().await;
    assert!(matches!(ended, HoldState::Lost(_)), "{ended:?}");
    next.release().await.unwrap();
    drop(guard);
    proxy.drop_connections();
    proxy.set(Traffic::Forward);
    let again = locks.mutex("x").wait_for(ms(10_000)).acquire().await.unwrap();
    again.release().await.unwrap();
    assert_eq!(holding(server), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_server_is_reported_soon() {
    for mode in MODES {
        let mut server = Server::start().unwrap();
        let locks = client(&server, mode, LONG).await;
        locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
        server.stop();
        // The request for `x` uses an idle session that has ended. `y` needs a new session.
        for (name, kinds) in [("x", DEAD_SESSION), ("y", &[ErrorKind::Unavailable])] {
            let begun = Instant::now();
            let error = locks.mutex(name).try_acquire().await.unwrap_err();
            assert!(kinds.contains(&error.kind()), "{error:?}");
            assert!(begun.elapsed() < ms(2_000), "late: said after {:?}", begun.elapsed());
        }
    }
}

/// The session ends between the grant and the write of the hold's row. The late write must not
/// replace the next holder's row.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_has_ended_is_not_written_down() {
    let server = Server::start().unwrap();
    let modes = MODES_WITH_LATE_RECORD.into_iter();
    for (mode, lock) in modes.flat_map(|mode| OTHER_LOCKS.map(|lock| (mode, lock))) {
        let backend = backend(&server, mode).await;
        let earlier = hold(&backend, "x").await;
        let records = "SELECT count(*) FROM lockwright_hold";
        within(ms(2_000), "a record", async || count(&server, records) == 1).await;
        backend.release(&earlier, ReleaseMode::Plain).await.unwrap();
        let mut locking = session_after(&server, lock).await;
        let late = claim_for("x", LONG);
        let acquiring = backend.acquire(&late, Wait::No);
        let ending = async {
            within(ms(2_000), "the lock to be had and its row to wait", async || {
                sessions_of(&server, late.token) == 1 && writing(&server) == 1
            })
            .await;
            end_session_of(&server, late.token);
            within(ms(2_000), "its end", async || sessions_of(&server, late.token) == 0).await;
            run(&mut locking, NEXT_RECORD).await;
            run(&mut locking, "COMMIT").await;
        };
        let (answer, ()) = tokio::join!(acquiring, ending);
        answer.unwrap_or_else(|error| panic!("{mode}, {lock}: {error:?}"));
        within(ms(2_000), "the late record", async || writing(&server) == 0).await;
        let written = server.sql("SELECT token FROM lockwright_hold WHERE name = 'x'").unwrap();
        assert!(!written.contains(&late.token.to_string()), "{mode}, {lock}: a row was written");
        server.sql("DELETE FROM lockwright_hold").unwrap();
        acquire_and_release(&backend, "x").await;
    }
}
