use rustix::process::Signal;

use super::server::*;
use super::{SHARED_MODES, SHORT_TTL, dead_waiter_limit};
use crate::support::process::{Process, ROLE, print, this_binary};
use crate::support::*;

const URL: &str = "LOCKWRIGHT_TEST_URL";
const TTL: &str = "LOCKWRIGHT_TEST_TTL_MS";

in_each_mode!(plain; a_stopped_holder_loses_it_within_its_ttl,
    a_killed_holder_frees_at_once_and_shares_its_fence_with_nobody,
    a_killed_waiter_leaves_the_queue,
    a_stopped_writer_that_waits_stops_readers_for_a_bounded_time,
    a_killed_reader_ends_alone);

pub(super) fn start(role: &str, server: &Server, mode: &str, ttl: Duration) -> Process {
    let (_, module) = module_path!().split_once("::").unwrap();
    let (url, ttl) = (in_mode(&server.url(), mode), ttl.as_millis().to_string());
    let variables = [(URL, url.as_ref()), (TTL, ttl.as_ref())];
    Process::start(this_binary(), &format!("{module}::part"), role, &variables)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of other tests, played in a process of its own"]
async fn part() {
    let ttl = ms(std::env::var(TTL).unwrap().parse().unwrap());
    let backend = Backend::connect(&std::env::var(URL).unwrap()).await.unwrap();
    match &*std::env::var(ROLE).unwrap() {
        role @ ("holder" | "reader") => {
            let locks = Locks::builder(backend).ttl(ttl).build().unwrap();
            let request = if role == "holder" { locks.mutex("x") } else { locks.read("x") };
            let guard = request.acquire().await.unwrap();
            print(guard.fence());
            let ended = guard.signal().ended().await;
            print(format!("{ended:?}"));
        }
        "waiter" => {
            print("asks");
            let _ = backend.acquire(&claim_for("x", ttl), in_time(LONG)).await;
            print("granted");
            std::future::pending().await
        }
        other => panic!("no such part: {other}"),
    }
}

async fn a_stopped_holder_loses_it_within_its_ttl(server: &Server, mode: &str) {
    for waited in [false, true] {
        let backend = backend(server, mode).await;
        let ttl = SHORT_TTL;
        let before = claim_for("x", LONG);
        if waited {
            grant(&backend, &before).await;
        }
        let mut holder = start("holder", server, mode, ttl);
        if waited {
            within(ms(5_000), "the holder to wait", async || queued(server) == 1).await;
            backend.release(&before, ReleaseMode::Plain).await.unwrap();
        }
        let fence: u64 = holder.next_line().parse().unwrap();
        sleep(ttl * 2).await;
        assert!(is_busy(&backend, &claim_for("x", LONG)).await, "it lost its hold by itself");
        let stopped = Instant::now();
        holder.signal(Signal::STOP);
        let next = claim_for("x", LONG);
        let took = within(ttl + ms(500), "the stopped holder's end", async || {
            !is_busy(&backend, &next).await
        })
        .await;
        // The last renewal was at most half a TTL before the holder was suspended.
        assert!(took + ms(100) >= ttl / 2, "it was free after {took:?}");
        assert!(stopped.elapsed() <= ttl + ms(500), "late: {:?}", stopped.elapsed());
        assert_eq!(holding(server), 1, "the server has more than the next one's hold");
        let again = grant(&backend, &next).await;
        assert!(again.fence.get() > fence);
        holder.signal(Signal::CONT);
        let said = holder.next_line();
        assert!(said.starts_with("Lost"), "the holder says {said}");
        backend.release(&next, ReleaseMode::Plain).await.unwrap();
    }
}

/// A fence could be granted twice if it were rolled back with the holder's transaction, or read
/// from an old snapshot.
async fn a_killed_holder_frees_at_once_and_shares_its_fence_with_nobody(
    server: &Server,
    mode: &str,
) {
    let backend = backend(server, mode).await;
    // A new fence may come from the server's time. The last fence is far ahead of that time, so a
    // higher fence must derive from the last one.
    acquire_and_release(&backend, "x").await;
    let mut fences = vec![raise_last_fence(server, mode)];
    for _ in 0..3 {
        let mut holder = start("holder", server, mode, LONG);
        fences.push(holder.next_line().parse::<u64>().unwrap());
        let next = claim_for("x", LONG);
        let killing = async {
            let until = async || queued(server) == 1;
            within(ms(5_000), "the waiter to stand in the queue", until).await;
            holder.kill();
            Instant::now()
        };
        let (answer, killed) = tokio::join!(backend.acquire(&next, in_time(LONG)), killing);
        let AcquireOutcome::Granted(granted) = answer.unwrap() else { panic!("not granted") };
        assert!(killed.elapsed() < ms(1_000), "late: it waited for {:?}", killed.elapsed());
        fences.push(granted.fence.get());
        backend.release(&next, ReleaseMode::Plain).await.unwrap();
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{mode}: {fences:?}");
}

async fn a_killed_waiter_leaves_the_queue(server: &Server, mode: &str) {
    let backend = backend(server, mode).await;
    let holder = hold(&backend, "x").await;
    let mut waiter = start("waiter", server, mode, LONG);
    waiter.next_line();
    within(ms(5_000), "the waiter to stand in the queue", async || queued(server) == 1).await;
    waiter.kill();
    within(dead_waiter_limit(mode), "the dead waiter to leave", async || queued(server) == 0).await;
    backend.release(&holder, ReleaseMode::Plain).await.unwrap();
    assert_eq!(holding(server), 0);
}

async fn a_stopped_writer_that_waits_stops_readers_for_a_bounded_time(server: &Server, mode: &str) {
    if !SHARED_MODES.contains(&mode) {
        return;
    }
    for ttl in [ms(2_000), LONG] {
        let backend = backend(server, mode).await;
        let first = reader("x", LONG);
        grant(&backend, &first).await;
        let mut waiter = start("waiter", server, mode, ttl);
        waiter.next_line();
        within(ms(5_000), "the writer to stop readers", async || !can_read(&backend).await).await;
        waiter.signal(Signal::STOP);
        let stopped = Instant::now();
        let limit = ttl.min(ms(5_000)) * 2 + ms(3_000);
        within(limit, "readers to be let in", async || can_read(&backend).await).await;
        assert!(stopped.elapsed() >= ms(500), "its end had come before it was stopped");
        backend.release(&first, ReleaseMode::Plain).await.unwrap();
    }
}

async fn a_killed_reader_ends_alone(server: &Server, mode: &str) {
    if !SHARED_MODES.contains(&mode) {
        return;
    }
    let backend = backend(server, mode).await;
    let mine = reader("x", LONG);
    let mut other = start("reader", server, mode, LONG);
    let fence: u64 = other.next_line().parse().unwrap();
    assert_eq!(grant(&backend, &mine).await.fence.get(), fence, "they read beside each other");
    other.kill();
    let holders = async || backend.inspect(&mine.name).await.unwrap().holders.len();
    within(ms(2_000), "the killed reader's end", async || holders().await == 1).await;
    assert!(is_busy(&backend, &claim_for("x", LONG)).await, "a writer was let in beside a reader");
    assert_eq!(grant(&backend, &mine).await.fence.get(), fence, "the other's hold");
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    let writer = claim_for("x", LONG);
    assert!(grant(&backend, &writer).await.fence.get() > fence);
    backend.release(&writer, ReleaseMode::Plain).await.unwrap();
}
