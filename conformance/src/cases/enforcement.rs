use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_core::fencing::Fenced;
use lockwright_core::{Clock, Error, ErrorKind, Locks, Reason};
use tokio::task::JoinSet;

use crate::case::{Case, cases};
use crate::context::Context;
use crate::failure::{Failure, Verdict, ensure, given};
use crate::faults::{Fate, Op};
use crate::protected::Protected;

pub(super) const CASES: &[Case] = cases! { Enforcement:
    a_paused_holders_late_write_is_refused [Fences, Enforcement]
        "a holder that missed the loss of its hold can't write after the next holder's write";
    a_holder_writes_again_and_again [Fences, Enforcement]
        "all writes of one hold are accepted with its fence, on any connection";
    refused_write_stays_refused [Fences, Enforcement]
        "after one write of a later holder, repeated writes of each earlier holder are refused";
    a_refused_write_changes_nothing [Fences, Enforcement]
        "a refused write returns Superseded, with the later holder's fence";
    of_those_who_write_at_once_the_latest_stays [Fences, Enforcement]
        "the fence's check and the write are atomic: no older write follows a newer one";
    each_name_has_a_fence_of_its_own [Fences, Enforcement]
        "a fence of one lock doesn't affect writes of another lock";
};
const SUPERSEDED: ErrorKind = ErrorKind::Lost(Reason::Superseded);

async fn open(context: &Context, local: &str) -> Verdict<Arc<dyn Protected>> {
    let protect = given(
        context.factory.protected.as_ref(),
        "the factory has no protected resource that rejects late writes",
    )?;
    Ok(protect.open(context.name(local)).await?)
}

async fn late(to: &dyn Protected, by: &Fenced, value: u64, after: &Fenced) -> Verdict {
    let Err(error) = to.write(by, value).await else {
        let (by, after) = (by.fence, after.fence);
        let message = format!("a write with {by} was accepted after one with {after}");
        return Err(Failure::new(message));
    };
    ensure!(error.kind() == SUPERSEDED, "a late write was answered {error:?}");
    let (said, highest) = (error.to_string(), after.fence.to_string());
    let is_said = said.split(|c: char| !c.is_ascii_digit()).any(|number| number == highest);
    ensure!(is_said, "the error doesn't name the later fence {highest}: {said}");
    Ok(())
}

async fn stands(to: &dyn Protected, value: u64) -> Verdict {
    let found = to.read().await?;
    ensure!(found == Some(value), "{value} was written last, but {found:?} was read");
    Ok(())
}

async fn holds(locks: &Locks, name: &str, count: usize) -> Verdict<Vec<Fenced>> {
    let mut fences = Vec::new();
    for _ in 0..count {
        let guard = locks.mutex(name).acquire().await?;
        fences.push(guard.fenced());
        guard.release().await?;
    }
    Ok(fences)
}

async fn a_paused_holders_late_write_is_refused(context: Context) -> Verdict {
    let (first, faulty) = context.faulty_guard().await?;
    // `other` has no namespace, so its names are full names.
    let other = Locks::builder(Arc::clone(&context.backend)).ttl(context.ttl);
    let other = other.clock(context.clock.clone()).build()?;
    let (one, two) = (open(&context, "x").await?, open(&context, "x").await?);
    let fenced = first.fenced();
    one.write(&fenced, 1).await?;
    faulty.always(Op::Renew, Fate::Hang);
    let second = other.mutex(context.name("x")).wait_for(context.patience()).acquire().await?;
    two.write(&second.fenced(), 2).await?;
    late(&*one, &fenced, 3, &second.fenced()).await?;
    stands(&*two, 2).await?;
    second.check()?;
    second.release().await?;
    faulty.mend();
    Ok(())
}

async fn a_holder_writes_again_and_again(context: Context) -> Verdict {
    let locks = context.client().await?;
    let (one, two) = (open(&context, "x").await?, open(&context, "x").await?);
    let found = one.read().await?;
    ensure!(found.is_none(), "nothing was written, but {found:?} was read");
    let mut value = 0;
    for _ in 0..2 {
        let guard = locks.mutex("x").acquire().await?;
        for to in [&one, &two, &two, &one] {
            value += 1;
            to.write(&guard.fenced(), value).await?;
            stands(&*one, value).await?;
            stands(&*two, value).await?;
        }
        guard.release().await?;
    }
    Ok(())
}

