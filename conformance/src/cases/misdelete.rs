use std::sync::Arc;

use lockwright_core::ReleaseMode;

use crate::case::{Case, cases};
use crate::context::{
    Context, close, is_free, is_lost, not_released, refused, release, renewed, take, take_all,
};
use crate::failure::{Verdict, ensure};
use crate::faults::{Fate, Op};

pub(super) const CASES: &[Case] = cases! { Misdelete:
    a_foreign_release_changes_nothing []
        "a release with another token doesn't end the hold";
    a_late_release_spares_the_next_holder []
        "the release of an expired hold doesn't end the next hold";
    a_reconciling_release_spares_the_holder []
        "the reconciliation of an unanswered claim doesn't end another hold";
    a_second_release_finds_nothing []
        "a second release returns NotHeld and ends no other hold";
    a_release_of_a_free_name_finds_nothing []
        "releasing a name that was never held returns NotHeld";
    a_release_ends_one_name_only []
        "releasing one name doesn't end the same token's hold of another name";
    a_release_that_comes_late_ends_no_later_hold [MovedClock]
        "a client never uses a token whose release may still arrive";
    a_lost_guard_spares_the_next_holder []
        "a lost guard's release reports the loss, and doesn't end the next hold";
    a_dropped_lost_guard_spares_the_next_holder []
        "the background release of a dropped lost guard doesn't end the next hold";
};

async fn a_foreign_release_changes_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (holder, other) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &holder).await?;
    not_released(&*backend, &other, ReleaseMode::Plain).await?;
    refused(&*backend, &context.claim("x")).await?;
    renewed(&*backend, &holder).await?;
    release(&*backend, &holder).await
}

async fn a_late_release_spares_the_next_holder(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &first).await?;
    context.granted_within(&*backend, &second, context.patience(), context.ttl / 20).await?;
    not_released(&*backend, &first, ReleaseMode::Plain).await?;
    refused(&*backend, &context.claim("x")).await?;
    renewed(&*backend, &second).await?;
    release(&*backend, &second).await
}

async fn a_reconciling_release_spares_the_holder(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (holder, lost) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &holder).await?;
    not_released(&*backend, &lost, ReleaseMode::Reconcile).await?;
    refused(&*backend, &context.claim("x")).await?;
    release(&*backend, &holder).await
}

async fn a_second_release_finds_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &first).await?;
    release(&*backend, &first).await?;
    not_released(&*backend, &first, ReleaseMode::Plain).await?;
    take(&context, &*backend, &second).await?;
    not_released(&*backend, &first, ReleaseMode::Plain).await?;
    release(&*backend, &second).await
}

async fn a_release_of_a_free_name_finds_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        not_released(&*backend, &context.claim("never"), release_mode).await?;
    }
    is_free(&context, &*backend, "never").await
}

async fn a_release_ends_one_name_only(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let one = context.long_claim("one");
    let mut two = one.clone();
    two.name = context.name("two");
    take_all(&context, &*backend, [&one, &two]).await?;
    release(&*backend, &one).await?;
    refused(&*backend, &context.long_claim("two")).await?;
    release(&*backend, &two).await
}

async fn a_release_that_comes_late_ends_no_later_hold(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    // The first acquire's answer arrives after the grant's expiry, so the client sends a release.
    // This release arrives during the client's next hold.
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
    ensure!(!faulty.calls(Op::Release).is_empty(), "inconclusive: there was no release");
    while faulty.is_under_way() {
        context.clock.sleep(context.ttl / 50).await;
    }
    guard.check()?;
    refused(&*context.backend().await?, &context.claim("x")).await?;
    guard.release().await?;
    close(&[&locks]).await
}

async fn a_lost_guard_spares_the_next_holder(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    guard.signal().ended().await;
    let (backend, next) = (context.backend().await?, context.claim("x"));
    context.granted_within(&*backend, &next, context.patience(), context.ttl / 20).await?;
    is_lost(guard.release().await)?;
    refused(&*backend, &context.claim("x")).await?;
    release(&*backend, &next).await?;
    close(&[&locks]).await
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
    let before = faulty.calls(Op::Release).len();
    faulty.mend();
    faulty.called(Op::Release, before + 1).await;
    context.clock.sleep(context.ttl / 10).await;
    refused(&*backend, &context.claim("x")).await?;
    release(&*backend, &next).await?;
    close(&[&locks]).await
}
