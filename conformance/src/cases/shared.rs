use std::sync::Arc;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, DistributedLock, ErrorKind, Mode, Owner, Reason,
    ReleaseMode, RenewalOutcome, Wait,
};

use crate::case::{Case, cases};
use crate::context::{
    Context, fails, not_released, not_renewed, refused, release, release_all, renew, renewed, soon,
    take, take_all, woken,
};
use crate::failure::{Failure, Verdict, ensure};

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

fn writer(context: &Context) -> Claim {
    context.claim_as("x", Mode::Exclusive)
}

async fn readers_hold_beside_each_other(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let readers = [reader(&context), reader(&context), reader(&context)];
    take(&context, &*backend, &readers[0]).await?;
    take(&context, &*backend, &readers[1]).await?;
    take(&context, &*other, &readers[2]).await?;
    for backend in [&backend, &other] {
        refused(&**backend, &writer(&context)).await?;
    }
    release_all(&*backend, &readers).await?;
    let writer = writer(&context);
    take(&context, &*backend, &writer).await?;
    release(&*backend, &writer).await
}

async fn a_writer_waits_for_the_last_reader(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    for last in [0, 1] {
        let (readers, writer) = ([reader(&context), reader(&context)], writer(&context));
        take_all(&context, &*backend, &readers).await?;
        refused(&*backend, &writer).await?;
        release(&*backend, &readers[1 - last]).await?;
        refused(&*backend, &writer).await?;
        release(&*backend, &readers[last]).await?;
        take(&context, &*backend, &writer).await?;
        release(&*backend, &writer).await?;
    }
    Ok(())
}

async fn a_reader_waits_for_the_writer(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let (reader, writer) = (reader(&context), writer(&context));
    take(&context, &*backend, &writer).await?;
    for backend in [&backend, &other] {
        refused(&**backend, &reader).await?;
    }
    release(&*backend, &writer).await?;
    take(&context, &*other, &reader).await?;
    release(&*other, &reader).await
}

async fn each_reader_expires_alone(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (stays, writer) = (reader(&context), writer(&context));
    let goes = Claim { ttl: context.ttl, ..reader(&context) };
    // `goes` is granted first, because a backend may store the first reader differently.
    take_all(&context, &*backend, [&goes, &stays]).await?;
    let goes_too = Claim { ttl: context.ttl, ..reader(&context) };
    take(&context, &*backend, &goes_too).await?;
    context.clock.sleep(context.ttl + context.moment() / 20).await;
    for gone in [&goes, &goes_too] {
        not_renewed(&*backend, gone).await?;
    }
    renewed(&*backend, &stays).await?;
    refused(&*backend, &writer).await?;
    release(&*backend, &stays).await?;
    take(&context, &*backend, &writer).await?;
    release(&*backend, &writer).await
}

async fn a_reader_ends_its_own_hold_only(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (one, two) = (reader(&context), reader(&context));
    take_all(&context, &*backend, [&one, &two]).await?;
    release(&*backend, &one).await?;
    let foreign = reader(&context);
    for claim in [&one, &foreign] {
        not_released(&*backend, claim, ReleaseMode::Plain).await?;
        refused(&*backend, &writer(&context)).await?;
    }
    release(&*backend, &two).await
}

async fn a_repeated_reader_is_one_hold(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (other, one, writer) = (reader(&context), reader(&context), writer(&context));
    take(&context, &*backend, &other).await?;
    let first = take(&context, &*backend, &one).await?.granted;
    let second = take(&context, &*backend, &one).await?.granted;
    let fences = (first.fence, second.fence);
    ensure!(fences.0 == fences.1, "a repeat had the fence {}, and then {}", fences.0, fences.1);
    release_all(&*backend, [&one, &other]).await?;
    take(&context, &*backend, &writer).await?;
    release(&*backend, &writer).await
}

