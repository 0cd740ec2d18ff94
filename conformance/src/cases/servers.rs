use lockwright_core::{HoldState, Locks};
use tokio::time::timeout;

use crate::case::{Case, cases};
use crate::context::Context;
use crate::factory::{Fragile, Harm, Step};
use crate::failure::{Failure, Verdict, ensure, in_time};

pub(super) const CASES: &[Case] = cases! { Servers:
    one_that_is_cut_off_stops_first [Cut]
        "a client that is cut off loses its hold before the next grant, and later reconnects";
    a_frozen_server_is_a_loss_on_time [Freeze]
        "if the server is frozen, the holder is notified of the loss in time";
    late_work_of_a_frozen_server_is_reconciled [Freeze]
        "requests that a frozen server executes late leave no hold";
    a_restart_ends_no_hold [Restart]
        "a server that restarts with its data keeps its holds, and their client continues";
    a_waiter_outlives_a_restart [Restart]
        "a client that waits during a restart is granted";
    fences_grow_through_lost_data [Forget]
        "a server that lost its data still grants larger fences";
};
async fn start(context: &Context) -> Verdict<(Fragile, Context, Locks)> {
    let server = context.factory.start().await?;
    let context = context.on(&server.connect).await?;
    let locks = context.client().await?;
    Ok((server, context, locks))
}

async fn all_clear(context: &Context) -> Verdict {
    let other = context.another().await?;
    other.are_free_within(&["x"], context.patience()).await?;
    // A late request may be granted until its client releases the lock.
    let held = other.left_after(context.ttl / 2).await?;
    ensure!(held.is_empty(), "still held: {held:?}");
    Ok(())
}

async fn one_that_is_cut_off_stops_first(context: Context) -> Verdict {
    let (server, context, _) = start(&context).await?;
    let locks = context.on(&server.cut_off).await?.client().await?;
    let (guard, next) = (locks.mutex("x").acquire().await?, context.claim("x"));
    server.step(Step::Begin(Harm::Cut)).await?;
    let entry = context.granted_in_the_end(&next).await?;
    ensure!(guard.check().is_err(), "the hold was still valid at the next grant");
    ensure!(guard.deadline() <= entry.answered, "the guard's deadline is after the next grant");
    let tried = locks.mutex("y").try_acquire().await;
    ensure!(tried.is_err(), "a client that is cut off reached the server");
    server.step(Step::End(Harm::Cut)).await?;
    drop(guard);
    context.release(&next).await?;
    let again = locks.mutex("x").wait_for(context.patience() * 3).acquire().await?;
    ensure!(again.fence() > entry.granted.fence, "the reconnected client's fence isn't larger");
    again.release().await?;
    locks.close().await;
    all_clear(&context).await
}

async fn a_frozen_server_is_a_loss_on_time(context: Context) -> Verdict {
    let (server, context, locks) = start(&context).await?;
    let guard = locks.mutex("x").acquire().await?;
    server.step(Step::Begin(Harm::Freeze)).await?;
    let ended = timeout(context.patience(), guard.signal().ended()).await;
    let (now, deadline) = (context.clock.now(), guard.deadline());
    server.step(Step::End(Harm::Freeze)).await?;
    let Ok(ended) = ended else { return Err(Failure::late("the loss was never signalled")) };
    ensure!(matches!(ended, HoldState::Lost(_)), "the guard ended as {ended:?}");
    let late = now.saturating_since(deadline);
    in_time!(late <= context.moment(), "the loss was signalled {late:?} late");
    drop(guard);
    locks.close().await;
    all_clear(&context).await
}

async fn late_work_of_a_frozen_server_is_reconciled(context: Context) -> Verdict {
    let (server, context, locks) = start(&context).await?;
    locks.mutex("x").acquire().await?.release().await?;
    // Without tombstones, a late duplicate may be granted, and expires. With tombstones, the TTL
    // outlasts `all_clear`, so an unreconciled hold fails the case.
    let ttl = if context.profile.tombstones { context.long_claim("x").ttl } else { context.ttl };
    server.step(Step::Begin(Harm::Freeze)).await?;
    let tried = locks.mutex("x").ttl(ttl).wait_for(context.ttl / 2).acquire().await;
    server.step(Step::End(Harm::Freeze)).await?;
    ensure!(tried.is_err(), "a frozen server granted a lock");
    all_clear(&context).await
}

async fn a_restart_ends_no_hold(context: Context) -> Verdict {
    let (server, context, locks) = start(&context).await?;
    // The TTL outlasts a slow restart.
    let guard = locks.mutex("x").ttl(context.ttl * 10).acquire().await?;
    server.step(Step::Begin(Harm::Restart)).await?;
    server.step(Step::End(Harm::Restart)).await?;
    guard.check()?;
    let other = context.another().await?;
    other.is_held("x").await?;
    let give_up = context.clock.now() + context.patience() * 3;
    while guard.renew().await.is_err() {
        guard.check()?;
        in_time!(context.clock.now() < give_up, "the hold can't be renewed after the restart");
        context.clock.sleep(context.ttl / 20).await;
    }
    let fence = guard.fence();
    guard.release().await?;
    let next = context.claim("x");
    let later = other.take(&next).await?.granted.fence;
    ensure!(later > fence, "the next fence is {later}");
    other.release(&next).await
}

async fn a_waiter_outlives_a_restart(context: Context) -> Verdict {
    let (server, context, locks) = start(&context).await?;
    let holder = context.client().await?;
    let guard = holder.mutex("x").ttl(context.ttl * 10).acquire().await?;
    let waiter = tokio::spawn(locks.mutex("x").wait_for(context.patience() * 20).acquire());
    context.clock.sleep(context.ttl / 5).await;
    server.step(Step::Begin(Harm::Restart)).await?;
    server.step(Step::End(Harm::Restart)).await?;
    let restarted_in_time = guard.check().is_ok();
    if waiter.is_finished() {
        let ended = waiter.await?;
        in_time!(restarted_in_time, "the server restarted after the hold had expired: {ended:?}");
        return Err(Failure::new(format!("the waiter ended while the lock was held: {ended:?}")));
    }
    let fence = guard.fence();
    // The release's answer may be lost.
    let _ = guard.release().await;
    let granted = waiter.await??;
    ensure!(granted.fence() > fence, "the waiter's fence is {}", granted.fence());
    granted.release().await?;
    locks.close().await;
    holder.close().await;
    all_clear(&context).await
}

async fn fences_grow_through_lost_data(context: Context) -> Verdict {
    let (server, context, _) = start(&context).await?;
    let before = context.long_claim("x");
    let fence = context.take(&before).await?.granted.fence;
    context.release(&before).await?;
    server.step(Step::Begin(Harm::Forget)).await?;
    server.step(Step::End(Harm::Forget)).await?;
    let (other, after) = (context.another().await?, context.long_claim("x"));
    let later = other.take(&after).await?.granted.fence;
    ensure!(
        later > fence,
        "the server granted the fence {fence} before it lost its data, and then {later}"
    );
    other.release(&after).await
}
