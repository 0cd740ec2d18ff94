use std::sync::Arc;

use lockwright_core::{HoldState, Locks};

use crate::case::{Case, cases};
use crate::context::{Context, close, refused, release, take};
use crate::factory::{Connect, Fragile, Harm, Step};
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

async fn client(context: &Context, connect: &Connect) -> Verdict<Locks> {
    Ok(context.client_on(connect.connect().await?)?)
}

async fn all_clear(context: &Context, server: &Fragile) -> Verdict {
    let (backend, next) = (server.connect.connect().await?, context.claim("x"));
    context.granted_within(&*backend, &next, context.patience(), context.ttl / 50).await?;
    release(&*backend, &next).await?;
    // A late request may be granted for a moment, until its client releases the lock.
    let give_up = context.clock.now() + context.ttl / 2;
    loop {
        let held = context.held(&*backend).await?;
        if held.is_empty() {
            return Ok(());
        }
        ensure!(context.clock.now() < give_up, "still held: {held:?}");
        context.clock.sleep(context.ttl / 50).await;
    }
}

async fn one_that_is_cut_off_stops_first(context: Arc<Context>) -> Verdict {
    let server = context.factory.fragile().await?;
    let locks = client(&context, &server.cut_off).await?;
    let (backend, next) = (server.connect.connect().await?, context.claim("x"));
    let guard = locks.mutex("x").acquire().await?;
    server.step(Step::Begin(Harm::Cut)).await?;
    let entry =
        context.granted_within(&*backend, &next, context.patience(), context.ttl / 100).await?;
    ensure!(guard.check().is_err(), "the hold was still valid at the next grant");
    ensure!(guard.deadline() <= entry.answered, "the guard's deadline is after the next grant");
    let tried = locks.mutex("y").try_acquire().await;
    ensure!(tried.is_err(), "a client that is cut off reached the server");
    server.step(Step::End(Harm::Cut)).await?;
    drop(guard);
    release(&*backend, &next).await?;
    let again = locks.mutex("x").wait_for(context.patience() * 3).acquire().await?;
    ensure!(again.fence() > entry.granted.fence, "the reconnected client's fence isn't larger");
    again.release().await?;
    locks.close().await;
    all_clear(&context, &server).await
}

async fn a_frozen_server_is_a_loss_on_time(context: Arc<Context>) -> Verdict {
    let server = context.factory.fragile().await?;
    let locks = client(&context, &server.connect).await?;
    let guard = locks.mutex("x").acquire().await?;
    server.step(Step::Begin(Harm::Freeze)).await?;
    let ended = tokio::time::timeout(context.patience(), guard.signal().ended()).await;
    let now = context.clock.now();
    let deadline = guard.deadline();
    server.step(Step::End(Harm::Freeze)).await?;
    let Ok(ended) = ended else { return Err(Failure::late("the loss was never signalled")) };
    ensure!(matches!(ended, HoldState::Lost(_)), "the guard ended as {ended:?}");
    let most = deadline + context.moment();
    in_time!(now <= most, "the loss was signalled {:?} late", now.saturating_since(deadline));
    drop(guard);
    locks.close().await;
    all_clear(&context, &server).await
}

async fn late_work_of_a_frozen_server_is_reconciled(context: Arc<Context>) -> Verdict {
    let server = context.factory.fragile().await?;
    let locks = client(&context, &server.connect).await?;
    locks.mutex("x").acquire().await?.release().await?;
    // Without tombstones, the server may grant a late duplicate, which then expires. With
    // tombstones, the TTL outlasts `all_clear`, so an unreconciled hold fails the case.
    let ttl = if context.profile.tombstones { context.long_claim("x").ttl } else { context.ttl };
    server.step(Step::Begin(Harm::Freeze)).await?;
    let tried = locks.mutex("x").ttl(ttl).wait_for(context.ttl / 2).acquire().await;
    server.step(Step::End(Harm::Freeze)).await?;
    ensure!(tried.is_err(), "a frozen server granted a lock");
    all_clear(&context, &server).await?;
    close(&[&locks]).await
}

async fn a_restart_ends_no_hold(context: Arc<Context>) -> Verdict {
    let server = context.factory.fragile().await?;
    let locks = client(&context, &server.connect).await?;
    // The TTL outlasts a slow restart.
    let guard = locks.mutex("x").ttl(context.ttl * 10).acquire().await?;
    server.step(Step::Begin(Harm::Restart)).await?;
    server.step(Step::End(Harm::Restart)).await?;
    guard.check()?;
    let other = server.connect.connect().await?;
    refused(&*other, &context.claim("x")).await?;
    let give_up = context.clock.now() + context.patience() * 3;
    while guard.renew().await.is_err() {
        guard.check()?;
        in_time!(context.clock.now() < give_up, "the hold can't be renewed after the restart");
        context.clock.sleep(context.ttl / 20).await;
    }
    let fence = guard.fence();
    guard.release().await?;
    let next = context.claim("x");
    let entry = take(&context, &*other, &next).await?;
    ensure!(entry.granted.fence > fence, "the next fence is {}", entry.granted.fence);
    release(&*other, &next).await?;
    close(&[&locks]).await
}

async fn a_waiter_outlives_a_restart(context: Arc<Context>) -> Verdict {
    let server = context.factory.fragile().await?;
    let locks = client(&context, &server.connect).await?;
    let holder = client(&context, &server.connect).await?;
    let guard = holder.mutex("x").ttl(context.ttl * 10).acquire().await?;
    let waiter = tokio::spawn({
        let (locks, limit) = (locks.clone(), context.patience() * 20);
        async move { locks.mutex("x").wait_for(limit).acquire().await }
    });
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
    // The answer to the release may be lost.
    let _ = guard.release().await;
    let granted = waiter.await??;
    ensure!(granted.fence() > fence, "the waiter's fence is {}", granted.fence());
    granted.release().await?;
    locks.close().await;
    holder.close().await;
    all_clear(&context, &server).await
}

async fn fences_grow_through_lost_data(context: Arc<Context>) -> Verdict {
    let server = context.factory.fragile().await?;
    let backend = server.connect.connect().await?;
    let before = context.long_claim("x");
    let fence = take(&context, &*backend, &before).await?.granted.fence;
    release(&*backend, &before).await?;
    server.step(Step::Begin(Harm::Forget)).await?;
    server.step(Step::End(Harm::Forget)).await?;
    let (other, after) = (server.connect.connect().await?, context.long_claim("x"));
    let later = take(&context, &*other, &after).await?.granted.fence;
    ensure!(
        later > fence,
        "the server granted the fence {fence} before it lost its data, and then {later}"
    );
    release(&*other, &after).await
}