async fn a_waiting_writer_stops_new_readers(context: Arc<Context>) -> Verdict {
    let (backend, locks) = (context.backend().await?, context.client().await?);
    let first = reader(&context);
    take(&context, &*backend, &first).await?;
    let waiting = tokio::spawn(async move { locks.write("x").acquire().await });
    // A refused reader shows that the writer is queued.
    let give_up = context.clock.now() + context.patience();
    loop {
        let next = reader(&context);
        let AcquireOutcome::Granted(_) = backend.acquire(&next, Wait::No).await? else { break };
        release(&*backend, &next).await?;
        if context.clock.now() >= give_up {
            return Err(Failure::late("readers were granted while a writer waited"));
        }
        context.clock.sleep(context.ttl / 20).await;
    }
    release(&*backend, &first).await?;
    let limit = tokio::time::timeout(context.patience(), waiting);
    let Ok(guard) = limit.await else {
        return Err(Failure::new("the writer was not granted after the last reader's release"));
    };
    guard??.release().await?;
    let next = reader(&context);
    take(&context, &*backend, &next).await?;
    release(&*backend, &next).await
}

async fn a_vanished_writer_stops_readers_for_a_bounded_time(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let (first, next) = (reader(&context), reader(&context));
    take(&context, &*backend, &first).await?;
    let limit = context.clock.now() + context.ttl / 10;
    let writer = Claim { ttl: context.ttl, ..writer(&context) };
    let answer = other.acquire(&writer, Wait::Until(limit)).await?;
    ensure!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "a writer was granted while a reader held the name"
    );
    drop(other);
    let bound = context.ttl * 2 + context.profile.slow_poll * 10 + context.moment();
    context.granted_within(&*backend, &next, bound, context.ttl / 20).await?;
    release_all(&*backend, [&first, &next]).await
}

async fn readers_share_a_fence(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let mut highest = None;
    for _ in 0..3 {
        let (one, two, writer) = (reader(&context), reader(&context), writer(&context));
        let first = take(&context, &*backend, &one).await?.granted.fence;
        let second = take(&context, &*backend, &two).await?.granted.fence;
        ensure!(first == second, "concurrent readers have the fences {first} and {second}");
        ensure!(Some(first) > highest, "{first} came after {highest:?}");
        release(&*backend, &one).await?;
        let third = reader(&context);
        let fence = take(&context, &*backend, &third).await?.granted.fence;
        ensure!(fence == first, "concurrent readers have the fences {first} and {fence}");
        release_all(&*backend, [&two, &third]).await?;
        let writers = take(&context, &*backend, &writer).await?.granted.fence;
        ensure!(writers > first, "the writer's {writers} came after the readers' {first}");
        highest = Some(writers);
        release(&*backend, &writer).await?;
    }
    Ok(())
}

async fn each_reader_is_shown(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (one, two) = (reader(&context), reader(&context));
    take_all(&context, &*backend, [&one, &two]).await?;
    let shown = backend.inspect(&one.name).await?;
    let mut tokens: Vec<_> = shown.holders.iter().filter_map(|holder| holder.token).collect();
    let mut wanted = vec![one.token, two.token];
    tokens.sort_unstable_by_key(ToString::to_string);
    wanted.sort_unstable_by_key(ToString::to_string);
    ensure!(tokens == wanted, "the readers are {wanted:?}, but inspect shows {tokens:?}");
    let modes: Vec<_> = shown.holders.iter().map(|holder| holder.mode).collect();
    ensure!(modes == [Mode::Shared; 2], "two readers are shown as {modes:?}");
    let listed = context.held(&*backend).await?;
    ensure!(listed == [one.name.clone()], "a name with two readers is listed as {listed:?}");
    release_all(&*backend, [&one, &two]).await
}

async fn a_broken_reader_leaves_the_others(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (one, two) = (reader(&context), reader(&context));
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let broken = reader(&context);
        take_all(&context, &*backend, [&one, &broken, &two]).await?;
        backend
            .break_lock(&one.name, BreakTarget::Token(broken.token), how, "me", "to see")
            .await?;
        let outcome = renew(&*backend, &broken).await?;
        let expected = [Reason::Broken, Reason::Gone].map(RenewalOutcome::NotHeld);
        let is_broken = expected.contains(&outcome);
        ensure!(is_broken, "the broken reader's renewal was answered {outcome:?}");
        for reader in [&one, &two] {
            renewed(&*backend, reader).await?;
        }
        refused(&*backend, &writer(&context)).await?;
        release_all(&*backend, [&one, &two]).await?;
        backend.release(&broken, ReleaseMode::Plain).await?;
    }
    Ok(())
}

