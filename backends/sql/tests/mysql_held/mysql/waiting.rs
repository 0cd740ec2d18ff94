//! Dropped waits, long waits and many waits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{AcquireOutcome, Clock, DistributedLock, ErrorKind, ReleaseMode};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::meddler::{Harm, Meddler};
use crate::support::{
    LONG, MODES, backend, claim, client, count, granted, holding, in_mode, in_time, is_busy, ms,
    queued, server, sessions_of, within,
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

/// In either order.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_ends_as_it_is_granted_leaves_nothing() {
    let server = server();
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, Arc::new(backend(&server, mode).await));
        for round in 0..40 {
            let (holder, waiter) = (claim("x", LONG), claim("x", LONG));
            granted(&one, &holder).await;
            let waiting = tokio::spawn({
                let (two, waiter) = (Arc::clone(&two), waiter.clone());
                async move { two.acquire(&waiter, in_time(ms(125))).await }
            });
            tokio::time::sleep(std::time::Duration::from_micros(98_000 + round * 150)).await;
            one.release(&holder, ReleaseMode::Plain).await.unwrap();
            if let AcquireOutcome::Granted(_) = waiting.await.unwrap().unwrap() {
                two.release(&waiter, ReleaseMode::Plain).await.unwrap();
            }
            assert_eq!(holding(&server), 0, "{mode}, {round}: an idle session holds it");
        }
    }
}

/// A late interruption would end a renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_may_yet_be_cut_off_is_no_grant() {
    let server = server();
    for mode in MODES {
        let meddler = Meddler::before(server.port()).await;
        let url = in_mode(&server.url_through(meddler.port()), mode);
        let two = lockwright_sql::Mysql::connect(&url).await.unwrap();
        let one = backend(&server, mode).await;
        let (holder, waiter) = (claim("x", LONG), claim("x", LONG));
        granted(&one, &holder).await;
        meddler.harm("KILL QUERY", Harm::Kept);
        let releasing = async {
            within(ms(5_000), "the wait to be cut off", async || meddler.has_harmed()).await;
            one.release(&holder, ReleaseMode::Plain).await.unwrap();
        };
        let (answer, ()) = tokio::join!(two.acquire(&waiter, in_time(ms(500))), releasing);
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable, "{mode}");
        assert_eq!(sessions_of(&server, waiter.token), 0, "{mode}: its session is still there");
        assert_eq!(holding(&server), 0, "{mode}");
    }
}

/// As after a lost attempt. The server reports the session at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_ones_own_ghost_is_no_hot_loop() {
    let server = server();
    let asked = || {
        count(
            &server,
            "SELECT variable_value FROM information_schema.global_status \
             WHERE variable_name = 'QUESTIONS'",
        )
    };
    for mode in MODES {
        let backend = backend(&server, mode).await;
        let waiter = claim("x", LONG);
        let mut ghost = MySqlConnection::connect(&server.url()).await.unwrap();
        let mark = format!(
            "DO GET_LOCK(CONCAT(' lockwright/{}/', LEFT(SHA2('x', 256), 16)), 0)",
            waiter.token
        );
        sqlx::raw_sql(AssertSqlSafe(mark)).execute(&mut ghost).await.unwrap();
        assert_eq!(sessions_of(&server, waiter.token), 1);
        let before = asked();
        let answer = backend.acquire(&waiter, in_time(ms(2_000))).await.unwrap();
        let asked = asked() - before;
        assert!(matches!(answer, AcquireOutcome::Busy(_)), "{mode}: {answer:?}");
        // Some for each of twenty attempts.
        assert!(asked < 1_000, "{mode}: the server was asked {asked} things");
        let waiting = backend.acquire(&waiter, in_time(LONG));
        let going = async {
            tokio::time::sleep(ms(300)).await;
            ghost.close().await.unwrap();
        };
        let (answer, ()) = tokio::join!(waiting, going);
        let AcquireOutcome::Granted(_) = answer.unwrap() else {
            panic!("{mode}: not when it is free")
        };
        backend.release(&waiter, ReleaseMode::Plain).await.unwrap();
    }
}

/// A session without a hold is kept for the next claim.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_outlives_the_ttl_of_its_last_claim() {
    let server = server();
    let connected = || {
        let ids = server
            .sql("SELECT id FROM information_schema.processlist WHERE user = 'lockwright'")
            .unwrap();
        ids.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let ttl = ms(1_000);
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, backend(&server, mode).await);
        // Start-up connections close again; each backend keeps one.
        within(ms(10_000), "two connections", async || connected().len() <= 2).await;
        let held = claim("x", ttl);
        granted(&one, &held).await;
        assert!(is_busy(&two, &claim("x", ttl)).await);
        one.release(&held, ReleaseMode::Plain).await.unwrap();
        let before = connected();
        assert!(before.len() >= 2, "{before:?} are kept");
        tokio::time::sleep(ms(2_500)).await;
        let gone: Vec<_> = before.difference(&connected()).cloned().collect();
        assert!(gone.is_empty(), "{mode}: the server has ended {gone:?}");
        drop((one, two));
        within(ms(10_000), "the connections to go", async || connected().is_empty()).await;
    }
}
