use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{BootInstant, Fencing};

use crate::case::{Case, cases};
use crate::child::{Child, Message, What, holds_of, refused_writes};
use crate::context::{Context, close, release};
use crate::failure::{Failure, Verdict, ensure, in_time};
use crate::history::{History, Hold};
use crate::register::{Counter, Register};

pub(super) const EXCLUSION: &[Case] = cases! { Exclusion:
    processes_never_overlap [Processes]
        "processes never hold at once, and lose no update in a file";
};

pub(super) const EXPIRY: &[Case] = cases! { Expiry:
    a_killed_process_frees_within_its_ttl [Processes]
        "after SIGKILL, the other processes wait for at most one TTL";
};

pub(super) const LOSS: &[Case] = cases! { Loss:
    a_stopped_process_knows_when_it_goes_on [Processes]
        "a process that was stopped beyond its TTL has lost its hold, and its fence is refused";
};

const SILENCE: Duration = Duration::from_secs(30);

async fn processes_never_overlap(context: Arc<Context>) -> Verdict {
    const CHILDREN: usize = 3;
    const ROUNDS: u32 = 10;
    let counter = Counter::create(context.root())?;
    let (register, history) = (Register::default(), History::default());
    let locks = context.client().await?;
    let asked = context.clock.now();
    let earlier = locks.mutex("x").acquire().await?;
    let granted = context.clock.now();
    let mut children = Vec::new();
    for _ in 0..CHILDREN {
        let what = What::Contend { rounds: ROUNDS, counter: counter.path().to_owned() };
        children.push(Child::start(&context, what, context.ttl, &register)?);
    }
    for child in &mut children {
        let first = child.next(SILENCE).await?;
        ensure!(first == Message::Asking, "a child's first message wasn't its request");
    }
    context.clock.sleep(Duration::from_millis(50)).await;
    let (who, name, until) = ("the parent".to_owned(), "x".to_owned(), context.clock.now());
    let (token, fence, mode) = (earlier.token(), earlier.fence(), earlier.mode());
    history.add(Hold { who, name, mode, token, fence, asked, granted, until });
    earlier.release().await?;
    for (number, child) in children.iter_mut().enumerate() {
        let messages = child.rest(SILENCE).await?;
        let mine = holds_of(&format!("process {number}"), &messages);
        ensure!(mine.len() == ROUNDS as usize, "process {number} held {} times", mine.len());
        let refused = refused_writes(&messages);
        if context.profile.fencing != Fencing::None {
            ensure!(refused == 0, "{refused} writes of process {number} came with a stale fence");
        }
        mine.into_iter().for_each(|hold| history.add(hold));
    }
    let fences = context.profile.fencing != Fencing::None;
    if let Some(violation) = history.check(fences).first() {
        return Err(Failure::new(violation.to_string()));
    }
    let (counted, done) = (Counter::read(counter.path())?, CHILDREN as u64 * u64::from(ROUNDS));
    ensure!(counted == done, "{done} updates were made under the lock, and {counted} are left");
    ensure!(history.contended() >= CHILDREN, "inconclusive: no process had to wait");
    close(&[&locks]).await
}

async fn holds(child: &mut Child) -> Verdict<BootInstant> {
    loop {
        if let Message::Deadline(deadline) = child.next(SILENCE).await? {
            return Ok(deadline);
        }
    }
}

async fn a_killed_process_frees_within_its_ttl(context: Arc<Context>) -> Verdict {
    let register = Register::default();
    let mut holder = Child::start(&context, What::Hold, context.ttl, &register)?;
    holds(&mut holder).await?;
    let (backend, claim) = (context.backend().await?, context.claim("x"));
    holder.kill()?;
    let killed = context.clock.now();
    let entry = context
        .granted_within(&*backend, &claim, context.ttl * 2 + context.moment(), context.ttl / 50)
        .await?;
    let took = entry.sent.saturating_since(killed);
    // Servers round expiries up by at most a second.
    let bound = context.ttl + context.ttl / 10 + Duration::from_secs(1);
    in_time!(took <= bound, "the next grant took {took:?} with a TTL of {:?}", context.ttl);
    release(&*backend, &claim).await
}

#[cfg(not(unix))]
async fn a_stopped_process_knows_when_it_goes_on(_: Arc<Context>) -> Verdict {
    Ok(())
}

#[cfg(unix)]
async fn a_stopped_process_knows_when_it_goes_on(context: Arc<Context>) -> Verdict {
    let register = Register::default();
    let mut holder = Child::start(&context, What::Hold, context.ttl, &register)?;
    let mut deadline = holds(&mut holder).await?;
    holder.freeze()?;
    let (backend, claim) = (context.backend().await?, context.claim("x"));
    let within = context.ttl * 3 + context.moment();
    let entry = context.granted_within(&*backend, &claim, within, context.ttl / 50).await?;
    register.write(entry.granted.fence);
    context.clock.sleep(context.ttl / 5).await;
    holder.thaw()?;
    let messages = holder.rest(SILENCE).await?;
    let mut lost = None;
    for message in &messages {
        match message {
            Message::Deadline(at) => deadline = *at,
            Message::Lost(at) => lost = Some(*at),
            _ => {}
        }
    }
    ensure!(lost.is_some(), "the stopped process never noticed its loss");
    ensure!(
        deadline <= entry.answered,
        "the hold was valid until {deadline:?}, but the next grant was before {:?}",
        entry.answered
    );
    if context.profile.fencing != Fencing::None {
        let refused = refused_writes(&messages);
        ensure!(refused == 1, "a write with the old fence was accepted");
    }
    release(&*backend, &claim).await
}