async fn the_last_readers_release_wakes_the_writer(context: Arc<Context>) -> Verdict {
    soon(|name| last_reader_wakes(Arc::clone(&context), name)).await
}

async fn last_reader_wakes(context: Arc<Context>, name: String) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let readers = [one.read(&*name).acquire().await?, one.read(&*name).acquire().await?];
    let waiting = tokio::spawn(two.write(&*name).acquire());
    context.clock.sleep(context.profile.slow_poll / 10).await;
    for reader in readers {
        reader.release().await?;
    }
    Ok(woken(&context, waiting).await?.release().await?)
}

async fn a_writers_release_wakes_all_readers(context: Arc<Context>) -> Verdict {
    soon(|name| writers_release_wakes(Arc::clone(&context), name)).await
}

async fn writers_release_wakes(context: Arc<Context>, name: String) -> Verdict {
    let (one, two, three) =
        (context.client().await?, context.client().await?, context.client().await?);
    let writer = one.write(&*name).acquire().await?;
    let mut waiting = Vec::new();
    for locks in [&two, &two, &three] {
        let locks = locks.clone();
        waiting.push(tokio::spawn(locks.read(&*name).acquire()));
    }
    context.clock.sleep(context.profile.slow_poll / 10).await;
    writer.release().await?;
    let mut guards = Vec::new();
    for waiting in waiting {
        guards.push(woken(&context, waiting).await?);
    }
    for guard in guards {
        guard.release().await?;
    }
    Ok(())
}

async fn readers_of_one_client_dont_take_turns(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let mut guards = Vec::new();
    for _ in 0..8 {
        let (guard, held) = (locks.read("x").try_acquire().await?, guards.len());
        let failure = || Failure::new(format!("a reader was refused while {held} readers held"));
        guards.push(guard.ok_or_else(failure)?);
    }
    let writer = locks.write("x").try_acquire().await?;
    ensure!(writer.is_none(), "a writer was granted while readers held the name");
    for guard in guards {
        guard.check()?;
        guard.release().await?;
    }
    let writer = locks.write("x").try_acquire().await?;
    let Some(writer) = writer else {
        return Err(Failure::new("no writer was granted after the last reader's release"));
    };
    Ok(writer.release().await?)
}

async fn an_owner_reads_again_at_once(context: Arc<Context>) -> Verdict {
    let (locks, other) = (context.client().await?, context.client().await?);
    let owner = Owner::new();
    let first = locks.read("x").reentrant(&owner).acquire().await?;
    let waiting = tokio::spawn(async move { other.write("x").acquire().await });
    context.clock.sleep(context.ttl / 5).await;
    let Some(second) = locks.read("x").reentrant(&owner).try_acquire().await? else {
        return Err(Failure::new("an owner that reads was refused a second guard"));
    };
    let (one, two) = (first.token(), second.token());
    ensure!(one == two, "an owner has two holds: {one} and {two}");
    first.release().await?;
    second.check()?;
    let is_early = waiting.is_finished();
    ensure!(!is_early, "the writer was granted before the reader's last guard was released");
    second.release().await?;
    let Ok(guard) = tokio::time::timeout(context.patience(), waiting).await else {
        return Err(Failure::new(
            "the writer was not granted after the reader's last guard was released",
        ));
    };
    Ok(guard??.release().await?)
}

async fn an_upgrade_is_an_error(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let owner = Owner::new();
    let reading = locks.read("x").reentrant(&owner).acquire().await?;
    let upgraded = locks.write("x").reentrant(&owner).wait_for(context.ttl).acquire().await;
    fails(upgraded, ErrorKind::Conflict)?;
    reading.check()?;
    reading.release().await?;
    let writing = locks.write("x").reentrant(&owner).acquire().await?;
    let lowered = locks.read("x").reentrant(&owner).wait_for(context.ttl).acquire().await;
    fails(lowered, ErrorKind::Conflict)?;
    writing.release().await?;
    context.nothing_left().await
}
