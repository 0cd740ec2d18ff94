use rustix::process::Signal;

use super::interop::{readers_of_others_stand_beside_ours, sql};
use super::processes::start;
use super::server::*;
use crate::support::*;

in_each_mode!(plain; a_stopped_writer_that_waits_holds_up_no_other);

#[tokio::test(flavor = "multi_thread")]
async fn advisory_locks_of_others_exclude_both_ways() {
    let key = key("orders/42");
    let shared = format!("SELECT pg_try_advisory_lock_shared({key})");
    let end = format!("SELECT pg_advisory_unlock_shared({key}); COMMIT");
    readers_of_others_stand_beside_ours("session", lock("orders/42"), shared, &end).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_of_another_program_is_shown() {
    let server = Server::start().unwrap();
    let backend = backend(&server, "session").await;
    let mine = reader("x", LONG);
    grant(&backend, &mine).await;
    let lock = format!("SELECT pg_advisory_lock_shared({})", key("x"));
    let _other = session_after(&server, &lock).await;
    let shown = backend.inspect(&mine.name).await.unwrap().holders;
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown.iter().all(|holder| holder.mode == Mode::Shared), "{shown:?}");
    assert!(shown.iter().any(|holder| holder.token.is_none()), "{shown:?}");
}

/// The name `b` has more readers than fit on one page of a listing. The names next to it have one
/// holder each.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_many_read_is_listed_whole() {
    const OTHERS: usize = 230;

    let server = Server::options().set("max_connections", "300").start().unwrap();
    let backend = backend(&server, "session").await;
    for held in [claim_for("a", LONG), reader("b", LONG), claim_for("c", LONG)] {
        grant(&backend, &held).await;
    }
    let mut others = Vec::new();
    for _ in 0..OTHERS {
        let mut other = Connection::connect(&server.url()).await.unwrap();
        assert!(sql(&mut other, format!("SELECT pg_try_advisory_lock_shared({})", key("b"))).await);
        others.push(other);
    }
    let listed = Locks::new(backend).unwrap().list("").await.unwrap();
    let listed: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.holders.len())).collect();
    assert_eq!(listed, [("a", 1), ("b", OTHERS + 1), ("c", 1)]);
}

/// The process of a waiting writer is suspended, so the server must end the writer's wait.
async fn a_stopped_writer_that_waits_holds_up_no_other(server: &Server, mode: &str) {
    let backend = backend(server, mode).await;
    let (first, next) = (reader("x", LONG), claim_for("x", LONG));
    grant(&backend, &first).await;
    let mut waiter = start("waiter", server, mode, LONG);
    waiter.next_line();
    within(ms(5_000), "the writer to stop readers", async || !can_read(&backend).await).await;
    waiter.signal(Signal::STOP);
    within(ms(8_000), "the stopped one to leave", async || queued(server) == 0).await;
    let waiting = backend.acquire(&next, in_time(LONG));
    let releasing = async {
        within(ms(5_000), "the next one to block", async || queued(server) == 1).await;
        backend.release(&first, ReleaseMode::Plain).await.unwrap();
        Instant::now()
    };
    let (answer, released) =
        tokio::join!(async { (waiting.await.unwrap(), Instant::now()) }, releasing);
    let (AcquireOutcome::Granted(_), at) = answer else { panic!("{answer:?}") };
    let took = at.duration_since(released);
    assert!(took < ms(2_000), "late: {mode}: it had to wait for {took:?}");
    backend.release(&next, ReleaseMode::Plain).await.unwrap();
}

/// A writer detects readers by a shared lock, which PostgreSQL rejects while another writer waits.
/// So the first writer's second wait doesn't detect the readers. The server must nevertheless end
/// this writer's suspended session soon, because the session has the barrier.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_writer_opens_its_barrier_although_another_waits() {
    let server = Server::start().unwrap();
    let backend = shared(&server, "session").await;
    grant(&*backend, &reader("x", LONG)).await;
    let mut waiter = start("waiter", &server, "session", LONG);
    waiter.next_line();
    within(ms(5_000), "the writer to stop readers", async || !can_read(&*backend).await).await;
    let barrier = "SELECT pid FROM pg_locks \
                   WHERE locktype = 'advisory' AND objsubid = 2 AND granted";
    let pid = server.sql(barrier).unwrap();
    let another = acquiring(&backend, &claim_for("x", LONG), in_time(LONG));
    within(ms(5_000), "the other writer to block", async || queued(&server) == 2).await;
    let began = || {
        server.sql(&format!("SELECT query_start FROM pg_stat_activity WHERE pid = {pid}")).unwrap()
    };
    let first = began();
    within(ms(8_000), "the second wait", async || began() != first && queued(&server) == 2).await;
    waiter.signal(Signal::STOP);
    another.abort();
    within(ms(14_000), "the barrier to open", async || can_read(&*backend).await).await;
}

/// Two tables of one database have separate locks and barriers in the mode `row`.
#[tokio::test(flavor = "multi_thread")]
async fn barrier_lets_readers_of_another_table_in() {
    let server = Server::start().unwrap();
    let of_table = async |table| {
        let url = format!("{}?mode=row&table={table}", server.url());
        Arc::new(Backend::connect(&url).await.unwrap())
    };
    let (one, two) = (of_table("one").await, of_table("two").await);
    let (first, writer) = (reader("x", LONG), claim_for("x", LONG));
    grant(&*one, &first).await;
    let waiting = acquiring(&one, &writer, in_time(LONG));
    within(ms(8_000), "the writer to stop readers", async || !can_read(&*one).await).await;
    assert!(can_read(&*two).await);
    one.release(&first, ReleaseMode::Plain).await.unwrap();
    granted(waiting).await;
    assert!(can_read(&*two).await);
}
