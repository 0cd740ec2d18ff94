use std::collections::HashSet;

use lockwright_core::{
    AcquireOutcome, BreakMode, Claim, ErrorKind, Mode, Owner, Permit, ReleaseMode, Wait,
};
use tokio::task::JoinSet;

use crate::case::{Case, cases};
use crate::context::{Context, all_released, fails, soon};
use crate::failure::{Failure, Verdict, ensure, given};

const OF: u32 = 3;

pub(super) const CASES: &[Case] = cases! { Permits:
    as_many_are_granted_as_there_are [Permits]
        "permits are granted up to the semaphore's size, on any connection";
    many_at_once_get_no_more_than_there_are [Permits]
        "of concurrent claims, one more than there are permits, one is refused";
    weights_are_counted [Permits]
        "a claim for two permits takes two";
    each_permit_expires_alone [Permits]
        "a permit that isn't renewed is free, and the others stay held";
    a_permits_release_ends_its_own_hold_only [Permits]
        "a second release, or a release with a foreign token, frees no permit";
    a_repeat_takes_no_second_permit [Permits]
        "a repeated claim is the same hold, and one release ends it";
    each_claim_has_its_own_size [Permits]
        "a claim is granted if the held permits plus its own don't exceed its size";
    a_larger_size_waits_for_its_turn [Permits, Fifo]
        "a claim with a larger size waits behind one with a smaller size";
    a_semaphore_is_no_lock [Permits]
        "a name in use as a semaphore can't be a lock, or the reverse, and the error names the use";
    ids_are_unique [Permits]
        "no two holds of a name have the same id";
    each_permit_is_shown [Permits]
        "inspect shows each holder and its count, without a fence";
    a_broken_permit_leaves_the_others [Permits, Breakable]
        "a break frees the inspected hold, and no other";
    a_large_claim_is_not_overtaken [Permits, Fifo]
        "small claims wait behind a large one, even if they fit";
    a_freed_permit_wakes_the_waiter [Permits, Push]
        "a waiter is woken long before its next poll";
    all_who_fit_are_woken [Permits, Push]
        "all waiters that fit are woken when several permits are freed at once";
    permits_of_one_client_dont_take_turns [Permits]
        "tasks of one client hold permits at the same time, up to the semaphore's size";
    impossible_counts_are_refused [Permits]
        "zero permits, or more than the size, are refused with the possible range";
    an_owner_has_its_permit_again [Permits]
        "an owner's second request gets the same permit; another count is an error";
};
fn some(context: &Context, count: u32) -> Claim {
    context.claim_as("x", Mode::Permits { count, of: OF })
}

async fn none_left(context: &Context) -> Verdict {
    context.refused(&some(context, 1)).await.map(drop)
}

async fn as_many_are_granted_as_there_are(context: Context) -> Verdict {
    let other = context.another().await?;
    let one = context.taken(some(&context, 1)).await?;
    let two = other.taken(some(&context, 1)).await?;
    let three = context.taken(some(&context, 1)).await?;
    none_left(&context).await?;
    none_left(&other).await?;
    context.release(&two).await?;
    let next = other.taken(some(&context, 1)).await?;
    none_left(&context).await?;
    context.release_all([&one, &three, &next]).await
}

async fn many_at_once_get_no_more_than_there_are(context: Context) -> Verdict {
    const ROUNDS: u32 = 8;
    let mut connections = Vec::new();
    for _ in 0..=OF {
        connections.push(context.another().await?);
    }
    let mut most = 0;
    for _ in 0..ROUNDS {
        let mut asking = JoinSet::new();
        for connection in &connections {
            let (connection, claim) = (connection.clone(), some(&context, 1));
            asking.spawn(async move {
                let answer = connection.backend.try_acquire(&claim).await;
                (connection, claim, answer)
            });
        }
        let mut granted = Vec::new();
        for (connection, claim, answer) in asking.join_all().await {
            if matches!(answer?, AcquireOutcome::Granted(_)) {
                granted.push((connection, claim));
            }
        }
        ensure!(granted.len() <= OF as usize, "{} of {OF} were granted at once", granted.len());
        most = most.max(granted.len());
        for (connection, claim) in &granted {
            connection.release(claim).await?;
        }
    }
    ensure!(most > 0, "inconclusive: no claim was granted");
    Ok(())
}

async fn weights_are_counted(context: Context) -> Verdict {
    let two = context.taken(some(&context, 2)).await?;
    context.refused(&some(&context, 2)).await?;
    let one = context.taken(some(&context, 1)).await?;
    none_left(&context).await?;
    context.release(&two).await?;
    context.refused(&some(&context, 3)).await?;
    context.release(&one).await?;
    let all = context.taken(some(&context, 3)).await?;
    none_left(&context).await?;
    context.release(&all).await
}

