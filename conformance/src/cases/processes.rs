use std::time::Duration;

use lockwright_core::{BootInstant, Claim, Fence};

use crate::case::{Case, cases};
use crate::child::{Child, What, acquire};
use crate::context::Context;
use crate::failure::{Verdict, ensure, given, in_time};
use crate::history::holds;
use crate::history::journal::{Event, Journal};
use crate::register::{Counter, Register};

pub(super) const EXCLUSION: &[Case] = cases! { Exclusion:
    processes_never_overlap [Processes]
        "processes never hold at once, and lose no update in a file";
};

pub(super) const EXPIRY: &[Case] = cases! { Expiry:
    a_killed_process_frees_within_its_ttl [Processes]
        "after SIGKILL, the other processes wait for at most one TTL";
    a_stopped_process_frees_a_warm_lock_within_its_ttl [Processes, Recalls]
        "after SIGSTOP, a warm lock expires, and the next fence is larger than those of its turns";
};

pub(super) const LOSS: &[Case] = cases! { Loss:
    a_stopped_process_knows_when_it_goes_on [Processes]
        "a process that was stopped beyond its TTL has lost its hold, and its fence is refused";
};
async fn processes_never_overlap(context: Context) -> Verdict {
    const CHILDREN: u64 = 3;
    const ROUNDS: u64 = 10;
    let (counter, register) = (Counter::create(&context.root)?, Register::default());
    let (locks, journal) =
        (context.client().await?, Journal::in_memory("the parent", context.clock.clone()));
    let earlier = acquire(&locks, &journal, 0).await?;
    let (mut children, mut entries) = (Vec::new(), Vec::new());
    for _ in 0..CHILDREN {
        let what = What::Contend { rounds: ROUNDS, counter: counter.path().to_owned() };
        children.push(Child::start(&context, what, context.ttl, &register)?);
    }
    for child in &mut children {
        entries.extend(child.until(1, |event| matches!(event, Event::Asked { .. })).await?);
    }
    context.clock.sleep(Duration::from_millis(50)).await;
    earlier.release().await?;
    for child in &mut children {
        entries.extend(child.rest().await?);
    }
    entries.extend(journal.entries());
    let (figures, done) = (context.checked(entries)?, CHILDREN * ROUNDS);
    ensure!(figures.grants == done + 1, "the processes held {} times", figures.grants);
    let refused = figures.writes_refused;
    ensure!(refused == 0 || !context.has_fences(), "{refused} writes came with a stale fence");
    let counted = Counter::read(counter.path())?;
    ensure!(counted == done, "{done} updates were made under the lock, and {counted} are left");
    ensure!(figures.hand_overs >= CHILDREN, "inconclusive: no process had to wait");
    Ok(())
}

async fn a_killed_process_frees_within_its_ttl(context: Context) -> Verdict {
    let mut holder = Child::start(&context, What::Hold, context.ttl, &Register::default())?;
    holder.until_granted().await?;
    let claim = context.claim("x");
    holder.kill()?;
    granted_within_a_ttl(&context, &claim, context.clock.now()).await?;
    context.release(&claim).await
}

async fn granted_within_a_ttl(
    context: &Context,
    claim: &Claim,
    since: BootInstant,
) -> Verdict<Fence> {
    let entry = context.granted_within(claim, context.ttl * 2 + context.moment()).await?;
    let took = entry.sent.saturating_since(since);
    // Servers round expiries up by at most a second.
    let bound = context.ttl + context.ttl / 10 + Duration::from_secs(1);
    in_time!(took <= bound, "the next grant took {took:?} with a TTL of {:?}", context.ttl);
    Ok(entry.granted.fence)
}

#[cfg(not(unix))]
async fn a_stopped_process_frees_a_warm_lock_within_its_ttl(_: Context) -> Verdict {
    Ok(())
}

#[cfg(unix)]
async fn a_stopped_process_frees_a_warm_lock_within_its_ttl(context: Context) -> Verdict {
    let mut keeper = Child::start(&context, What::KeepWarm, context.ttl, &Register::default())?;
    let entries = keeper.rest().await?;
    keeper.freeze()?;
    let frozen = context.clock.now();
    let is_held = !context.holders("x").await?.is_empty();
    ensure!(is_held, "inconclusive: the lock was free when the process stopped");
    let claim = context.claim("x");
    let next = granted_within_a_ttl(&context, &claim, frozen).await?;
    let fences: Vec<_> = holds(entries).iter().map(|hold| hold.fence).collect();
    ensure!(fences.len() > 1, "inconclusive: the lock had {} turns", fences.len());
    ensure!(fences.iter().all(|fence| *fence < next), "the fence {next} came after {fences:?}");
    context.release(&claim).await
}

#[cfg(not(unix))]
async fn a_stopped_process_knows_when_it_goes_on(_: Context) -> Verdict {
    Ok(())
}

#[cfg(unix)]
async fn a_stopped_process_knows_when_it_goes_on(context: Context) -> Verdict {
    let register = Register::default();
    let mut holder = Child::start(&context, What::Hold, context.ttl, &register)?;
    let mut entries = holder.until_granted().await?;
    holder.freeze()?;
    let claim = context.claim("x");
    let entry = context.granted_within(&claim, context.ttl * 3 + context.moment()).await?;
    register.write_to("x", entry.granted.fence);
    context.clock.sleep(context.ttl / 5).await;
    holder.thaw()?;
    entries.extend(holder.rest().await?);
    let is_lost = entries.iter().any(|entry| matches!(entry.event, Event::Lost { .. }));
    ensure!(is_lost, "the stopped process never noticed its loss");
    let is_refused = |event: &Event| matches!(event, Event::Wrote { accepted: false, .. });
    let is_refused = entries.iter().any(|entry| is_refused(&entry.event));
    ensure!(is_refused || !context.has_fences(), "a write with the old fence was accepted");
    let (until, next) = (given(holds(entries).pop(), "it held nothing")?.until, entry.answered);
    ensure!(
        until <= next,
        "the hold was valid until {until:?}, but the next grant was at {next:?}"
    );
    context.release(&claim).await
}
