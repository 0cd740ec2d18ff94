use lockwright_core::{
    AcquireOutcome, BreakMode, Claim, ErrorKind, Mode, Owner, Reason, ReleaseMode, RenewalOutcome,
    Wait,
};
use tokio::time::timeout;

use crate::case::{Case, cases};
use crate::context::{Context, all_released, fails, soon};
use crate::failure::{Verdict, ensure, given, in_time};

pub(super) const CASES: &[Case] = cases! { Shared:
    readers_hold_beside_each_other [Shared]
        "several readers hold at once, on any connection, and no writer with them";
    a_writer_waits_for_the_last_reader [Shared]
        "a writer is granted after the last reader's release, in any order";
    a_reader_waits_for_the_writer [Shared]
        "a reader is granted after the writer's release";
    each_reader_expires_alone [Shared]
        "a reader that isn't renewed expires, and the others stay held";
    a_reader_ends_its_own_hold_only [Shared]
        "a second release, or a release with a foreign token, admits no writer";
    a_repeated_reader_is_one_hold [Shared]
        "a repeated claim is the same hold, and one release ends it";
    a_waiting_writer_stops_new_readers [Shared]
        "a waiting writer is granted however many readers arrive";
    a_vanished_writer_stops_readers_for_a_bounded_time [Shared]
        "a waiting writer that vanished blocks readers for a bounded time";
    readers_share_a_fence [Shared, Fences]
        "concurrent readers share a fence, and each writer's fence is larger than all before it";
    each_reader_is_shown [Shared]
        "inspect shows each of several holders, with its mode";
    a_broken_reader_leaves_the_others [Shared, Breakable]
        "a break ends the inspected reader's hold, and no other";
    the_last_readers_release_wakes_the_writer [Shared, Push]
        "a waiter is woken long before its next poll";
    a_writers_release_wakes_all_readers [Shared, Push]
        "a writer's release wakes all waiting readers";
    readers_of_one_client_dont_take_turns [Shared]
        "reading tasks of one client hold at the same time";
    an_owner_reads_again_at_once [Shared]
        "an owner reads again without a second hold, also while a writer waits";
    an_upgrade_is_an_error [Shared]
        "an owner that reads can't write: it would wait for itself";
};
fn reader(context: &Context) -> Claim {
    context.claim_as("x", Mode::Shared)
}

async fn readers_hold_beside_each_other(context: Context) -> Verdict {
    let other = context.another().await?;
    let one = context.taken(reader(&context)).await?;
    let two = context.taken(reader(&context)).await?;
    let three = other.taken(reader(&context)).await?;
    context.is_held("x").await?;
    other.is_held("x").await?;
    context.release_all([&one, &two, &three]).await?;
    context.is_free("x").await
}

async fn a_writer_waits_for_the_last_reader(context: Context) -> Verdict {
    for last in [0, 1] {
        let readers = [reader(&context), reader(&context)];
        context.take_all(&readers).await?;
        context.is_held("x").await?;
        context.release(&readers[1 - last]).await?;
        context.is_held("x").await?;
        context.release(&readers[last]).await?;
        context.is_free("x").await?;
    }
    Ok(())
}

async fn a_reader_waits_for_the_writer(context: Context) -> Verdict {
    let other = context.another().await?;
    let writer = context.taken(context.long_claim("x")).await?;
    context.refused(&reader(&context)).await?;
    other.refused(&reader(&context)).await?;
    context.release(&writer).await?;
    let reader = other.taken(reader(&context)).await?;
    other.release(&reader).await
}

async fn each_reader_expires_alone(context: Context) -> Verdict {
    // The first reader expires, because a backend may store it differently from others.
    let short = || Claim { ttl: context.ttl, ..reader(&context) };
    let (goes, stays, goes_too) = (short(), reader(&context), short());
    context.take_all([&goes, &stays, &goes_too]).await?;
    context.clock.sleep(context.ttl + context.moment() / 20).await;
    context.not_renewed(&goes).await?;
    context.not_renewed(&goes_too).await?;
    context.renewed(&stays).await?;
    context.is_held("x").await?;
    context.release(&stays).await?;
    context.is_free("x").await
}

