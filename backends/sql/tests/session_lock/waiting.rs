use std::pin::pin;

use super::server::*;
use crate::support::*;

in_each_mode!(plain; a_dropped_wait_leaves_no_ghost,
    a_wait_dropped_as_it_is_granted_leaves_no_ghost,
    a_wait_states_when_it_was_over,
    many_waiters_of_a_process_block_one_connection,
    a_limit_of_any_length_is_kept);

async fn a_dropped_wait_leaves_no_ghost(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, backend(server, mode).await);
    for release_first in [false, true] {
        let (holder, waiter) = (claim_for("x", LONG), claim_for("x", LONG));
        grant(&one, &holder).await;
        {
            let mut waiting = pin!(two.acquire(&waiter, in_time(LONG)));
            let stands =
                within(ms(5_000), "the waiter to stand in the queue", async || queued(server) == 1);
            tokio::select! {
                answer = &mut waiting => panic!("{answer:?}"),
                _ = stands => {}
            }
            assert_eq!(sessions_of(server, waiter.token), 1);
            if release_first {
                one.release(&holder, ReleaseMode::Plain).await.unwrap();
            }
        }
        if release_first {
            two.release(&waiter, ReleaseMode::Reconcile).await.unwrap();
        }
        within(ms(2_000), "the waiter's session to go", async || {
            sessions_of(server, waiter.token) == 0 && queued(server) == 0
        })
        .await;
        if !release_first {
            assert_eq!(holding(server), 1, "somebody else holds something");
            assert!(is_busy(&two, &claim_for("x", LONG)).await);
            one.release(&holder, ReleaseMode::Plain).await.unwrap();
        }
        // The server must not grant the lock to the dropped request later.
        let begun = Instant::now();
        while begun.elapsed() < ms(600) {
            assert_eq!(holding(server), 0, "a ghost owns it");
        }
        assert_eq!(
            two.release(&waiter, ReleaseMode::Reconcile).await.unwrap(),
            ReleaseOutcome::NotHeld
        );
        acquire_and_release(&two, "x").await;
    }
}

/// The holder's release and the cancellation of the wait reach the server in either order.
async fn a_wait_dropped_as_it_is_granted_leaves_no_ghost(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, shared(server, mode).await);
    for round in 0..60 {
        let (holder, waiter) = (claim_for("x", LONG), claim_for("x", LONG));
        grant(&one, &holder).await;
        let waiting = acquiring(&two, &waiter, in_time(LONG));
        within(ms(5_000), "the waiter to block", async || {
            one.inspect(&holder.name).await.unwrap().waiters == Some(1)
        })
        .await;
        let dropping = async {
            // The delay grows with `round`, so the drop comes before, during or after the release.
            sleep(Duration::from_micros(round % 12 * 100)).await;
            waiting.abort();
        };
        let (released, ()) = tokio::join!(one.release(&holder, ReleaseMode::Plain), dropping);
        released.unwrap();
        two.release(&waiter, ReleaseMode::Reconcile).await.unwrap();
        within(ms(1_000), "the name to be free", async || is_free(&one, "x").await).await;
    }
}

/// A grant's TTL begins at its `start`, so an early `start` wastes a part of the TTL. The wait
/// takes several statements, so `start` must come from the last one.
async fn a_wait_states_when_it_was_over(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, backend(server, mode).await);
    let (holder, waiter) = (hold(&one, "x").await, claim_for("x", ms(1_000)));
    let waiting = async {
        let answer = two.acquire(&waiter, in_time(LONG)).await.unwrap();
        (answer, Clock::boot().now())
    };
    let releasing = async {
        within(ms(5_000), "the waiter to block", async || queued(server) == 1).await;
        sleep(ms(2_300)).await;
        let before = Clock::boot().now();
        release(&one, &holder).await;
        before
    };
    let ((answer, answered), released) = tokio::join!(waiting, releasing);
    let AcquireOutcome::Granted(granted) = answer else { panic!("{answer:?}") };
    let start = granted.start.unwrap();
    let early = released.saturating_since(start);
    assert!(early < ms(100), "{mode}: {early:?} before the release");
    assert!(start < answered, "{mode}: it states the answer's own time");
    release(&two, &waiter).await;
}

async fn many_waiters_of_a_process_block_one_connection(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, shared(server, mode).await);
    let holder = hold(&one, "x").await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let claim = claim_for("x", LONG);
        waiting.push((acquiring(&two, &claim, in_time(LONG)), claim));
        within(ms(5_000), "the first one to block", async || queued(server) == 1).await;
        sleep(ms(50)).await;
    }
    assert_eq!(queued(server), 1, "more than one blocks in the server");
    assert_eq!(waiters(&one, "x").await, 1);
    release(&one, &holder).await;
    for (request, claim) in waiting {
        granted(request).await;
        release(&*two, &claim).await;
    }
}

async fn a_limit_of_any_length_is_kept(server: &Server, mode: &str) {
    let backend = backend(server, mode).await;
    let holder = hold(&backend, "x").await;
    // 5 ms is too short for a wait in the server. 300 ms takes one statement. 2,300 ms takes
    // several statements, because each waits for at most the TTL.
    for limit in [ms(5), ms(300), ms(2_300)] {
        // The fastest attempt counts: a busy machine delays some attempts, an ignored limit
        // delays all.
        let mut soonest = Duration::MAX;
        for _ in 0..5 {
            let begun = Instant::now();
            let waiter = claim_for("x", ms(1_000));
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
    assert_eq!(queued(server), 0);
    backend.release(&holder, ReleaseMode::Plain).await.unwrap();
}