async fn each_permit_expires_alone(context: Context) -> Verdict {
    let short = || Claim { ttl: context.ttl, ..some(&context, 1) };
    let (goes, stays, goes_too) = (short(), some(&context, 1), short());
    context.take_all([&goes, &stays, &goes_too]).await?;
    context.clock.sleep(context.ttl + context.moment() / 20).await;
    context.not_renewed(&goes).await?;
    context.not_renewed(&goes_too).await?;
    context.renewed(&stays).await?;
    context.refused(&some(&context, 3)).await?;
    let two = context.taken(some(&context, 2)).await?;
    context.release_all([&two, &stays]).await
}

async fn a_permits_release_ends_its_own_hold_only(context: Context) -> Verdict {
    let [one, two, three] = [(); 3].map(|()| some(&context, 1));
    context.take_all([&one, &two, &three]).await?;
    context.release(&one).await?;
    let next = context.taken(some(&context, 1)).await?;
    for claim in [&one, &some(&context, 1)] {
        context.not_released(claim, ReleaseMode::Plain).await?;
        none_left(&context).await?;
    }
    context.release_all([&two, &three, &next]).await
}

async fn a_repeat_takes_no_second_permit(context: Context) -> Verdict {
    let one = some(&context, 1);
    let first = context.take(&one).await?.granted.fence;
    for _ in 0..3 {
        let again = context.take(&one).await?.granted.fence;
        ensure!(first == again, "a repeat had the id {first}, and then {again}");
    }
    let rest = context.taken(some(&context, 2)).await?;
    context.release(&one).await?;
    let next = context.taken(some(&context, 1)).await?;
    context.release_all([&next, &rest]).await
}

async fn conflicts(context: &Context, claim: &Claim, says: &str) -> Verdict {
    match context.backend.acquire(claim, Wait::No).await {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let text = error.to_string();
            ensure!(text.contains(says), "the error is {text:?} and doesn't contain {says:?}");
            Ok(())
        }
        answer => Err(Failure::new(format!("a claim for {} was answered {answer:?}", claim.mode))),
    }
}

async fn each_claim_has_its_own_size(context: Context) -> Verdict {
    let sized = |count, of| context.claim_as("x", Mode::Permits { count, of });
    let one = context.taken(sized(1, OF)).await?;
    context.refused(&sized(1, 1)).await?;
    let two = context.taken(sized(1, 2)).await?;
    context.refused(&sized(1, 2)).await?;
    let four = context.taken(sized(2, 4)).await?;
    context.refused(&sized(1, OF)).await?;
    context.refused(&sized(2, 5)).await?;
    let inspection = context.backend.inspect(&one.name).await?;
    let free = inspection.free_permits();
    ensure!(free == Some(0), "{free:?} permits are free");
    context.release(&two).await?;
    context.refused(&sized(1, OF)).await?;
    context.release(&four).await?;
    let last = context.taken(sized(1, 2)).await?;
    context.release(&one).await?;
    context.release(&last).await
}

async fn a_semaphore_is_no_lock(context: Context) -> Verdict {
    let permit = context.taken(some(&context, 1)).await?;
    conflicts(&context, &context.long_claim("x"), "a semaphore").await?;
    if context.profile.modes.shared {
        conflicts(&context, &context.claim_as("x", Mode::Shared), "a semaphore").await?;
    }
    context.release(&permit).await?;
    let lock = context.taken(context.long_claim("x")).await?;
    conflicts(&context, &permit, "a lock").await?;
    context.release(&lock).await
}

async fn ids_are_unique(context: Context) -> Verdict {
    let locks = context.client().await?;
    let mut ids = HashSet::new();
    for _ in 0..4 {
        let one = locks.semaphore("x", OF).acquire().await?;
        let two = locks.semaphore("x", OF).permits(2).acquire().await?;
        for permit in [one, two] {
            let id = permit.id();
            ensure!(ids.insert(id), "the id {id} was granted twice");
            permit.release().await?;
        }
    }
    Ok(())
}

async fn each_permit_is_shown(context: Context) -> Verdict {
    let (one, two) = (some(&context, 1), some(&context, 2));
    context.take_all([&one, &two]).await?;
    let holders = context.holders("x").await?;
    for claim in [&one, &two] {
        let holder = holders.iter().find(|holder| holder.token == Some(claim.token));
        let holder = given(holder, format!("{} isn't shown: {holders:?}", claim.mode))?;
        let (is, should) = (holder.mode, claim.mode);
        ensure!(is == should, "{should} are shown as {is}");
        ensure!(holder.fence.is_none(), "a permit is shown with a fence: {:?}", holder.fence);
    }
    let holders = holders.len();
    ensure!(holders == 2, "two claims hold, but inspect shows {holders}");
    context.release_all([&one, &two]).await
}

