use super::server::*;
use crate::support::*;

in_each_mode!(plain; reader_with_only_the_claims_lock_shares_no_fence,
    reader_that_returns_gets_a_later_fence);

/// Holds `x` as a writer, too briefly for a record. Returns the fence.
async fn write_briefly(backend: &Backend) -> u64 {
    let writer = claim_for("x", LONG);
    let fence = grant(backend, &writer).await.fence.get();
    backend.release(&writer, ReleaseMode::Plain).await.unwrap();
    fence
}

async fn read(backend: &Backend, claim: &Claim) -> u64 {
    grant(backend, claim).await.fence.get()
}

/// When a reader's session ends, its lock of the name may end before the claim's lock. The claim's
/// lock alone must not count as a reader.
async fn reader_with_only_the_claims_lock_shares_no_fence(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, backend(server, mode).await);
    let gone = reader("x", LONG);
    read(&one, &gone).await;
    end_session_of(server, gone.token);
    within(ms(5_000), "the session to end", async || sessions_of(server, gone.token) == 0).await;
    let lock = format!("SELECT pg_advisory_lock({})", key(&format!("{}x", gone.token)));
    let mut other = session_after(server, &lock).await;
    for table in ["lockwright_hold", "lockwright_reader"] {
        run(&mut other, &format!("UPDATE {table} SET session = pg_backend_pid()")).await;
    }
    let written = write_briefly(&two).await;
    let fence = read(&two, &reader("x", LONG)).await;
    assert!(fence > written, "{mode}: {fence} after {written}");
}

async fn reader_that_returns_gets_a_later_fence(server: &Server, mode: &str) {
    let backend = backend(server, mode).await;
    let claim = reader("x", LONG);
    read(&backend, &claim).await;
    backend.release(&claim, ReleaseMode::Plain).await.unwrap();
    let written = write_briefly(&backend).await;
    let fence = read(&backend, &claim).await;
    assert!(fence > written, "{mode}: {fence} after {written}");
}

/// The waiter's connection is silent when the server's time limit ends a statement of the wait.
#[tokio::test(flavor = "multi_thread")]
async fn waiter_is_found_after_its_statement_has_timed_out() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let one = backend(&server, "session").await;
    let two = Arc::new(backend_through(&server, proxy.port(), "session").await);
    hold(&one, "x").await;
    let waiter = claim_for("x", ms(2_000));
    let waiting = acquiring(&two, &waiter, in_time(LONG));
    within(ms(5_000), "the waiter to block", async || queued(&server) == 1).await;
    proxy.set(Traffic::Hold);
    within(ms(5_000), "the end of the statement", async || queued(&server) == 0).await;
    assert_eq!(sessions_of(&server, waiter.token), 1);
    one.release(&waiter, ReleaseMode::Plain).await.unwrap();
    assert_eq!(sessions_of(&server, waiter.token), 0);
    waiting.abort();
    assert_eq!(count(&server, "SELECT count(*) FROM pg_locks WHERE NOT granted"), 0);
}
