//! Dropped waits, long waits and many waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{AcquireOutcome, Clock, DistributedLock, ReleaseMode};
use lockwright_testbed::{Proxy, proxy::Traffic};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    LONG, MODES, backend, claim, client, granted, holding, in_mode, in_time, is_busy, ms, queued,
    reader, server, sessions_of, within,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_wait_leaves_no_ghost() {
    let server = server();
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, backend(&server, mode).await);
        for release_first in [false, true] {
            let (holder, waiter) = (claim("x", LONG), claim("x", LONG));
            granted(&one, &holder).await;
            {
                let mut waiting = std::pin::pin!(two.acquire(&waiter, in_time(LONG)));
                let stands = within(ms(5_000), "the waiter to stand in the queue", async || {
                    queued(&server) == 1
                });
                tokio::select! {
                    answer = &mut waiting => panic!("{answer:?}"),
                    _ = stands => {}
                }
                assert_eq!(sessions_of(&server, waiter.token), 1);
                if release_first {
                    one.release(&holder, ReleaseMode::Plain).await.unwrap();
                }
            }
            if release_first {
                // If it was granted before the drop, the client releases it.
                two.release(&waiter, ReleaseMode::Reconcile).await.unwrap();
            }
            within(ms(2_000), "the waiter's session to go", async || {
                sessions_of(&server, waiter.token) == 0 && queued(&server) == 0
            })
            .await;
            if !release_first {
                assert_eq!(holding(&server), 1, "somebody else holds something");
                assert!(is_busy(&two, &claim("x", LONG)).await);
                one.release(&holder, ReleaseMode::Plain).await.unwrap();
            }
            // For a whole slice.
            let begun = Instant::now();
            while begun.elapsed() < ms(600) {
                assert_eq!(holding(&server), 0, "a ghost owns it");
            }
            assert_eq!(
                two.release(&waiter, ReleaseMode::Reconcile).await.unwrap(),
                lockwright_core::ReleaseOutcome::NotHeld
            );
            let next = claim("x", LONG);
            granted(&two, &next).await;
            two.release(&next, ReleaseMode::Plain).await.unwrap();
        }
    }
}

/// Grant and cancellation reach the server in either order.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_dropped_as_it_is_granted_leaves_no_ghost() {
    let server = server();
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, Arc::new(backend(&server, mode).await));
        for round in 0..60 {
            let (holder, waiter) = (claim("x", LONG), claim("x", LONG));
            granted(&one, &holder).await;
            let waiting = tokio::spawn({
                let (two, waiter) = (Arc::clone(&two), waiter.clone());
                async move { two.acquire(&waiter, in_time(LONG)).await }
            });
            within(ms(5_000), "the waiter to block", async || {
                one.inspect(&holder.name).await.unwrap().waiters == Some(1)
            })
            .await;
            let dropping = async {
                // From before the release to after its end, in a fraction of a millisecond.
                tokio::time::sleep(std::time::Duration::from_micros(round % 12 * 100)).await;
                waiting.abort();
            };
            let (released, ()) = tokio::join!(one.release(&holder, ReleaseMode::Plain), dropping);
            released.unwrap();
            two.release(&waiter, ReleaseMode::Reconcile).await.unwrap();
            let next = claim("x", LONG);
            within(ms(1_000), "the name to be free", async || !is_busy(&one, &next).await).await;
            one.release(&next, ReleaseMode::Plain).await.unwrap();
        }
    }
}

