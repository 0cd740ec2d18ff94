//! Releases.

use std::sync::Arc;

use lockwright_core::{ErrorKind, ReleaseMode, ReleaseOutcome, RenewalOutcome};

use crate::case::{Case, case};
use crate::context::{Context, refused, release, renew, take};
use crate::failure::{Verdict, ensure};
use crate::faults::{Fate, Op};

pub(super) const CASES: &[Case] = &[
    case!(
        Misdelete,
        a_foreign_release_changes_nothing,
        [],
        "a release with another token doesn't end the hold"
    ),
    case!(
        Misdelete,
        a_late_release_spares_the_next_holder,
        [],
        "the release of an expired hold doesn't end the next hold"
    ),
    case!(
        Misdelete,
        a_reconciling_release_spares_the_holder,
        [],
        "the reconciliation of an unanswered claim doesn't end another hold"
    ),
    case!(
        Misdelete,
        a_second_release_finds_nothing,
        [],
        "a second release returns NotHeld and ends no other hold"
    ),
    case!(
        Misdelete,
        a_release_of_a_free_name_finds_nothing,
        [],
        "releasing a name that was never held returns NotHeld"
    ),
    case!(
        Misdelete,
        a_release_ends_one_name_only,
        [],
        "releasing one name doesn't end the same token's hold of another name"
    ),
    case!(
        Misdelete,
        a_release_that_comes_late_ends_no_later_hold,
        [MovedClock],
        "a client never uses a token whose release may still arrive"
    ),
    case!(
        Misdelete,
        a_lost_guard_spares_the_next_holder,
        [],
        "a lost guard's release reports the loss, and doesn't end the next hold"
    ),
    case!(
        Misdelete,
        a_dropped_lost_guard_spares_the_next_holder,
        [],
        "the background release of a dropped lost guard doesn't end the next hold"
    ),
];

async fn a_foreign_release_changes_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (holder, other) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &holder).await?;
    let ended = backend.release(&other, ReleaseMode::Plain).await?;
    ensure!(ended == ReleaseOutcome::NotHeld, "a foreign token was released");
    refused(&*backend, &context.claim("x")).await?;
    let renewed = renew(&*backend, &holder).await?;
    ensure!(
        matches!(renewed, RenewalOutcome::Renewed { .. }),
        "the holder has lost its hold: {renewed:?}"
    );
    release(&*backend, &holder).await
}

async fn a_late_release_spares_the_next_holder(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &first).await?;
    context.granted_within(&*backend, &second, context.patience(), context.ttl / 20).await?;
    let ended = backend.release(&first, ReleaseMode::Plain).await?;
    ensure!(ended == ReleaseOutcome::NotHeld, "a hold that had expired was released");
    refused(&*backend, &context.claim("x")).await?;
    let renewed = renew(&*backend, &second).await?;
    ensure!(
        matches!(renewed, RenewalOutcome::Renewed { .. }),
        "the next holder lost its hold: {renewed:?}"
    );
    release(&*backend, &second).await
}

async fn a_reconciling_release_spares_the_holder(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (holder, lost) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &holder).await?;
    let ended = backend.release(&lost, ReleaseMode::Reconcile).await?;
    ensure!(ended == ReleaseOutcome::NotHeld, "a token that never held was released");
    refused(&*backend, &context.claim("x")).await?;
    release(&*backend, &holder).await
}

async fn a_second_release_finds_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &first).await?;
    release(&*backend, &first).await?;
    let again = backend.release(&first, ReleaseMode::Plain).await?;
    ensure!(again == ReleaseOutcome::NotHeld, "the hold was released twice");
    take(&context, &*backend, &second).await?;
    let again = backend.release(&first, ReleaseMode::Plain).await?;
    ensure!(
        again == ReleaseOutcome::NotHeld,
        "a released token was released again after the next grant"
    );
    release(&*backend, &second).await
}

async fn a_release_of_a_free_name_finds_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        let ended = backend.release(&context.claim("never"), release_mode).await?;
        ensure!(ended == ReleaseOutcome::NotHeld, "a name that was never held was released");
    }
    let claim = context.claim("never");
    take(&context, &*backend, &claim).await?;
    release(&*backend, &claim).await
}

async fn a_release_ends_one_name_only(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let one = context.long_claim("one");
    let mut two = one.clone();
    two.name = context.name("two");
    take(&context, &*backend, &one).await?;
    take(&context, &*backend, &two).await?;
    release(&*backend, &one).await?;
    refused(&*backend, &context.long_claim("two")).await?;
    release(&*backend, &two).await
}

async fn a_release_that_comes_late_ends_no_later_hold(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    // The client releases the grant after it expired, and the release arrives late.
    faulty.next(Op::Acquire, [Fate::DelayAnswer(context.ttl / 10)]);
    faulty.next(Op::Release, [Fate::DelayRequest(context.ttl / 5)]);
    let suspending = async {
        faulty.called(Op::Acquire, 1).await;
        context.clock.sleep(context.ttl / 50).await;
        context.clock.jump(context.ttl * 6 / 5);
    };
    let asking = locks.mutex("x").wait_for(context.patience()).acquire();
    let (guard, ()) = tokio::join!(asking, suspending);
    let guard = guard?;
    ensure!(faulty.calls(Op::Release) > 0, "inconclusive: there was no release");
    while faulty.is_under_way() {
        context.clock.sleep(context.ttl / 50).await;
    }
    guard.check()?;
    refused(&*context.backend().await?, &context.claim("x")).await?;
    guard.release().await?;
    locks.close().await;
    Ok(())
}

async fn a_lost_guard_spares_the_next_holder(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    guard.signal().ended().await;
    let (backend, next) = (context.backend().await?, context.claim("x"));
    context.granted_within(&*backend, &next, context.patience(), context.ttl / 20).await?;
    match guard.release().await {
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => {}
        other => ensure!(false, "the release of a lost hold answered {other:?}"),
    }
    refused(&*backend, &context.claim("x")).await?;
    release(&*backend, &next).await?;
    locks.close().await;
    Ok(())
}

async fn a_dropped_lost_guard_spares_the_next_holder(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    faulty.always(Op::Release, Fate::LoseRequest);
    guard.signal().ended().await;
    let (backend, next) = (context.backend().await?, context.claim("x"));
    context.granted_within(&*backend, &next, context.patience(), context.ttl / 20).await?;
    drop(guard);
    let before = faulty.calls(Op::Release);
    faulty.mend();
    faulty.called(Op::Release, before + 1).await;
    context.clock.sleep(context.ttl / 10).await;
    refused(&*backend, &context.claim("x")).await?;
    release(&*backend, &next).await?;
    locks.close().await;
    Ok(())
}
