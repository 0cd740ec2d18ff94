use std::time::Duration;

use lockwright_core::{BreakMode, Claim, Fence, Granted, Wait};
use tokio::task::JoinSet;

use crate::case::{Case, cases};
use crate::context::{Context, all_done};
use crate::failure::{Verdict, ensure};
use crate::history::journal::{Event, Journal};

pub(super) const CASES: &[Case] = cases! { Fencing:
    fences_grow_through_releases [Fences]
        "each hold has a larger fence than the one before, on any connection";
    fences_grow_through_expiry [Fences]
        "fences also grow if the previous hold expired";
    fences_grow_when_others_are_busy [Fences]
        "after a long idle time, a name's fences don't restart";
    fences_grow_when_many_contend [Fences]
        "concurrent holds have unique fences, and later ones are larger";
    fences_are_comparable_everywhere [Fences]
        "fences are between 1 and 2^53 - 1, which scripting languages compare exactly";
    a_reserved_block_is_passed [Fences]
        "a hold's reserved fences are never granted again";
    a_break_passes_the_block [Fences, Breakable]
        "a broken hold's reserved fences are never granted again";
    the_operator_sees_the_fence [Fences]
        "inspect shows the holder's fence";
    a_guard_has_the_servers_fence [Fences]
        "the client's guard has the fence that inspect shows";
};
async fn passing(context: &Context, claim: &Claim) -> Verdict<Granted> {
    let granted = context.take(claim).await?.granted;
    context.release(claim).await?;
    Ok(granted)
}

async fn fences_grow_through_releases(context: Context) -> Verdict {
    let two = context.another().await?;
    let mut last = Fence::new(0);
    for round in 0..20 {
        let connection = if round % 3 == 0 { &context } else { &two };
        let fence = passing(connection, &context.long_claim("x")).await?.fence;
        ensure!(fence > last, "the fence {fence} came after {last}");
        last = fence;
    }
    Ok(())
}

async fn fences_grow_through_expiry(context: Context) -> Verdict {
    let mut last = context.take(&context.claim("x")).await?.granted.fence;
    for _ in 0..2 {
        let fence = context.granted_in_the_end(&context.claim("x")).await?.granted.fence;
        ensure!(fence > last, "the fence {fence} came after {last}, which had expired");
        last = fence;
    }
    Ok(())
}

async fn fences_grow_when_others_are_busy(context: Context) -> Verdict {
    let before = passing(&context, &context.long_claim("idle")).await?.fence;
    for number in 0..150 {
        context.is_free(&format!("busy {}", number % 75)).await?;
    }
    let other = context.another().await?;
    let after = passing(&other, &context.long_claim("idle")).await?.fence;
    ensure!(after > before, "the fence {after} came after {before}");
    Ok(())
}

async fn fences_grow_when_many_contend(context: Context) -> Verdict {
    let journal = Journal::in_memory("the case", context.clock.clone());
    let mut contending = JoinSet::new();
    for number in 0..4 {
        let (context, journal) = (context.another().await?, journal.of(&format!("task {number}")));
        contending.spawn(async move {
            for request in 0..10 {
                let (claim, step) = (context.claim("x"), Duration::from_millis(1));
                let (name, mode, token) = ("x".to_owned(), claim.mode, claim.token);
                journal.write(Event::Asked { request, name, mode, waits: true, owner: None });
                let grant =
                    context.granted_every(step, &claim, context.patience(), Wait::No).await?;
                let (fence, deadline) = (grant.granted.fence, grant.sent + claim.ttl);
                journal.write(Event::Granted { request, token, fence, deadline });
                journal.write(Event::Releasing { token });
                context.release(&claim).await?;
            }
            Ok(())
        });
    }
    all_done(contending).await?;
    context.checked(journal.entries()).map(drop)
}

async fn fences_are_comparable_everywhere(context: Context) -> Verdict {
    for name in ["x", "y"] {
        let Granted { fence, fences, .. } = passing(&context, &context.long_claim(name)).await?;
        ensure!(fence >= Fence::new(1) && fence <= Fence::MAX, "the fence {fence} is out of range");
        ensure!(fences >= 1, "a hold without a fence was granted");
    }
    Ok(())
}

async fn a_reserved_block_is_passed(context: Context) -> Verdict {
    let many = Claim { fences: 8, ..context.long_claim("x") };
    let granted = passing(&context, &many).await?;
    ensure!(granted.fences >= 1, "a hold without a fence was granted");
    let last = granted.fence.get() + u64::from(granted.fences) - 1;
    let fence = passing(&context, &context.long_claim("x")).await?.fence;
    ensure!(fence.get() > last, "the fence {fence} is in a block that ends at {last}");
    Ok(())
}

async fn a_break_passes_the_block(context: Context) -> Verdict {
    let broken = Claim { fences: 8, ..context.long_claim("x") };
    let granted = context.take(&broken).await?.granted;
    context.break_hold(&broken, BreakMode::Now).await?;
    let last = granted.fence.get() + u64::from(granted.fences) - 1;
    let fence = passing(&context, &context.long_claim("x")).await?.fence;
    ensure!(fence.get() > last, "the fence {fence} is in a broken block that ends at {last}");
    Ok(())
}

async fn the_operator_sees_the_fence(context: Context) -> Verdict {
    let claim = context.long_claim("x");
    let fence = context.take(&claim).await?.granted.fence;
    let inspection = context.backend.inspect(&claim.name).await?;
    let shown = inspection.holders.first().and_then(|holder| holder.fence);
    ensure!(shown == Some(fence), "the holder has {fence}, but {shown:?} is shown");
    if let Some(highest) = inspection.fence {
        ensure!(highest >= fence, "the highest fence is {highest}, below the holder's {fence}");
    }
    context.release(&claim).await
}

async fn a_guard_has_the_servers_fence(context: Context) -> Verdict {
    let guard = context.guard().await?;
    let shown = context.holders("x").await?.first().and_then(|holder| holder.fence);
    let fence = guard.fence();
    ensure!(shown == Some(fence), "the guard has {fence}, but {shown:?} is shown");
    Ok(guard.release().await?)
}
