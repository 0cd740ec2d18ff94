use super::server::*;
use crate::support::*;

in_each_mode!(plain; a_waiters_fence_is_issued_after_the_wait);

#[tokio::test(flavor = "multi_thread")]
async fn holds_need_no_prepared_statement() {
    let server = Server::start().unwrap();
    server.sql("SET GLOBAL max_prepared_stmt_count = 0").unwrap();
    for mode in ALL_MODES {
        let backend = backend(&server, mode).await;
        for _ in 0..3 {
            acquire_and_release(&backend, "x").await;
        }
    }
    // Most of these holds share a session.
    let url = format!("{}?mode=session&connections=5", server.url());
    let backend = Backend::connect(&url).await.unwrap();
    let mut holds = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        holds.push(hold(&backend, name).await);
    }
    for held in holds {
        release(&backend, &held).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_limits_for_idle_transactions_end_no_hold() {
    let server = Server::options()
        .set("idle_transaction_timeout", "1")
        .set("idle_write_transaction_timeout", "1")
        .set("idle_readonly_transaction_timeout", "1")
        .set("max_statement_time", "1")
        .start()
        .unwrap();
    for mode in MODES {
        let one = backend(&server, mode).await;
        let held = hold(&one, "x").await;
        sleep(ms(2_500)).await;
        assert_eq!(sessions_of(&server, held.token), 1, "{mode}");
        let other = backend(&server, mode).await;
        let next = claim_for("x", LONG);
        assert!(is_busy(&other, &next).await, "{mode}");
    }
}

async fn a_waiters_fence_is_issued_after_the_wait(server: &Server, mode: &str) {
    let (one, two) = (shared(server, mode).await, shared(server, mode).await);
    let held = hold(&*one, "x").await;
    let waiting = acquiring(&two, &claim_for("x", LONG), in_time(LONG));
    until_one_waits(&*one).await;
    let meanwhile = count(server, "SELECT NEXTVAL(lockwright_hold_fence)") as u64;
    release(&*one, &held).await;
    let fence = granted(waiting).await.fence.get();
    assert!(fence > meanwhile, "{mode}: {fence}, {meanwhile}");
}

/// In the mode `row`, a hold's fence was issued in an open transaction. Other clients must still
/// get fences.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_blocks_no_fences() {
    let server = Server::start().unwrap();
    let one = backend(&server, "row").await;
    let mut open = session_after(&server, "BEGIN").await;
    // Takes more fences than the sequence caches, so that the server writes the sequence.
    run(&mut open, "SELECT COUNT(NEXTVAL(lockwright_hold_fence)) FROM seq_1_to_3000").await;
    grant(&one, &claim_for("x", ms(1_000))).await;
    let _third = backend(&server, "row").await;
    run(&mut open, "ROLLBACK").await;
}

/// A killed reader has left a record. A later writer's hold was too short for a record, so the next
/// reader must get a new fence.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_joins_only_those_who_still_read() {
    let server = Server::start().unwrap();
    let one = backend(&server, "row").await;
    let (first, second) = (reader("x", LONG), reader("x", LONG));
    let fence = grant(&one, &first).await.fence;
    assert_eq!(grant(&one, &second).await.fence, fence);
    for claim in [&first, &second] {
        one.release(claim, ReleaseMode::Plain).await.unwrap();
    }
    let record = format!(
        "INSERT INTO lockwright_reader (kind, name, token, identity, fence, ttl_ms, session, updated) \
         VALUES ('row', 'x', '{}', '', {fence}, 1000, 1, 1)",
        first.token
    );
    server.sql(&record).unwrap();
    let writer = claim_for("x", LONG);
    let between = grant(&one, &writer).await.fence;
    one.release(&writer, ReleaseMode::Plain).await.unwrap();
    let next = grant(&one, &reader("x", LONG)).await.fence;
    assert!(fence < between && between < next, "{fence}, {between}, {next}");
}

/// The clients share the tables, but connect with different default databases.
#[tokio::test(flavor = "multi_thread")]
async fn barrier_does_not_depend_on_the_default_database() {
    let server = Server::start().unwrap();
    let databases = "CREATE DATABASE one; CREATE DATABASE two; CREATE DATABASE locks";
    server.sql(databases).unwrap();
    server.sql("GRANT ALL ON *.* TO lockwright@'%'").unwrap();
    let with_default = async |database| {
        let url = server.url();
        let (start, _) = url.rsplit_once('/').unwrap();
        let url = format!("{start}/{database}?mode=row&schema=locks");
        Arc::new(Backend::connect(&url).await.unwrap())
    };
    let (one, two) = (with_default("one").await, with_default("two").await);
    let (first, writer) = (reader("x", LONG), claim_for("x", LONG));
    grant(&*one, &first).await;
    let writing = acquiring(&one, &writer, in_time(LONG));
    let second = reader("x", LONG);
    let mut reading = acquiring(&two, &second, in_time(LONG));
    // The barrier is a named lock, for which only readers wait. The writer waits for the row.
    let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
    within(ms(30_000), "the reader to wait at the barrier", async || {
        // If the barrier closes after the reader's grant, the reader starts again.
        if reading.is_finished() {
            two.release(&second, ReleaseMode::Plain).await.unwrap();
            reading = acquiring(&two, &second, in_time(LONG));
        }
        count(&server, waits) == 1
    })
    .await;
    one.release(&first, ReleaseMode::Plain).await.unwrap();
    granted(writing).await;
    one.release(&writer, ReleaseMode::Plain).await.unwrap();
    granted(reading).await;
}
