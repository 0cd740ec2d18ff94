use super::LOCK_FENCES;
use super::server::*;
use crate::support::*;

in_each_mode!(plain; a_broken_hold_runs_out_at_every_level_of_isolation,
    fences_grow_after_a_restore,
    a_refused_request_takes_no_fence,
    readers_before_and_after_a_waiting_writer_differ_in_fence);

/// In the mode `row`, the renewal must see a break that was committed after the hold's transaction
/// began.
async fn a_broken_hold_runs_out_at_every_level_of_isolation(server: &Server, mode: &str) {
    set_isolation(server, "repeatable read");
    let backend = backend(server, mode).await;
    let held = hold(&backend, "x").await;
    let (how, seen) = (BreakMode::RunOut, BreakTarget::Token(held.token));
    backend.break_lock(&held.name, seen, how, "us", "test").await.unwrap();
    assert_eq!(renew(&backend, &held).await, Renewal::not_held(Reason::Broken), "{mode}");
}

/// A crash may lose the sequence's last numbers, and empties the unlogged tables. The test moves
/// the sequence ahead, as if the clock had stepped back.
#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_after_a_crash() {
    let mut server = Server::options().durable().start().unwrap();
    for mode in MODES {
        let one = backend(&server, mode).await;
        raise_last_fence(&server, mode);
        let last = grant(&one, &claim_for("x", LONG)).await.fence;
        // Simulates the loss of ten million fences.
        set_floor(&server, last.get() - 10_000_000);
        drop(one);
        server.kill();
        server.restart(true).unwrap();
        assert_eq!(count(&server, "SELECT count(*) FROM lockwright_hold_raised"), 0);
        let two = backend(&server, mode).await;
        for name in ["x", "y"] {
            let next = grant(&two, &claim_for(name, LONG)).await.fence;
            assert!(next > last, "{mode}: {name} has {next} after {last}");
        }
    }
}

/// Sets the sequence of fences back, as a restored backup does.
async fn fences_grow_after_a_restore(server: &Server, mode: &str) {
    let last = grant(&backend(server, mode).await, &claim_for("x", LONG)).await.fence;
    set_floor(server, last.get() - 3_600_000_000);
    let next = grant(&backend(server, mode).await, &claim_for("y", LONG)).await.fence;
    assert!(next > last, "{mode}: {next} after {last}");
}

/// Another session locks the sequence, so the acquire waits for its fence until the test ends the
/// acquire's session.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_retries_if_its_session_ends_before_the_fence() {
    let server = Server::start().unwrap();
    let backend = backend(&server, "session").await;
    acquire_and_release(&backend, "x").await;
    let mut locking = session_after(&server, LOCK_FENCES).await;
    let claim = claim_for("x", LONG);
    let ending = async {
        let has_locked = async || sessions_of(&server, claim.token) == 1;
        within(ms(2_000), "the lock", has_locked).await;
        end_session_of(&server, claim.token);
        run(&mut locking, "COMMIT").await;
    };
    tokio::join!(grant(&backend, &claim), ending);
    backend.release(&claim, ReleaseMode::Plain).await.unwrap();
    assert!(!is_busy(&backend, &claim_for("x", LONG)).await);
}

/// After five seconds, the acquire's wait for the sequence fails. The connection is silent, so the
/// server must release the lock. In the second case, the previous claim's idle timeout does so.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_of_the_fence_leaves_no_lock() {
    tokio::join!(
        the_lock_ends_within(ms(7_000), ms(1_000)),
        the_lock_ends_within(ms(17_000), ms(10_000))
    );
}

async fn the_lock_ends_within(limit: Duration, ttl: Duration) {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let backend = backend_through(&server, proxy.port(), "session").await;
    let first = claim_for("x", ttl);
    grant(&backend, &first).await;
    backend.release(&first, ReleaseMode::Plain).await.unwrap();
    let _locking = session_after(&server, LOCK_FENCES).await;
    let claim = claim_for("x", ttl);
    let acquiring = backend.acquire(&claim, Wait::No);
    let failing = async {
        let has_locked = async || sessions_of(&server, claim.token) == 1;
        within(ms(2_000), "the lock", has_locked).await;
        proxy.set(Traffic::SwallowAll);
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
        within(limit, "the end of the lock", async || count(&server, locks) == 0).await;
    };
    let (answer, ()) = tokio::join!(acquiring, failing);
    answer.unwrap_err();
}

