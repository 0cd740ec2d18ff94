use std::collections::HashSet;
use std::sync::Arc;

use lockwright_core::{
    AcquireOutcome, BreakMode, Claim, DistributedLock, ErrorKind, Mode, Owner, ReleaseMode, Wait,
};
use tokio::task::JoinSet;

use crate::case::{Case, cases};
use crate::context::{
    Context, break_hold, fails, not_released, not_renewed, refused, release, release_all, renewed,
    soon, take, take_all, woken,
};
use crate::failure::{Failure, Verdict, ensure};

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
    sizes_do_not_mix [Permits]
        "a claim with another size is refused while the semaphore is in use";
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

async fn as_many_are_granted_as_there_are(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let claims = [some(&context, 1), some(&context, 1), some(&context, 1)];
    take(&context, &*backend, &claims[0]).await?;
    take(&context, &*other, &claims[1]).await?;
    take(&context, &*backend, &claims[2]).await?;
    for backend in [&backend, &other] {
        refused(&**backend, &some(&context, 1)).await?;
    }
    release(&*backend, &claims[1]).await?;
    let next = some(&context, 1);
    take(&context, &*other, &next).await?;
    refused(&*backend, &some(&context, 1)).await?;
    release_all(&*backend, [&claims[0], &claims[2], &next]).await
}

async fn many_at_once_get_no_more_than_there_are(context: Arc<Context>) -> Verdict {
    const ROUNDS: u32 = 8;
    let mut backends = Vec::new();
    for _ in 0..=OF {
        backends.push(context.backend().await?);
    }
    let mut most = 0;
    for _ in 0..ROUNDS {
        let mut asking = JoinSet::new();
        for backend in &backends {
            let (backend, claim) = (Arc::clone(backend), some(&context, 1));
            asking.spawn(async move {
                let answer = backend.try_acquire(&claim).await;
                (backend, claim, answer)
            });
        }
        let mut granted = Vec::new();
        for (backend, claim, answer) in asking.join_all().await {
            if matches!(answer?, AcquireOutcome::Granted(_)) {
                granted.push((backend, claim));
            }
        }
        ensure!(granted.len() <= OF as usize, "{} of {OF} were granted at once", granted.len());
        most = most.max(granted.len());
        for (backend, claim) in &granted {
            release(&**backend, claim).await?;
        }
    }
    ensure!(most > 0, "inconclusive: no claim was granted");
    Ok(())
}

async fn weights_are_counted(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (two, one, all) = (some(&context, 2), some(&context, 1), some(&context, 3));
    take(&context, &*backend, &two).await?;
    refused(&*backend, &some(&context, 2)).await?;
    take(&context, &*backend, &one).await?;
    refused(&*backend, &some(&context, 1)).await?;
    release(&*backend, &two).await?;
    refused(&*backend, &all).await?;
    release(&*backend, &one).await?;
    take(&context, &*backend, &all).await?;
    refused(&*backend, &some(&context, 1)).await?;
    release(&*backend, &all).await
}

async fn each_permit_expires_alone(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let short = || Claim { ttl: context.ttl, ..some(&context, 1) };
    let (goes, stays, goes_too) = (short(), some(&context, 1), short());
    take_all(&context, &*backend, [&goes, &stays, &goes_too]).await?;
    context.clock.sleep(context.ttl + context.moment() / 20).await;
    for gone in [&goes, &goes_too] {
        not_renewed(&*backend, gone).await?;
    }
    renewed(&*backend, &stays).await?;
    refused(&*backend, &some(&context, 3)).await?;
    let two = some(&context, 2);
    take(&context, &*backend, &two).await?;
    release_all(&*backend, [&two, &stays]).await
}

async fn a_permits_release_ends_its_own_hold_only(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (one, two, three) = (some(&context, 1), some(&context, 1), some(&context, 1));
    take_all(&context, &*backend, [&one, &two, &three]).await?;
    release(&*backend, &one).await?;
    let next = some(&context, 1);
    take(&context, &*backend, &next).await?;
    let foreign = some(&context, 1);
    for claim in [&one, &foreign] {
        not_released(&*backend, claim, ReleaseMode::Plain).await?;
        refused(&*backend, &some(&context, 1)).await?;
    }
    release_all(&*backend, [&two, &three, &next]).await
}