async fn a_broken_permit_leaves_the_others(context: Context) -> Verdict {
    let [one, two, three] = [(); 3].map(|()| some(&context, 1));
    context.take_all([&one, &two, &three]).await?;
    context.break_hold(&two, BreakMode::Now).await?;
    context.renewed(&one).await?;
    context.renewed(&three).await?;
    let next = context.taken(some(&context, 1)).await?;
    none_left(&context).await?;
    context.release_all([&one, &three, &next]).await
}

async fn a_large_claim_is_not_overtaken(context: Context) -> Verdict {
    let (other, large) = (context.another().await?, some(&context, 3));
    let first = context.taken(some(&context, 2)).await?;
    other.queued(&large, Wait::Until(context.clock.now() + context.ttl)).await?;
    // The queued large claim reserves the free permit.
    none_left(&context).await?;
    context.release(&first).await?;
    none_left(&context).await?;
    other.take(&large).await?;
    other.release(&large).await?;
    let next = context.taken(some(&context, 1)).await?;
    context.release(&next).await
}

async fn a_larger_size_waits_for_its_turn(context: Context) -> Verdict {
    let one_of = |of| context.claim_as("x", Mode::Permits { count: 1, of });
    let (other, small, large) = (context.another().await?, one_of(1), one_of(OF));
    let first = context.taken(one_of(OF)).await?;
    other.queued(&small, Wait::Until(context.clock.now() + context.ttl)).await?;
    context.refused(&large).await?;
    context.release(&first).await?;
    other.take(&small).await?;
    context.take(&large).await?;
    other.release(&small).await?;
    context.release(&large).await
}

async fn a_freed_permit_wakes_the_waiter(context: Context) -> Verdict {
    soon(async |name| {
        let (one, two) = context.two_clients().await?;
        let all = one.semaphore(name, OF).permits(OF - 1).acquire().await?;
        let last = one.semaphore(name, OF).acquire().await?;
        let waiting = tokio::spawn(two.semaphore(name, OF).acquire());
        context.clock.sleep(context.profile.slow_poll / 10).await;
        last.release().await?;
        context.woken(waiting).await?.release().await?;
        Ok(all.release().await?)
    })
    .await
}

async fn all_who_fit_are_woken(context: Context) -> Verdict {
    soon(async |name| {
        let (two, three) = context.two_clients().await?;
        let all = context.client().await?.semaphore(name, OF).permits(OF).acquire().await?;
        let waiting = [&two, &three, &two].map(|locks| locks.semaphore(name, OF).acquire());
        let waiting = waiting.map(tokio::spawn);
        context.clock.sleep(context.profile.slow_poll / 10).await;
        all.release().await?;
        context.all_woken(waiting).await
    })
    .await
}

async fn permits_of_one_client_dont_take_turns(context: Context) -> Verdict {
    let locks = context.client().await?;
    let mut permits = Vec::new();
    for had in 0..OF {
        let permit = locks.semaphore("x", OF).try_acquire().await?;
        permits.push(given(permit, format!("only {had} of {OF} permits were granted"))?);
    }
    let more = locks.semaphore("x", OF).try_acquire().await?;
    ensure!(more.is_none(), "{} of {OF} were granted", OF + 1);
    all_released(permits).await
}

async fn impossible_counts_are_refused(context: Context) -> Verdict {
    let locks = context.client().await?;
    for count in [0, OF + 1] {
        let answer = locks.semaphore("x", OF).permits(count).acquire().await;
        fails(answer, ErrorKind::InvalidInput)?;
    }
    Ok(())
}

async fn an_owner_has_its_permit_again(context: Context) -> Verdict {
    let locks = context.client().await?;
    let owner = Owner::new();
    let mut permits = Vec::new();
    for _ in 0..=OF {
        permits.push(locks.semaphore("x", OF).reentrant(&owner).acquire().await?);
    }
    let ids: HashSet<u64> = permits.iter().map(Permit::id).collect();
    ensure!(ids.len() == 1, "one owner has the permits {ids:?}");
    let request = locks.semaphore("x", OF).permits(2).reentrant(&owner);
    fails(request.wait_for(context.ttl).acquire().await, ErrorKind::Conflict)?;
    let rest = locks.semaphore("x", OF).permits(OF - 1).acquire().await?;
    rest.release().await?;
    all_released(permits).await
}