/// The TTL equals a session's default idle timeout, but the client must still set the timeout.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_a_minute_has_its_own_timeout() {
    let server = Server::start().unwrap();
    let backend = backend(&server, "row").await;
    let claim = claim_for("x", ms(60_000));
    grant(&backend, &claim).await;
    let sent = "SELECT query FROM pg_stat_activity \
                WHERE application_name = 'lockwright/own' AND state = 'idle in transaction'";
    let sent = server.sql(sent).unwrap();
    assert!(sent.trim_end().ends_with(", 60000)"), "{sent}");
}

/// A request that takes a fence before it has the lock could get a lower fence than the previous
/// holder's.
async fn a_refused_request_takes_no_fence(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, backend(server, mode).await);
    let held = hold(&one, "x").await;
    let last = floor(server);
    for refused in [claim_for("x", LONG), reader("x", LONG)] {
        assert!(is_busy(&two, &refused).await);
        assert_eq!(floor(server), last, "{mode}, {:?}", refused.mode);
    }
    one.release(&held, ReleaseMode::Plain).await.unwrap();
}

/// A reader has the lock between two writers. The second writer's statement began before the
/// reader's row was written, so the statement doesn't see this row.
async fn readers_before_and_after_a_waiting_writer_differ_in_fence(server: &Server, mode: &str) {
    let [one, two, three] =
        [backend(server, mode).await, backend(server, mode).await, backend(server, mode).await];
    acquire_and_release(&one, "x").await;
    let first = hold(&one, "x").await;
    let (between, second) = (reader("x", LONG), claim_for("x", LONG));
    let reading = async {
        let answer = two.acquire(&between, in_time(LONG)).await.unwrap();
        assert!(matches!(answer, AcquireOutcome::Granted(_)));
        two.release(&between, ReleaseMode::Plain).await.unwrap();
    };
    let writing = async {
        within(ms(5_000), "the reader to wait", async || queued(server) == 1).await;
        let answer = three.acquire(&second, in_time(LONG)).await.unwrap();
        let AcquireOutcome::Granted(granted) = answer else { panic!("not granted") };
        three.release(&second, ReleaseMode::Plain).await.unwrap();
        granted.fence
    };
    let releasing = async {
        within(ms(5_000), "both to wait", async || queued(server) == 2).await;
        one.release(&first, ReleaseMode::Plain).await.unwrap();
    };
    let ((), last, ()) = tokio::join!(reading, writing, releasing);
    let after = reader("x", LONG);
    let fence = grant(&one, &after).await.fence;
    assert!(fence > last, "{mode}: {fence} after {last}");
    one.release(&after, ReleaseMode::Plain).await.unwrap();
}

/// The proxy delays the grant's answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_ttl_starts_at_the_grant_and_not_at_the_answer() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let one = backend(&server, "session").await;
    let two = backend_through(&server, proxy.port(), "session").await;
    let (held, waiter) = (hold(&one, "x").await, claim_for("x", LONG));
    let releasing = async {
        within(ms(5_000), "the wait", async || queued(&server) == 1).await;
        proxy.set(Traffic::Hold);
        one.release(&held, ReleaseMode::Plain).await.unwrap();
        let released = Clock::boot().now();
        sleep(ms(500)).await;
        proxy.set(Traffic::Forward);
        released
    };
    let (answer, released) = tokio::join!(two.acquire(&waiter, in_time(LONG)), releasing);
    let AcquireOutcome::Granted(granted) = answer.unwrap() else { panic!("not granted") };
    let late = granted.start.unwrap().saturating_since(released);
    assert!(late < ms(250), "it starts {late:?} after the release");
}
