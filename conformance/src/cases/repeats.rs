use std::time::Duration;

use lockwright_core::{AcquireOutcome, BootInstant, ErrorKind, ReleaseMode, Wait};

use crate::case::{Case, cases};
use crate::context::{Context, Grant, fails};
use crate::failure::{Failure, Verdict, ensure, in_time};
use crate::faults::{Fate, Op};

pub(super) const CASES: &[Case] = cases! { Repeats:
    a_repeat_is_the_same_hold []
        "a repeated acquire returns the token's own hold, on any connection";
    a_repeat_has_the_first_fence [Fences]
        "a repeated acquire returns the first fence";
    a_repeat_is_valid_for_what_it_says []
        "a repeated acquire re-arms the hold to the full TTL, or to its reported validity";
    a_grant_lasts_from_its_start []
        "no grant reports a start later than the server's";
    a_late_duplicate_is_kept_out [Tombstones]
        "a reconciled token is never granted afterwards";
    a_ghost_lives_for_one_ttl [Ghosts]
        "a reconciled token that is granted afterwards expires by itself";
    a_lost_answer_is_asked_for_again []
        "an acquire whose answer is lost becomes exactly one hold";
    a_lost_request_is_sent_again []
        "an acquire whose request is lost becomes a hold";
    an_unanswered_try_leaves_nothing []
        "a try without an answer returns an error, and its hold is released";
    a_late_request_leaves_nothing []
        "a request that arrives after the client's deadline leaves no hold";
    a_duplicated_acquire_leaves_nothing []
        "a duplicated acquire that arrives after the release blocks others only briefly";
    an_unanswered_release_is_done []
        "a release whose answer is lost is retried";
    an_honest_refusal_is_reported []
        "a server's refusal is returned as an error, and leaves no hold";
};

async fn a_repeat_is_the_same_hold(context: Context) -> Verdict {
    let two = context.another().await?;
    let claim = context.taken(context.long_claim("x")).await?;
    for connection in [&context, &two] {
        let again = connection.backend.try_acquire(&claim).await?;
        let is_granted = matches!(again, AcquireOutcome::Granted(_));
        ensure!(is_granted, "a repeat with the hold's own token was answered {again:?}");
    }
    two.is_held("x").await?;
    two.release(&claim).await
}

async fn a_repeat_has_the_first_fence(context: Context) -> Verdict {
    let claim = context.claim("x");
    let first = context.take(&claim).await?.granted.fence;
    for _ in 0..3 {
        let again = context.take(&claim).await?.granted.fence;
        ensure!(again == first, "a repeat had the fence {first}, and then {again}");
    }
    context.release(&claim).await
}

fn promised(entry: &Grant, ttl: Duration) -> BootInstant {
    entry.granted.start.unwrap_or(entry.sent).min(entry.answered)
        + entry.granted.valid.map_or(ttl, |valid| valid.min(ttl))
}

async fn kept_until(context: &Context, name: &str, until: BootInstant) -> Verdict {
    let next = context.claim(name);
    let end = context.granted_in_the_end(&next).await?;
    let early = until.saturating_since(end.answered);
    ensure!(early.is_zero(), "the name was granted again {early:?} before the hold's reported end");
    context.release(&next).await
}

async fn a_repeat_is_valid_for_what_it_says(context: Context) -> Verdict {
    let claim = context.taken(context.claim("x")).await?;
    context.clock.sleep(context.ttl * 3 / 5).await;
    let again = context.take(&claim).await?;
    kept_until(&context, "x", promised(&again, claim.ttl)).await
}

async fn a_grant_lasts_from_its_start(context: Context) -> Verdict {
    let other = context.another().await?;
    let entry = context.take(&context.claim("x")).await?;
    let start = entry.granted.start.unwrap_or(entry.sent);
    ensure!(start <= entry.answered, "the grant reports a start in the future");
    kept_until(&other, "x", promised(&entry, context.ttl)).await?;
    let (holder, waiter) = (other.taken(context.claim("y")).await?, context.claim("y"));
    let patience = context.patience();
    let wait = Wait::Until(context.clock.now() + patience);
    let waiting = context.granted_every(context.ttl / 50, &waiter, patience, wait);
    let releasing = async {
        context.clock.sleep(context.ttl / 4).await;
        other.release(&holder).await
    };
    let (entry, ()) = tokio::try_join!(waiting, releasing)?;
    kept_until(&other, "y", promised(&entry, waiter.ttl)).await
}

async fn a_late_duplicate_is_kept_out(context: Context) -> Verdict {
    // For `lost`, the server receives the release before the acquire.
    let (granted, lost) = (context.taken(context.claim("x")).await?, context.claim("x"));
    context.backend.release(&granted, ReleaseMode::Reconcile).await?;
    context.backend.release(&lost, ReleaseMode::Reconcile).await?;
    for late in [&granted, &lost] {
        for wait in [Wait::No, Wait::Until(context.clock.now() + context.ttl)] {
            let answer = context.backend.acquire(late, wait).await;
            let is_lost = answer.as_ref().is_err_and(|error| error.lost_reason().is_some());
            ensure!(is_lost, "a reconciled token was answered {answer:?}");
        }
        context.is_free("x").await?;
    }
    Ok(())
}

