//! Holders and waiters in other processes, which are killed or stopped.

use std::time::{Duration, Instant};

use lockwright_core::{Clock, DistributedLock, ReleaseMode, Wait};
use lockwright_sql::Mysql;
use rustix::process::Signal;

use crate::support::{
    LONG, MODES, Part, ROLE, TTL, URL, backend, claim, granted, holding, is_busy, ms, queued,
    reader, say, server, within,
};

/// The role of a child process.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of other tests, played in a process of its own"]
async fn part() {
    let ttl = Duration::from_millis(std::env::var(TTL).unwrap().parse().unwrap());
    let backend = Mysql::connect(&std::env::var(URL).unwrap()).await.unwrap();
    match &*std::env::var(ROLE).unwrap() {
        "holder" => {
            let locks = lockwright_core::Locks::builder(backend).ttl(ttl).build().unwrap();
            let guard = locks.mutex("x").acquire().await.unwrap();
            say(guard.fence());
            let ended = guard.signal().ended().await;
            say(format!("{ended:?}"));
        }
        "reader" => {
            let locks = lockwright_core::Locks::builder(backend).ttl(ttl).build().unwrap();
            let guard = locks.read("x").acquire().await.unwrap();
            say(guard.fence());
            guard.signal().ended().await;
        }
        "waiter" => {
            say("asks");
            let _ =
                backend.acquire(&claim("x", ttl), Wait::Until(Clock::boot().now() + LONG)).await;
            say("granted");
            std::future::pending().await
        }
        other => panic!("no such part: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_holder_loses_it_within_its_ttl() {
    let server = server();
    for mode in MODES {
        let backend = backend(&server, mode).await;
        // The server counts in seconds.
        let ttl = ms(2_000);
        let mut holder = Part::start("holder", &server, mode, ttl);
        let fence: u64 = holder.hear().parse().unwrap();
        tokio::time::sleep(ttl * 2).await;
        assert!(is_busy(&backend, &claim("x", LONG)).await, "it lost its hold by itself");
        let stopped = Instant::now();
        holder.signal(Signal::STOP);
        let next = claim("x", LONG);
        let took = within(ttl + ms(500), "the stopped holder's end", async || {
            !is_busy(&backend, &next).await
        })
        .await;
        // Its last renewal was at most half a TTL earlier.
        assert!(took + ms(100) >= ttl / 2, "it was free after {took:?}");
        assert!(stopped.elapsed() <= ttl + ms(500), "{:?}", stopped.elapsed());
        assert_eq!(holding(&server), 1, "the server has more than the next one's hold");
        let again = granted(&backend, &next).await;
        assert!(again.fence.get() > fence);
        holder.signal(Signal::CONT);
        let said = holder.hear();
        assert!(said.starts_with("Lost"), "the holder says {said}");
        backend.release(&next, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_frees_at_once() {
    let server = server();
    for mode in MODES {
        let backend = backend(&server, mode).await;
        let mut holder = Part::start("holder", &server, mode, LONG);
        holder.hear();
        assert!(is_busy(&backend, &claim("x", LONG)).await);
        holder.kill();
        let next = claim("x", LONG);
        within(ms(1_000), "the killed holder's end", async || !is_busy(&backend, &next).await)
            .await;
        backend.release(&next, ReleaseMode::Plain).await.unwrap();
    }
}

/// A fence from the rolled back transaction, or from an old snapshot, would be granted twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_holder_shares_its_fence_with_nobody() {
    let server = server();
    for mode in MODES {
        let backend = backend(&server, mode).await;
        // Ahead of the clock, which would hide a fence that was rolled back.
        let first = claim("x", LONG);
        granted(&backend, &first).await;
        backend.release(&first, ReleaseMode::Plain).await.unwrap();
        server.sql("UPDATE lockwright_hold SET fence = fence + 1000000000000000").unwrap();
        let last = format!("SELECT fence FROM lockwright_hold WHERE kind = '{mode}'");
        let mut fences = vec![server.sql(&last).unwrap().parse::<u64>().unwrap()];
        for _ in 0..3 {
            let mut holder = Part::start("holder", &server, mode, LONG);
            fences.push(holder.hear().parse::<u64>().unwrap());
            let next = claim("x", LONG);
            let waiting = async {
                backend.acquire(&next, Wait::Until(Clock::boot().now() + LONG)).await.unwrap()
            };
            let killing = async {
                let until = async || queued(&server) == 1;
                within(ms(5_000), "the waiter to stand in the queue", until).await;
                holder.kill();
            };
            let (answer, ()) = tokio::join!(waiting, killing);
            let lockwright_core::AcquireOutcome::Granted(granted) = answer else {
                panic!("not granted")
            };
            fences.push(granted.fence.get());
            backend.release(&next, ReleaseMode::Plain).await.unwrap();
        }
        assert!(fences.is_sorted_by(|a, b| a < b), "{mode}: {fences:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_waiter_leaves_the_queue() {
    let server = server();
    for mode in MODES {
        let backend = backend(&server, mode).await;
        let holder = claim("x", LONG);
        granted(&backend, &holder).await;
        let mut waiter = Part::start("waiter", &server, mode, LONG);
        waiter.hear();
        within(ms(5_000), "the waiter to stand in the queue", async || queued(&server) == 1).await;
        waiter.kill();
        // The server checks its client during a wait for a `GET_LOCK`, but not for a row, where the
        // slice is the bound.
        let limit = if mode == "session" { ms(3_000) } else { ms(6_000) };
        within(limit, "the dead waiter to leave", async || queued(&server) == 0).await;
        backend.release(&holder, ReleaseMode::Plain).await.unwrap();
        assert_eq!(holding(&server), 0);
    }
}

/// It blocks new readers for the rest of a slice and a few seconds, with any TTL.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_writer_that_waits_stops_readers_for_a_bounded_time() {
    let server = server();
    for (mode, ttl) in ["row"].into_iter().flat_map(|mode| [(mode, ms(2_000)), (mode, LONG)]) {
        let backend = backend(&server, mode).await;
        let first = reader("x", LONG);
        granted(&backend, &first).await;
        let mut waiter = Part::start("waiter", &server, mode, ttl);
        waiter.hear();
        within(ms(5_000), "the writer to stop readers", async || !can_read(&backend).await).await;
        waiter.signal(Signal::STOP);
        let stopped = Instant::now();
        let limit = ttl.min(ms(5_000)) * 2 + ms(3_000);
        within(limit, "readers to be let in", async || can_read(&backend).await).await;
        assert!(stopped.elapsed() >= ms(500), "its end had come before it was stopped");
        backend.release(&first, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_reader_ends_alone() {
    let server = server();
    for mode in ["row"] {
        let backend = backend(&server, mode).await;
        let mine = reader("x", LONG);
        let mut other = Part::start("reader", &server, mode, LONG);
        let fence: u64 = other.hear().parse().unwrap();
        assert_eq!(
            granted(&backend, &mine).await.fence.get(),
            fence,
            "they read beside each other"
        );
        other.kill();
        let holders = async || backend.inspect(&mine.name).await.unwrap().holders.len();
        within(ms(2_000), "the killed reader's end", async || holders().await == 1).await;
        assert!(is_busy(&backend, &claim("x", LONG)).await, "a writer was let in beside a reader");
        assert_eq!(granted(&backend, &mine).await.fence.get(), fence, "the other's hold");
        backend.release(&mine, ReleaseMode::Plain).await.unwrap();
        let writer = claim("x", LONG);
        assert!(granted(&backend, &writer).await.fence.get() > fence);
        backend.release(&writer, ReleaseMode::Plain).await.unwrap();
    }
}

async fn can_read(backend: &Mysql) -> bool {
    let next = reader("x", LONG);
    let can = !is_busy(backend, &next).await;
    if can {
        backend.release(&next, ReleaseMode::Plain).await.unwrap();
    }
    can
}
