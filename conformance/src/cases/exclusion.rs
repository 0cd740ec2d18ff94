use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright_core::{AcquireOutcome, Locks};
use tokio::task::JoinSet;

use crate::case::{Case, cases};
use crate::child::acquire;
use crate::context::{Context, all_done};
use crate::failure::{Verdict, ensure};
use crate::history::journal::Journal;
use crate::register::Register;

pub(super) const CASES: &[Case] = cases! { Exclusion:
    a_second_claim_is_refused []
        "while one client holds, another client's claim is answered Busy";
    only_one_of_many_is_granted []
        "of many concurrent claims, one is granted";
    a_refused_claim_leaves_nothing_behind []
        "a refused claim without a wait doesn't block later claims";
    a_released_name_is_free_at_once []
        "a released name is granted without a delay, on any connection";
    a_busy_answer_tells_the_truth []
        "a busy answer names the current holder, which expires within its TTL";
    tasks_of_one_client_never_overlap []
        "tasks of one client never hold at once";
    clients_never_overlap []
        "tasks of several clients never hold at once, and lose no update";
};
async fn a_second_claim_is_refused(context: Context) -> Verdict {
    let two = context.another().await?;
    let first = context.taken(context.long_claim("x")).await?;
    two.is_held("x").await?;
    context.is_held("x").await?;
    context.release(&first).await
}

async fn only_one_of_many_is_granted(context: Context) -> Verdict {
    for round in 0..5 {
        let mut asking = JoinSet::new();
        for _ in 0..4 {
            let other = context.another().await?;
            for _ in 0..4 {
                let (claim, other) = (context.long_claim(&format!("x{round}")), other.clone());
                asking.spawn(async move { (other.backend.try_acquire(&claim).await, claim) });
            }
        }
        let mut granted = Vec::new();
        for (answer, claim) in asking.join_all().await {
            if let AcquireOutcome::Granted(_) = answer? {
                granted.push(claim);
            }
        }
        ensure!(granted.len() == 1, "{} of 16 were granted", granted.len());
        context.release(&granted[0]).await?;
    }
    Ok(())
}

async fn a_refused_claim_leaves_nothing_behind(context: Context) -> Verdict {
    let holder = context.taken(context.long_claim("x")).await?;
    for _ in 0..3 {
        context.is_held("x").await?;
    }
    context.release(&holder).await?;
    context.is_free("x").await
}

async fn a_released_name_is_free_at_once(context: Context) -> Verdict {
    let two = context.another().await?;
    for _ in 0..5 {
        context.is_free("x").await?;
        two.is_free("x").await?;
    }
    Ok(())
}

async fn a_busy_answer_tells_the_truth(context: Context) -> Verdict {
    let holder = context.taken(context.claim("x")).await?;
    let busy = context.refused(&context.claim("x")).await?;
    ensure!(!busy.queued, "a claim without a wait was queued");
    if let Some(left) = busy.retry_after {
        // Servers round the time up to their unit, which is at most a second.
        let (ttl, most) = (context.ttl, context.ttl + Duration::from_secs(1));
        ensure!(
            left <= most,
            "the busy answer suggests a retry after {left:?}; the TTL is {ttl:?}"
        );
    }
    if let Some(named) = busy.holder {
        let token = named.token;
        ensure!(token == Some(holder.token), "the busy answer names {token:?} as the holder");
    }
    context.release(&holder).await
}

async fn tasks_of_one_client_never_overlap(context: Context) -> Verdict {
    contend(&context, vec![context.client().await?], 6, 8).await
}

async fn clients_never_overlap(context: Context) -> Verdict {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(context.client().await?);
    }
    contend(&context, clients, 2, 8).await
}

async fn contend(context: &Context, clients: Vec<Locks>, tasks: usize, rounds: u64) -> Verdict {
    let counter = Arc::new(AtomicU64::new(0));
    let register = Register::default();
    let journal = Journal::in_memory("the case", context.clock.clone());
    let mut working = JoinSet::new();
    for (client, locks) in clients.iter().enumerate() {
        for task in 0..tasks {
            let (locks, clock) = (locks.clone(), context.clock.clone());
            let (register, counter) = (register.clone(), Arc::clone(&counter));
            let journal = journal.of(&format!("client {client} task {task}"));
            working.spawn(async move {
                for round in 0..rounds {
                    let holding = acquire(&locks, &journal, round).await?;
                    let before = counter.load(Ordering::SeqCst);
                    clock.sleep(Duration::from_millis(1)).await;
                    counter.store(before + 1, Ordering::SeqCst);
                    register.write_to(holding.held().name(), holding.held().fence());
                    holding.release().await?;
                }
                Ok(())
            });
        }
    }
    all_done(working).await?;
    let figures = context.checked(journal.entries())?;
    let (done, counted) = (figures.grants, counter.load(Ordering::SeqCst));
    ensure!(counted == done, "{done} updates were made under the lock, and {counted} are left");
    let refused = register.counts("x").refused;
    let is_right = refused == 0 || !context.has_fences();
    ensure!(is_right, "{refused} writes had a fence below an earlier one");
    ensure!(figures.hand_overs > 0, "inconclusive: no client had to wait");
    Ok(())
}