async fn a_ghost_lives_for_one_ttl(context: Context) -> Verdict {
    let late = context.claim("x");
    context.backend.release(&late, ReleaseMode::Reconcile).await?;
    let _ = context.backend.acquire(&late, Wait::No).await;
    let bound = context.ttl + Duration::from_secs(1) + context.moment();
    context.are_free_within(&["x"], bound).await
}

/// Without tombstones, a late duplicate may be granted, and must expire before `x` is free.
async fn is_free_soon(context: &Context) -> Verdict {
    let bound = if context.profile.tombstones { context.ttl * 4 / 5 } else { context.patience() };
    context.are_free_within(&["x"], bound).await
}

async fn a_lost_answer_is_asked_for_again(context: Context) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    faulty.next(Op::Acquire, [Fate::LoseAnswer, Fate::LoseAnswer]);
    let guard = locks.mutex("x").wait_for(context.patience()).acquire().await?;
    ensure!(faulty.calls(Op::Acquire).len() >= 3, "the acquire was not retried");
    let shown = locks.inspect("x").await?.holders;
    let is_own = shown.len() == 1 && shown[0].token == Some(guard.token());
    ensure!(is_own, "the guard's token isn't the holder's: {shown:?}");
    guard.check()?;
    guard.release().await?;
    is_free_soon(&context).await
}

async fn a_lost_request_is_sent_again(context: Context) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    faulty.next(Op::Acquire, [Fate::LoseRequest, Fate::LoseRequest]);
    let guard = locks.mutex("x").wait_for(context.patience()).acquire().await?;
    guard.check()?;
    guard.release().await?;
    is_free_soon(&context).await
}

async fn an_unanswered_try_leaves_nothing(context: Context) -> Verdict {
    for fate in [Fate::LoseAnswer, Fate::LoseRequest, Fate::Panic] {
        let (locks, faulty) = context.faulty_client().await?;
        faulty.next(Op::Acquire, [fate]);
        fails(locks.mutex("x").try_acquire().await, ErrorKind::Indeterminate)?;
        is_free_soon(&context).await?;
        locks.close().await;
    }
    Ok(())
}

async fn a_late_request_leaves_nothing(context: Context) -> Verdict {
    for part in [10, 2] {
        let (locks, faulty) = context.faulty_client().await?;
        faulty.next(Op::Acquire, [Fate::DelayRequest(context.ttl / part)]);
        let answer = locks.mutex("x").try_acquire().await;
        ensure!(answer.is_err(), "the outcome is unknown, but the answer was {answer:?}");
        faulty.settled().await;
        is_free_soon(&context).await?;
        locks.close().await;
    }
    Ok(())
}

async fn a_duplicated_acquire_leaves_nothing(context: Context) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    faulty.next(Op::Acquire, [Fate::Duplicate(context.ttl / 5)]);
    locks.mutex("x").acquire().await?.release().await?;
    faulty.settled().await;
    // The client doesn't reconcile an answered request, so the duplicate may be granted, and
    // expires.
    context.are_free_within(&["x"], context.patience()).await
}

async fn an_unanswered_release_is_done(context: Context) -> Verdict {
    let bound = context.ttl * 9 / 10;
    let lost = [Fate::LoseRequest, Fate::LoseAnswer, Fate::Hang, Fate::Panic];
    for fate in lost.into_iter().chain([Fate::UNAVAILABLE]) {
        // A busy machine delays some releases: the fastest of three counts.
        let mut soonest = Duration::MAX;
        for _ in 0..3 {
            let (guard, faulty) = context.faulty_guard().await?;
            let released_at = context.clock.now();
            faulty.next(Op::Release, [fate]);
            let answer = guard.release().await;
            ensure!(
                answer.is_err(),
                "{fate:?} lost the answer, but the client returned {answer:?}"
            );
            let next = context.claim("x");
            let entry = context.granted_in_the_end(&next).await?;
            soonest = soonest.min(entry.sent.saturating_since(released_at));
            context.release(&next).await?;
            if soonest < bound {
                break;
            }
        }
        let ttl = context.ttl;
        in_time!(soonest < bound, "{fate:?}: the next grant took {soonest:?} of a TTL of {ttl:?}");
    }
    Ok(())
}

async fn an_honest_refusal_is_reported(context: Context) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    faulty.always(Op::Acquire, Fate::UNAVAILABLE);
    fails(locks.mutex("x").try_acquire().await, ErrorKind::Unavailable)?;
    match locks.mutex("x").wait_for(context.ttl / 5).acquire().await {
        Err(error) if error.is_timed_out() => {}
        other => return Err(Failure::new(format!("a waiting acquire was answered {other:?}"))),
    }
    let releases = faulty.calls(Op::Release).len();
    ensure!(releases == 0, "a claim that was certainly never granted was released");
    faulty.mend();
    Ok(locks.mutex("x").acquire().await?.release().await?)
}