async fn a_reader_ends_its_own_hold_only(context: Context) -> Verdict {
    let (one, two) = (reader(&context), reader(&context));
    context.take_all([&one, &two]).await?;
    context.release(&one).await?;
    for claim in [&one, &reader(&context)] {
        context.not_released(claim, ReleaseMode::Plain).await?;
        context.is_held("x").await?;
    }
    context.release(&two).await
}

async fn a_repeated_reader_is_one_hold(context: Context) -> Verdict {
    let (other, one) = (context.taken(reader(&context)).await?, reader(&context));
    let first = context.take(&one).await?.granted.fence;
    let second = context.take(&one).await?.granted.fence;
    ensure!(first == second, "a repeat had the fence {first}, and then {second}");
    context.release_all([&one, &other]).await?;
    context.is_free("x").await
}

async fn a_waiting_writer_stops_new_readers(context: Context) -> Verdict {
    let locks = context.client().await?;
    let first = context.taken(reader(&context)).await?;
    let waiting = tokio::spawn(locks.write("x").acquire());
    // A refused reader shows that the writer is queued.
    let (give_up, mut next) = (context.clock.now() + context.patience(), reader(&context));
    while let AcquireOutcome::Granted(_) = context.backend.try_acquire(&next).await? {
        context.release(&next).await?;
        let is_in_time = context.clock.now() < give_up;
        in_time!(is_in_time, "readers were granted while a writer waited");
        context.clock.sleep(context.ttl / 20).await;
        next = reader(&context);
    }
    context.release(&first).await?;
    let guard = timeout(context.patience(), waiting).await.ok();
    let guard = given(guard, "the writer was not granted after the last reader's release")?;
    guard??.release().await?;
    let next = context.taken(reader(&context)).await?;
    context.release(&next).await
}

async fn a_vanished_writer_stops_readers_for_a_bounded_time(context: Context) -> Verdict {
    let other = context.another().await?;
    let (first, next) = (context.taken(reader(&context)).await?, reader(&context));
    let limit = Wait::Until(context.clock.now() + context.ttl / 10);
    other.queued(&context.claim("x"), limit).await?;
    drop(other);
    let bound = context.ttl * 2 + context.profile.slow_poll * 10 + context.moment();
    context.granted_within(&next, bound).await?;
    context.release_all([&first, &next]).await
}

async fn readers_share_a_fence(context: Context) -> Verdict {
    let mut highest = None;
    for _ in 0..3 {
        let (one, two, writer) = (reader(&context), reader(&context), context.long_claim("x"));
        let first = context.take(&one).await?.granted.fence;
        let second = context.take(&two).await?.granted.fence;
        ensure!(first == second, "concurrent readers have the fences {first} and {second}");
        ensure!(Some(first) > highest, "{first} came after {highest:?}");
        context.release(&one).await?;
        let third = reader(&context);
        let fence = context.take(&third).await?.granted.fence;
        ensure!(fence == first, "concurrent readers have the fences {first} and {fence}");
        context.release_all([&two, &third]).await?;
        let writers = context.take(&writer).await?.granted.fence;
        ensure!(writers > first, "the writer's {writers} came after the readers' {first}");
        highest = Some(writers);
        context.release(&writer).await?;
    }
    Ok(())
}

async fn each_reader_is_shown(context: Context) -> Verdict {
    let (one, two) = (reader(&context), reader(&context));
    context.take_all([&one, &two]).await?;
    let holders = context.holders("x").await?;
    for token in [one.token, two.token] {
        let shown = holders.iter().filter(|holder| holder.token == Some(token)).count();
        ensure!(shown == 1, "the reader {token} holds, but inspect shows {holders:?}");
    }
    let modes: Vec<_> = holders.iter().map(|holder| holder.mode).collect();
    ensure!(modes == [Mode::Shared; 2], "two readers are shown as {modes:?}");
    let listed = context.held().await?;
    ensure!(listed == [one.name.clone()], "a name with two readers is listed as {listed:?}");
    context.release_all([&one, &two]).await
}