async fn a_repeat_takes_no_second_permit(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (one, rest) = (some(&context, 1), some(&context, 2));
    let first = take(&context, &*backend, &one).await?.granted;
    for _ in 0..3 {
        let again = take(&context, &*backend, &one).await?.granted;
        let (first, again) = (first.fence, again.fence);
        ensure!(first == again, "a repeat had the id {first}, and then {again}");
    }
    take(&context, &*backend, &rest).await?;
    release(&*backend, &one).await?;
    let next = some(&context, 1);
    take(&context, &*backend, &next).await?;
    release_all(&*backend, [&next, &rest]).await
}

async fn conflicts(backend: &dyn DistributedLock, claim: &Claim, says: &str) -> Verdict {
    match backend.acquire(claim, Wait::No).await {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let text = error.to_string();
            ensure!(text.contains(says), "the error is {text:?} and doesn't contain {says:?}");
            Ok(())
        }
        answer => Err(Failure::new(format!("a claim for {} was answered {answer:?}", claim.mode))),
    }
}

async fn sizes_do_not_mix(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let one = some(&context, 1);
    take(&context, &*backend, &one).await?;
    for of in [OF - 1, OF + 1, 100] {
        let claim = context.claim_as("x", Mode::Permits { count: 1, of });
        conflicts(&*backend, &claim, "a semaphore of 3").await?;
    }
    release(&*backend, &one).await?;
    let larger = context.claim_as("x", Mode::Permits { count: 4, of: 5 });
    take(&context, &*backend, &larger).await?;
    conflicts(&*backend, &one, "a semaphore of 5").await?;
    release(&*backend, &larger).await
}

async fn a_semaphore_is_no_lock(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (permit, lock) = (some(&context, 1), context.claim_as("x", Mode::Exclusive));
    take(&context, &*backend, &permit).await?;
    conflicts(&*backend, &lock, "a semaphore of 3").await?;
    if context.profile.modes.shared {
        conflicts(&*backend, &context.claim_as("x", Mode::Shared), "a semaphore of 3").await?;
    }
    release(&*backend, &permit).await?;
    take(&context, &*backend, &lock).await?;
    conflicts(&*backend, &permit, "a lock").await?;
    release(&*backend, &lock).await
}

async fn ids_are_unique(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let mut ids = HashSet::new();
    for _ in 0..4 {
        let one = locks.semaphore("x", OF).acquire().await?;
        let two = locks.semaphore("x", OF).permits(2).acquire().await?;
        for id in [one.id(), two.id()] {
            ensure!(ids.insert(id), "the id {id} was granted twice");
        }
        one.release().await?;
        two.release().await?;
    }
    Ok(())
}

async fn each_permit_is_shown(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (one, two) = (some(&context, 1), some(&context, 2));
    take_all(&context, &*backend, [&one, &two]).await?;
    let shown = backend.inspect(&one.name).await?;
    for claim in [&one, &two] {
        let holder = shown.holders.iter().find(|holder| holder.token == Some(claim.token));
        let Some(holder) = holder else {
            return Err(Failure::new(format!("{} isn't shown: {shown:?}", claim.mode)));
        };
        let (is, should) = (holder.mode, claim.mode);
        ensure!(is == should, "{should} are shown as {is}");
        ensure!(holder.fence.is_none(), "a permit is shown with a fence: {:?}", holder.fence);
    }
    let holders = shown.holders.len();
    ensure!(holders == 2, "two claims hold, but inspect shows {holders}");
    release_all(&*backend, [&one, &two]).await
}

async fn a_broken_permit_leaves_the_others(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (one, two, three) = (some(&context, 1), some(&context, 1), some(&context, 1));
    take_all(&context, &*backend, [&one, &two, &three]).await?;
    break_hold(&*backend, &two, BreakMode::Now).await?;
    for claim in [&one, &three] {
        renewed(&*backend, claim).await?;
    }
    let next = some(&context, 1);
    take(&context, &*backend, &next).await?;
    refused(&*backend, &some(&context, 1)).await?;
    release_all(&*backend, [&one, &three, &next]).await
}

