use lockwright_core::Owner;

use crate::case::{Case, cases};
use crate::context::{Context, is_lost};
use crate::failure::{Verdict, ensure};
use crate::faults::{Fate, Op};

pub(super) const CASES: &[Case] = cases! { Reentrancy:
    an_owner_enters_its_hold_again []
        "the same owner gets another guard of the same hold, without a request to the server";
    the_last_guard_ends_the_hold []
        "the hold ends with its last guard, in any order";
    a_dropped_guard_counts_too []
        "a dropped guard counts as released";
    others_stay_out []
        "another owner, or a request without an owner, waits, also in the same client";
    an_owner_is_nobody_elsewhere []
        "an owner's key doesn't grant the hold to another client";
    an_owner_that_waits_is_joined []
        "a second request of a waiting owner shares its hold";
    a_lost_hold_is_not_entered []
        "after a loss, the owner gets a new hold, with a larger fence";
    a_repeat_is_not_a_second_hold []
        "a claim that was sent twice is one hold, and one release ends it";
};

async fn an_owner_enters_its_hold_again(context: Context) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let owner = Owner::new();
    let first = locks.mutex("x").reentrant(&owner).acquire().await?;
    let trips = faulty.calls(Op::Acquire).len();
    let second = locks.mutex("x").reentrant(&owner).acquire().await?;
    let third = locks.mutex("x").reentrant(&owner).try_acquire().await?;
    ensure!(third.is_some(), "a try of the same owner was refused");
    let again = faulty.calls(Op::Acquire).len();
    ensure!(again == trips, "the second guard sent a request to the server");
    ensure!(second.token() == first.token(), "the second guard has another hold");
    ensure!(second.fence() == first.fence(), "the second guard has another fence");
    drop(third);
    second.release().await?;
    Ok(first.release().await?)
}

async fn the_last_guard_ends_the_hold(context: Context) -> Verdict {
    let (locks, owner) = (context.client().await?, Owner::new());
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(locks.mutex("x").reentrant(&owner).acquire().await?);
    }
    while guards.len() > 1 {
        guards.remove(0).release().await?;
        context.is_held("x").await?;
        guards[0].check()?;
    }
    guards.remove(0).release().await?;
    context.is_free("x").await
}

async fn a_dropped_guard_counts_too(context: Context) -> Verdict {
    let (locks, owner) = (context.client().await?, Owner::new());
    let first = locks.mutex("x").reentrant(&owner).acquire().await?;
    let second = locks.mutex("x").reentrant(&owner).acquire().await?;
    drop(first);
    context.is_held("x").await?;
    second.check()?;
    drop(second);
    locks.close().await;
    context.is_free("x").await
}

async fn others_stay_out(context: Context) -> Verdict {
    let (locks, owner) = (context.client().await?, Owner::new());
    let guard = locks.mutex("x").reentrant(&owner).acquire().await?;
    let stranger = locks.mutex("x").reentrant(&Owner::new()).try_acquire().await?;
    ensure!(stranger.is_none(), "another owner was granted the hold");
    let other = locks.mutex("x").try_acquire().await?;
    ensure!(other.is_none(), "a request without an owner was granted the hold");
    let elsewhere = locks.mutex("y").reentrant(&owner).acquire().await?;
    ensure!(elsewhere.token() != guard.token(), "two names share one hold");
    elsewhere.release().await?;
    guard.release().await?;
    let guard = locks.mutex("x").acquire().await?;
    let again = locks.mutex("x").try_acquire().await?;
    ensure!(again.is_none(), "a hold without an owner was entered again");
    Ok(guard.release().await?)
}

async fn an_owner_is_nobody_elsewhere(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let owner = Owner::new();
    let guard = one.mutex("x").reentrant(&owner).acquire().await?;
    let other = two.mutex("x").reentrant(&owner).try_acquire().await?;
    ensure!(other.is_none(), "the owner's key granted the hold to another client");
    Ok(guard.release().await?)
}

async fn an_owner_that_waits_is_joined(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let (holder, owner) = (one.mutex("x").acquire().await?, Owner::new());
    let waiting = || two.mutex("x").reentrant(&owner).wait_for(context.patience()).acquire();
    let releasing = async {
        context.clock.sleep(context.ttl / 10).await;
        holder.release().await
    };
    let (first, second, released) = tokio::join!(waiting(), waiting(), releasing);
    released?;
    let (first, second) = (first?, second?);
    ensure!(first.token() == second.token(), "one owner's two requests got two holds");
    first.release().await?;
    second.check()?;
    Ok(second.release().await?)
}

async fn a_lost_hold_is_not_entered(context: Context) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let owner = Owner::new();
    let first = locks.mutex("x").reentrant(&owner).acquire().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    first.signal().ended().await;
    faulty.mend();
    let second = locks.mutex("x").reentrant(&owner).wait_for(context.patience()).acquire().await?;
    ensure!(second.token() != first.token(), "the new guard has the lost hold");
    let is_larger = second.fence() > first.fence();
    ensure!(is_larger || !context.has_fences(), "the new hold's fence isn't larger");
    is_lost(first.release().await)?;
    second.check()?;
    Ok(second.release().await?)
}

async fn a_repeat_is_not_a_second_hold(context: Context) -> Verdict {
    let claim = context.long_claim("x");
    for _ in 0..3 {
        context.take(&claim).await?;
    }
    context.release(&claim).await?;
    context.is_free("x").await
}