async fn a_broken_reader_leaves_the_others(context: Context) -> Verdict {
    let (one, two) = (reader(&context), reader(&context));
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let broken = reader(&context);
        context.take_all([&one, &broken, &two]).await?;
        context.break_hold(&broken, how).await?;
        let outcome = context.renew(&broken).await?;
        let expected = [Reason::Broken, Reason::Gone].map(RenewalOutcome::NotHeld);
        let is_broken = expected.contains(&outcome);
        ensure!(is_broken, "the broken reader's renewal was answered {outcome:?}");
        context.renewed(&one).await?;
        context.renewed(&two).await?;
        context.is_held("x").await?;
        context.release_all([&one, &two]).await?;
        context.backend.release(&broken, ReleaseMode::Plain).await?;
    }
    Ok(())
}

async fn the_last_readers_release_wakes_the_writer(context: Context) -> Verdict {
    soon(async |name| {
        let (one, two) = context.two_clients().await?;
        let readers = vec![one.read(name).acquire().await?, one.read(name).acquire().await?];
        let waiting = tokio::spawn(two.write(name).acquire());
        context.clock.sleep(context.profile.slow_poll / 10).await;
        all_released(readers).await?;
        Ok(context.woken(waiting).await?.release().await?)
    })
    .await
}

async fn a_writers_release_wakes_all_readers(context: Context) -> Verdict {
    soon(async |name| {
        let (two, three) = context.two_clients().await?;
        let writer = context.client().await?.write(name).acquire().await?;
        let waiting = [&two, &two, &three].map(|locks| locks.read(name).acquire());
        let waiting = waiting.map(tokio::spawn);
        context.clock.sleep(context.profile.slow_poll / 10).await;
        writer.release().await?;
        context.all_woken(waiting).await
    })
    .await
}

async fn readers_of_one_client_dont_take_turns(context: Context) -> Verdict {
    let locks = context.client().await?;
    let mut guards = Vec::new();
    for held in 0..8 {
        let guard = locks.read("x").try_acquire().await?;
        guards.push(given(guard, format!("a reader was refused while {held} readers held"))?);
    }
    let writer = locks.write("x").try_acquire().await?;
    ensure!(writer.is_none(), "a writer was granted while readers held the name");
    all_released(guards).await?;
    let writer = locks.write("x").try_acquire().await?;
    let writer = given(writer, "no writer was granted after the last reader's release")?;
    Ok(writer.release().await?)
}

async fn an_owner_reads_again_at_once(context: Context) -> Verdict {
    let (locks, other) = context.two_clients().await?;
    let owner = Owner::new();
    let first = locks.read("x").reentrant(&owner).acquire().await?;
    let waiting = tokio::spawn(other.write("x").acquire());
    context.clock.sleep(context.ttl / 5).await;
    let second = locks.read("x").reentrant(&owner).try_acquire().await?;
    let second = given(second, "an owner that reads was refused a second guard")?;
    let (one, two) = (first.token(), second.token());
    ensure!(one == two, "an owner has two holds: {one} and {two}");
    first.release().await?;
    second.check()?;
    let is_early = waiting.is_finished();
    ensure!(!is_early, "the writer was granted before the reader's last guard was released");
    second.release().await?;
    let guard = timeout(context.patience(), waiting).await.ok();
    let guard = given(guard, "the writer was not granted after the reader's last release")?;
    Ok(guard??.release().await?)
}

async fn an_upgrade_is_an_error(context: Context) -> Verdict {
    let (locks, owner) = (context.client().await?, Owner::new());
    let reading = locks.read("x").reentrant(&owner).acquire().await?;
    let upgraded = locks.write("x").reentrant(&owner).wait_for(context.ttl).acquire().await;
    fails(upgraded, ErrorKind::Conflict)?;
    reading.check()?;
    reading.release().await?;
    let writing = locks.write("x").reentrant(&owner).acquire().await?;
    let lowered = locks.read("x").reentrant(&owner).wait_for(context.ttl).acquire().await;
    fails(lowered, ErrorKind::Conflict)?;
    Ok(writing.release().await?)
}
