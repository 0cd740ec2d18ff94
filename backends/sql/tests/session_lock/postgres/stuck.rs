use rustix::process::{Pid, Signal, kill_process};

use super::server::*;
use crate::support::*;

in_each_mode!(plain; unfinished_hold_is_not_reported_as_free,
    a_failed_wait_that_was_granted_in_the_last_moment_keeps_nothing,
    a_reader_granted_in_the_last_moment_has_it_for_its_ttl);

const BLOCKED: &str = "SELECT DISTINCT pid FROM pg_locks WHERE NOT granted";

/// Suspends the server process whose id the query `pid` returns.
fn stop(server: &Server, pid: &str) -> Pid {
    let pid = Pid::from_raw(count(server, pid).try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    pid
}

/// The holder's server process is suspended, so another client can't end the hold.
async fn unfinished_hold_is_not_reported_as_free(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, backend(server, mode).await);
    let held = hold(&one, "x").await;
    let stuck = stop(server, &session_sql(held.token));
    let released = two.release(&held, ReleaseMode::Plain).await;
    let broken = break_x(&two, held.token, BreakMode::Now).await;
    let held_by = holding(server);
    kill_process(stuck, Signal::CONT).unwrap();
    assert_eq!(released.unwrap_err().kind(), ErrorKind::Indeterminate);
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Indeterminate);
    assert_eq!(held_by, 1, "it was free");
    within(ms(5_000), "its end", async || sessions_of(server, held.token) == 0).await;
    assert_eq!(two.release(&held, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_session_that_has_not_ended_is_not_said_to_be_free() {
    let server = Server::start().unwrap();
    let backend = backend(&server, "session").await;
    let mut other = Connection::connect(&server.url()).await.unwrap();
    run(&mut other, &lock("x")).await;
    let holder = "SELECT pid FROM pg_locks WHERE locktype = 'advisory'";
    let stuck = stop(&server, holder);
    let broken = break_x(&backend, None, BreakMode::Now).await;
    kill_process(stuck, Signal::CONT).unwrap();
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Indeterminate);
    within(ms(5_000), "its end", async || holding(&server) == 0).await;
}

/// The lock becomes free while the waiter's server process is suspended. The process resumes after
/// the wait's time limit, so it may report a timeout although it has the lock.
async fn a_failed_wait_that_was_granted_in_the_last_moment_keeps_nothing(
    server: &Server,
    mode: &str,
) {
    let (one, two) = (backend(server, mode).await, shared(server, mode).await);
    let (holder, waiter) = (claim_for("x", LONG), claim_for("x", LONG));
    grant(&one, &holder).await;
    let waiting = acquiring(&two, &waiter, in_time(ms(1_500)));
    within(ms(1_000), "the waiter to block", async || queued(server) == 1).await;
    let blocked = stop(server, BLOCKED);
    let released = one.release(&holder, ReleaseMode::Plain).await;
    sleep(ms(2_000)).await;
    kill_process(blocked, Signal::CONT).unwrap();
    released.unwrap();
    match waiting.await.unwrap() {
        Ok(AcquireOutcome::Granted(_)) => two.release(&waiter, ReleaseMode::Plain).await,
        _ => two.release(&waiter, ReleaseMode::Reconcile).await,
    }
    .unwrap();
    // This claim reuses the waiter's session, which could still have the lock of `x`.
    let other = hold(&*two, "y").await;
    within(ms(2_000), "the name to be free", async || is_free(&one, "x").await).await;
    two.release(&other, ReleaseMode::Plain).await.unwrap();
}

/// The reader's connection becomes silent before the lock is granted. The server must still end the
/// hold after its TTL.
async fn a_reader_granted_in_the_last_moment_has_it_for_its_ttl(server: &Server, mode: &str) {
    let proxy = Proxy::start(server.address()).unwrap();
    let two = Arc::new(backend_through(server, proxy.port(), mode).await);
    let one = backend(server, mode).await;
    let (holder, waiter) = (claim_for("x", LONG), reader("x", ms(1_000)));
    grant(&one, &holder).await;
    let waiting = acquiring(&two, &waiter, in_time(LONG));
    within(ms(5_000), "the reader to block", async || queued(server) == 1).await;
    let blocked = stop(server, BLOCKED);
    proxy.set(Traffic::SwallowAll);
    let released = one.release(&holder, ReleaseMode::Plain).await;
    sleep(waiter.ttl + ms(500)).await;
    kill_process(blocked, Signal::CONT).unwrap();
    released.unwrap();
    let limit = waiter.ttl + ms(4_000);
    within(limit, "the name to be free", async || is_free(&one, "x").await).await;
    waiting.abort();
}
