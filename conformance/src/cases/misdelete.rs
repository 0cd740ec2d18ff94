use lockwright_core::{Claim, ReleaseMode};

use crate::case::{Case, cases};
use crate::context::{Context, is_lost};
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
async fn a_foreign_release_changes_nothing(context: Context) -> Verdict {
    let holder = context.taken(context.claim("x")).await?;
    context.not_released(&context.claim("x"), ReleaseMode::Plain).await?;
    context.is_held("x").await?;
    context.renewed(&holder).await?;
    context.release(&holder).await
}

async fn a_late_release_spares_the_next_holder(context: Context) -> Verdict {
    let (first, second) = (context.taken(context.claim("x")).await?, context.claim("x"));
    context.granted_in_the_end(&second).await?;
    context.not_released(&first, ReleaseMode::Plain).await?;
    context.is_held("x").await?;
    context.renewed(&second).await?;
    context.release(&second).await
}

async fn a_reconciling_release_spares_the_holder(context: Context) -> Verdict {
    let holder = context.taken(context.claim("x")).await?;
    context.not_released(&context.claim("x"), ReleaseMode::Reconcile).await?;
    context.is_held("x").await?;
    context.release(&holder).await
}

async fn a_second_release_finds_nothing(context: Context) -> Verdict {
    let first = context.taken(context.claim("x")).await?;
    context.release(&first).await?;
    context.not_released(&first, ReleaseMode::Plain).await?;
    let second = context.taken(context.claim("x")).await?;
    context.not_released(&first, ReleaseMode::Plain).await?;
    context.release(&second).await
}

async fn a_release_of_a_free_name_finds_nothing(context: Context) -> Verdict {
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        context.not_released(&context.claim("never"), release_mode).await?;
    }
    context.is_free("never").await
}

async fn a_release_ends_one_name_only(context: Context) -> Verdict {
    let one = context.taken(context.long_claim("one")).await?;
    let two = context.taken(Claim { name: context.name("two"), ..one.clone() }).await?;
    context.release(&one).await?;
    context.is_held("two").await?;
    context.release(&two).await
}

async fn a_release_that_comes_late_ends_no_later_hold(context: Context) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    // The first grant's answer arrives after its expiry, so the client sends a release, which
    // arrives during its next hold.
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
    faulty.settled().await;
    guard.check()?;
    context.is_held("x").await?;
    Ok(guard.release().await?)
}

async fn a_lost_guard_spares_the_next_holder(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    guard.signal().ended().await;
    let next = context.claim("x");
    context.granted_in_the_end(&next).await?;
    is_lost(guard.release().await)?;
    context.is_held("x").await?;
    context.release(&next).await
}

async fn a_dropped_lost_guard_spares_the_next_holder(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    faulty.always(Op::Release, Fate::LoseRequest);
    guard.signal().ended().await;
    let next = context.claim("x");
    context.granted_in_the_end(&next).await?;
    drop(guard);
    let before = faulty.calls(Op::Release).len();
    faulty.mend();
    faulty.called(Op::Release, before + 1).await;
    context.clock.sleep(context.ttl / 10).await;
    context.is_held("x").await?;
    context.release(&next).await
}
