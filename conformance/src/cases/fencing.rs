use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{BreakMode, Fence};

use crate::case::{Case, cases};
use crate::context::{Context, break_hold, release, take};
use crate::failure::{Failure, Verdict, ensure};
use crate::history::{History, Hold};

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

async fn fences_grow_through_releases(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.backend().await?, context.backend().await?);
    let mut last = Fence::new(0);
    for round in 0..20 {
        let backend = if round % 3 == 0 { &*one } else { &*two };
        let claim = context.long_claim("x");
        let fence = take(&context, backend, &claim).await?.granted.fence;
        ensure!(fence > last, "the fence {fence} came after {last}");
        last = fence;
        release(backend, &claim).await?;
    }
    Ok(())
}

async fn fences_grow_through_expiry(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let mut last = take(&context, &*backend, &context.claim("x")).await?.granted.fence;
    for _ in 0..2 {
        let next = context.claim("x");
        let entry =
            context.granted_within(&*backend, &next, context.patience(), context.ttl / 20).await?;
        let fence = entry.granted.fence;
        ensure!(fence > last, "the fence {fence} came after {last}, which had expired");
        last = fence;
    }
    Ok(())
}

async fn fences_grow_when_others_are_busy(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let idle = context.long_claim("idle");
    let before = take(&context, &*backend, &idle).await?.granted.fence;
    release(&*backend, &idle).await?;
    for number in 0..150 {
        let claim = context.long_claim(&format!("busy {}", number % 75));
        take(&context, &*backend, &claim).await?;
        release(&*backend, &claim).await?;
    }
    let again = context.long_claim("idle");
    let other = context.backend().await?;
    let after = take(&context, &*other, &again).await?.granted.fence;
    ensure!(after > before, "the fence {after} came after {before}");
    release(&*other, &again).await
}

async fn fences_grow_when_many_contend(context: Arc<Context>) -> Verdict {
    let history = History::default();
    let mut contending = tokio::task::JoinSet::new();
    for number in 0..4 {
        let (context, history) = (Arc::clone(&context), history.clone());
        let backend = context.backend().await?;
        contending.spawn(async move {
            for _ in 0..10 {
                let asked = context.clock.now();
                let claim = context.claim("x");
                let step = Duration::from_millis(1);
                let patience = context.patience();
                let entry = context.granted_within(&*backend, &claim, patience, step).await?;
                let (who, name) = (format!("task {number}"), "x".to_owned());
                let (token, mode, fence) = (claim.token, claim.mode, entry.granted.fence);
                let (granted, until) = (entry.answered, entry.answered);
                history.add(Hold { who, name, mode, token, fence, asked, granted, until });
                release(&*backend, &claim).await?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(done) = contending.join_next().await {
        done??;
    }
    match history.check(true).first() {
        Some(violation) => Err(Failure::new(violation.to_string())),
        None => Ok(()),
    }
}

async fn fences_are_comparable_everywhere(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    for name in ["x", "y"] {
        let claim = context.long_claim(name);
        let granted = take(&context, &*backend, &claim).await?.granted;
        let fence = granted.fence;
        ensure!(fence >= Fence::new(1) && fence <= Fence::MAX, "the fence {fence} is out of range");
        ensure!(granted.fences >= 1, "a hold without a fence was granted");
        release(&*backend, &claim).await?;
    }
    Ok(())
}

async fn a_reserved_block_is_passed(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (mut many, next) = (context.long_claim("x"), context.long_claim("x"));
    many.fences = 8;
    let granted = take(&context, &*backend, &many).await?.granted;
    ensure!(granted.fences >= 1, "a hold without a fence was granted");
    release(&*backend, &many).await?;
    let last = granted.fence.get() + u64::from(granted.fences) - 1;
    let fence = take(&context, &*backend, &next).await?.granted.fence;
    ensure!(fence.get() > last, "the fence {fence} is in a block that ends at {last}");
    release(&*backend, &next).await
}

async fn a_break_passes_the_block(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (mut broken, next) = (context.long_claim("x"), context.long_claim("x"));
    broken.fences = 8;
    let granted = take(&context, &*backend, &broken).await?.granted;
    break_hold(&*backend, &broken, BreakMode::Now).await?;
    let last = granted.fence.get() + u64::from(granted.fences) - 1;
    let fence = take(&context, &*backend, &next).await?.granted.fence;
    ensure!(fence.get() > last, "the fence {fence} is in a broken block that ends at {last}");
    release(&*backend, &next).await
}

async fn the_operator_sees_the_fence(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.long_claim("x");
    let fence = take(&context, &*backend, &claim).await?.granted.fence;
    let inspection = backend.inspect(&claim.name).await?;
    let shown = inspection.holders.first().and_then(|holder| holder.fence);
    ensure!(shown == Some(fence), "the holder has {fence}, but {shown:?} is shown");
    if let Some(highest) = inspection.fence {
        ensure!(highest >= fence, "the highest fence is {highest}, below the holder's {fence}");
    }
    release(&*backend, &claim).await
}

async fn a_guard_has_the_servers_fence(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let shown = locks.inspect("x").await?.holders.first().and_then(|holder| holder.fence);
    let fence = guard.fence();
    ensure!(shown == Some(fence), "the guard has {fence}, but {shown:?} is shown");
    Ok(guard.release().await?)
}