/// The lock becomes free while the waiter's server process is stopped. When that continues, its
/// slice is over, so it may report a timeout in spite of the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_in_vain_that_was_granted_in_the_last_moment_keeps_nothing() {
    let server = server();
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, Arc::new(backend(&server, mode).await));
        let (holder, waiter) = (claim("x", LONG), claim("x", LONG));
        granted(&one, &holder).await;
        let waiting = tokio::spawn({
            let (two, waiter) = (Arc::clone(&two), waiter.clone());
            async move { two.acquire(&waiter, in_time(ms(1_500))).await }
        });
        within(ms(1_000), "the waiter to block", async || queued(&server) == 1).await;
        let blocked = server.sql("SELECT pid FROM pg_locks WHERE NOT granted").unwrap();
        let blocked = Pid::from_raw(blocked.trim().parse().unwrap()).unwrap();
        kill_process(blocked, Signal::STOP).unwrap();
        let released = one.release(&holder, ReleaseMode::Plain).await;
        tokio::time::sleep(ms(2_000)).await;
        kill_process(blocked, Signal::CONT).unwrap();
        released.unwrap();
        match waiting.await.unwrap() {
            Ok(AcquireOutcome::Granted(_)) => {
                two.release(&waiter, ReleaseMode::Plain).await.unwrap();
            }
            _ => {
                two.release(&waiter, ReleaseMode::Reconcile).await.unwrap();
            }
        }
        // Its session is reusable, but for another name.
        let other = claim("y", LONG);
        granted(&*two, &other).await;
        within(ms(2_000), "the name to be free", async || !is_busy(&one, &claim("x", LONG)).await)
            .await;
        two.release(&other, ReleaseMode::Plain).await.unwrap();
    }
}

/// The client then goes silent.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_granted_in_the_last_moment_has_it_for_its_ttl() {
    let server = server();
    for mode in MODES {
        let proxy = Proxy::start(server.address()).unwrap();
        let url = in_mode(&server.url_through(proxy.port()), mode);
        let two = Arc::new(lockwright_sql::Postgres::connect(&url).await.unwrap());
        let one = backend(&server, mode).await;
        let (holder, waiter) = (claim("x", LONG), reader("x", ms(1_000)));
        granted(&one, &holder).await;
        let waiting = tokio::spawn({
            let (two, waiter) = (Arc::clone(&two), waiter.clone());
            async move { two.acquire(&waiter, in_time(LONG)).await }
        });
        within(ms(5_000), "the reader to block", async || queued(&server) == 1).await;
        let blocked = server.sql("SELECT DISTINCT pid FROM pg_locks WHERE NOT granted").unwrap();
        let blocked = Pid::from_raw(blocked.trim().parse().unwrap()).unwrap();
        kill_process(blocked, Signal::STOP).unwrap();
        proxy.set(Traffic::SwallowAll);
        let released = one.release(&holder, ReleaseMode::Plain).await;
        tokio::time::sleep(waiter.ttl + ms(500)).await;
        kill_process(blocked, Signal::CONT).unwrap();
        released.unwrap();
        let next = claim("x", LONG);
        within(waiter.ttl + ms(4_000), "the name to be free", async || !is_busy(&one, &next).await)
            .await;
        waiting.abort();
        one.release(&next, ReleaseMode::Plain).await.unwrap();
    }
}