async fn a_large_claim_is_not_overtaken(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let (first, large) = (some(&context, 2), some(&context, 3));
    take(&context, &*backend, &first).await?;
    let limit = context.clock.now() + context.ttl;
    let answer = other.acquire(&large, Wait::Until(limit)).await?;
    ensure!(matches!(answer, AcquireOutcome::Busy(_)), "five of three permits were granted");
    // One permit is free, but the large claim is queued first.
    refused(&*backend, &some(&context, 1)).await?;
    release(&*backend, &first).await?;
    refused(&*backend, &some(&context, 1)).await?;
    take(&context, &*other, &large).await?;
    release(&*other, &large).await?;
    let next = some(&context, 1);
    take(&context, &*backend, &next).await?;
    release(&*backend, &next).await
}

async fn a_freed_permit_wakes_the_waiter(context: Arc<Context>) -> Verdict {
    soon(|name| freed_permit_wakes(Arc::clone(&context), name)).await
}

async fn freed_permit_wakes(context: Arc<Context>, name: String) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let all = one.semaphore(&*name, OF).permits(OF - 1).acquire().await?;
    let last = one.semaphore(&*name, OF).acquire().await?;
    let waiting = tokio::spawn(two.semaphore(&*name, OF).acquire());
    context.clock.sleep(context.profile.slow_poll / 10).await;
    last.release().await?;
    woken(&context, waiting).await?.release().await?;
    Ok(all.release().await?)
}

async fn all_who_fit_are_woken(context: Arc<Context>) -> Verdict {
    soon(|name| all_who_fit_wakes(Arc::clone(&context), name)).await
}

async fn all_who_fit_wakes(context: Arc<Context>, name: String) -> Verdict {
    let (one, two, three) =
        (context.client().await?, context.client().await?, context.client().await?);
    let all = one.semaphore(&*name, OF).permits(OF).acquire().await?;
    let mut waiting = Vec::new();
    for locks in [&two, &three, &two] {
        let locks = locks.clone();
        waiting.push(tokio::spawn(locks.semaphore(&*name, OF).acquire()));
    }
    context.clock.sleep(context.profile.slow_poll / 10).await;
    all.release().await?;
    let mut permits = Vec::new();
    for waiting in waiting {
        permits.push(woken(&context, waiting).await?);
    }
    for permit in permits {
        permit.release().await?;
    }
    Ok(())
}

async fn permits_of_one_client_dont_take_turns(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let mut permits = Vec::new();
    for _ in 0..OF {
        let (permit, had) = (locks.semaphore("x", OF).try_acquire().await?, permits.len());
        let failure = || Failure::new(format!("only {had} of {OF} permits were granted"));
        permits.push(permit.ok_or_else(failure)?);
    }
    let more = locks.semaphore("x", OF).try_acquire().await?;
    ensure!(more.is_none(), "{} of {OF} were granted", OF + 1);
    for permit in permits {
        permit.check()?;
        permit.release().await?;
    }
    context.nothing_left().await
}

async fn impossible_counts_are_refused(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    for count in [0, OF + 1] {
        let kind = locks.semaphore("x", OF).permits(count).acquire().await.err().map(|e| e.kind());
        let is_reported = kind == Some(ErrorKind::InvalidInput);
        ensure!(is_reported, "a request for {count} of {OF} permits was answered {kind:?}");
    }
    context.nothing_left().await
}

async fn an_owner_has_its_permit_again(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let owner = Owner::new();
    let mut permits = Vec::new();
    for _ in 0..=OF {
        permits.push(locks.semaphore("x", OF).reentrant(&owner).acquire().await?);
    }
    let ids: HashSet<u64> = permits.iter().map(lockwright_core::Permit::id).collect();
    ensure!(ids.len() == 1, "one owner has the permits {ids:?}");
    let request = locks.semaphore("x", OF).permits(2).reentrant(&owner);
    fails(request.wait_for(context.ttl).acquire().await, ErrorKind::Conflict)?;
    let rest = locks.semaphore("x", OF).permits(OF - 1).acquire().await?;
    rest.release().await?;
    for permit in permits {
        permit.check()?;
        permit.release().await?;
    }
    context.nothing_left().await
}