async fn refused_write_stays_refused(context: Context) -> Verdict {
    let fences = holds(&context.client().await?, "x", 3).await?;
    let (latest, earlier) = (&fences[2], &fences[..2]);
    open(&context, "x").await?.write(latest, 1).await?;
    let to = open(&context, "x").await?;
    for _ in 0..3 {
        for one in earlier {
            late(&*to, one, 2, latest).await?;
        }
    }
    stands(&*to, 1).await?;
    to.write(latest, 3).await?;
    late(&*to, &earlier[1], 4, latest).await?;
    stands(&*to, 3).await
}

async fn a_refused_write_changes_nothing(context: Context) -> Verdict {
    let fences = holds(&context.client().await?, "x", 3).await?;
    let to = open(&context, "x").await?;
    to.write(&fences[1], 1).await?;
    late(&*to, &fences[0], 2, &fences[1]).await?;
    stands(&*to, 1).await?;
    to.write(&fences[1], 3).await?;
    stands(&*to, 3).await?;
    to.write(&fences[2], 4).await?;
    late(&*to, &fences[0], 5, &fences[2]).await?;
    stands(&*to, 4).await
}

async fn of_those_who_write_at_once_the_latest_stays(context: Context) -> Verdict {
    const WRITERS: usize = 6;
    let locks = context.client().await?;
    let reading = open(&context, "x").await?;
    let mut all = Vec::new();
    for _ in 0..WRITERS {
        all.push(open(&context, "x").await?);
    }
    for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 5, 0, 4, 1, 2], [5, 0, 4, 1, 3, 2]] {
        let fences = holds(&locks, "x", WRITERS).await?;
        let mut writing = JoinSet::new();
        for at in order {
            let (to, fenced) = (Arc::clone(&all[at]), fences[at].clone());
            let clock = context.clock.clone();
            writing.spawn(async move { (at, written(&*to, &fenced, &clock).await) });
        }
        let done = AtomicBool::new(false);
        let writing = async {
            let written = writing.join_all().await;
            done.store(true, Ordering::SeqCst);
            Ok(written)
        };
        let watching = watched(&context, &*reading, &done);
        let ((), written) = tokio::try_join!(watching, writing)?;
        for (at, outcome) in written {
            match outcome {
                Err(error) if at < WRITERS - 1 => {
                    let is_late = error.kind() == SUPERSEDED;
                    ensure!(is_late, "a concurrent write was answered {error:?}");
                }
                outcome => outcome?,
            }
        }
        stands(&*reading, fences[WRITERS - 1].fence.get()).await?;
    }
    Ok(())
}

/// Retries if a concurrent write makes the store unavailable.
async fn written(to: &dyn Protected, fenced: &Fenced, clock: &Clock) -> Result<(), Error> {
    for _ in 1..20 {
        match to.write(fenced, fenced.fence.get()).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                clock.sleep(Duration::from_millis(5)).await;
            }
            done => return done,
        }
    }
    to.write(fenced, fenced.fence.get()).await
}

async fn watched(context: &Context, reading: &dyn Protected, done: &AtomicBool) -> Verdict {
    let mut last = None;
    while !done.load(Ordering::SeqCst) {
        let found = reading.read().await?;
        ensure!(found >= last, "{found:?} was written after {last:?}");
        last = found;
        context.clock.sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

async fn each_name_has_a_fence_of_its_own(context: Context) -> Verdict {
    let locks = context.client().await?;
    let early = holds(&locks, "x", 1).await?;
    // Three holds give `y` a larger fence than `x`, even if each name has its own counter.
    let later = holds(&locks, "y", 3).await?;
    let (x, y) = (open(&context, "x").await?, open(&context, "y").await?);
    y.write(&later[2], 2).await?;
    x.write(&early[0], 1).await?;
    stands(&*x, 1).await?;
    stands(&*y, 2).await?;
    late(&*y, &later[0], 3, &later[2]).await
}