/// A session without a hold is kept for the next claim.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_outlives_the_ttl_of_its_last_claim() {
    let server = server();
    let idle = || {
        let pids = "SELECT coalesce(string_agg(pid::text, ' ' ORDER BY pid), '') \
                    FROM pg_stat_activity WHERE application_name = 'lockwright/idle'";
        server.sql(pids).unwrap()
    };
    let ttl = ms(1_000);
    for mode in MODES {
        for claim_for in [claim, reader] {
            let held = claim_for("x", ttl);
            let (one, two) = (backend(&server, mode).await, backend(&server, mode).await);
            granted(&one, &held).await;
            assert!(is_busy(&two, &claim("x", ttl)).await);
            one.release(&held, ReleaseMode::Plain).await.unwrap();
            let before = idle();
            assert_eq!(before.split(' ').count(), 2, "{before:?} are kept");
            tokio::time::sleep(ttl * 2).await;
            assert_eq!(idle(), before, "{mode}: the server has ended one");
            drop((one, two));
            within(ms(10_000), "the sessions to go", async || idle().is_empty()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_believed_from_its_end_on() {
    let server = server();
    for mode in MODES {
        let ttl = ms(2_000);
        let (holding, waiting) =
            (client(&server, mode, ttl).await, client(&server, mode, ttl).await);
        let guard = holding.mutex("x").acquire().await.unwrap();
        let waiter = tokio::spawn(async move {
            (waiting.mutex("x").acquire().await, waiting, Clock::boot().now())
        });
        tokio::time::sleep(ttl * 3).await;
        let released = Clock::boot().now();
        guard.release().await.unwrap();
        let (granted, _locks, answered) = waiter.await.unwrap();
        let granted = granted.unwrap();
        let took = answered.saturating_since(released);
        assert!(took < ms(1_000), "it was told after {took:?}");
        granted.check().unwrap();
        assert!(granted.deadline() > released + ttl * 8 / 10, "it is reckoned from too early");
        assert!(granted.deadline() < answered + ttl, "it is reckoned from too late");
        granted.release().await.unwrap();
    }
}

/// An early start wastes part of the TTL. Clients reject a grant whose start is longer than a TTL
/// ago.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_states_when_it_was_over() {
    let server = server();
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, backend(&server, mode).await);
        let (holder, waiter) = (claim("x", LONG), claim("x", LONG));
        granted(&one, &holder).await;
        let waiting = async {
            let answer = two.acquire(&waiter, in_time(LONG)).await.unwrap();
            (answer, Clock::boot().now())
        };
        let releasing = async {
            within(ms(5_000), "the waiter to block", async || queued(&server) == 1).await;
            tokio::time::sleep(ms(300)).await;
            let before = Clock::boot().now();
            one.release(&holder, ReleaseMode::Plain).await.unwrap();
            before
        };
        let ((answer, answered), released) = tokio::join!(waiting, releasing);
        let AcquireOutcome::Granted(granted) = answer else { panic!("{answer:?}") };
        let start = granted.start.unwrap();
        assert!(
            start > released,
            "{mode}: {:?} before the release",
            released.saturating_since(start)
        );
        assert!(start < answered, "{mode}: it states the answer's own time");
        two.release(&waiter, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_of_a_process_block_one_connection() {
    let server = server();
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, Arc::new(backend(&server, mode).await));
        let holder = claim("x", LONG);
        granted(&one, &holder).await;
        let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..4 {
            let (two, sender) = (Arc::clone(&two), sender.clone());
            tokio::spawn(async move {
                let claim = claim("x", LONG);
                let answer = two.acquire(&claim, in_time(LONG)).await.unwrap();
                assert!(matches!(answer, AcquireOutcome::Granted(_)), "{answer:?}");
                sender.send(number).unwrap();
                two.release(&claim, ReleaseMode::Plain).await.unwrap();
            });
            if number == 0 {
                within(ms(5_000), "the first one to block", async || queued(&server) == 1).await;
            }
            tokio::time::sleep(ms(50)).await;
        }
        drop(sender);
        assert_eq!(queued(&server), 1, "more than one blocks in the server");
        let inspection = one.inspect(&holder.name).await.unwrap();
        assert_eq!(inspection.waiters, Some(1));
        one.release(&holder, ReleaseMode::Plain).await.unwrap();
        let mut order = Vec::new();
        while let Some(number) = served.recv().await {
            order.push(number);
        }
        assert_eq!(order, [0, 1, 2, 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_any_length_is_kept() {
    let server = server();
    for mode in MODES {
        let backend = backend(&server, mode).await;
        let holder = claim("x", LONG);
        granted(&backend, &holder).await;
        // Shorter than the early end, than a slice, and longer than a slice.
        for limit in [ms(5), ms(300), ms(2_300)] {
            // The fastest attempt: a busy machine is sometimes late, a missed limit always.
            let mut soonest = Duration::MAX;
            for _ in 0..5 {
                let begun = Instant::now();
                let waiter = claim("x", ms(1_000));
                let answer = backend.acquire(&waiter, in_time(limit)).await.unwrap();
                assert!(matches!(answer, AcquireOutcome::Busy(_)));
                soonest = soonest.min(begun.elapsed());
                assert!(begun.elapsed() + ms(50) >= limit, "{limit:?}: {:?}", begun.elapsed());
                if soonest <= limit + ms(250) {
                    break;
                }
            }
            assert!(soonest <= limit + ms(250), "{limit:?}: {soonest:?}");
        }
        assert_eq!(queued(&server), 0);
        backend.release(&holder, ReleaseMode::Plain).await.unwrap();
    }
}
