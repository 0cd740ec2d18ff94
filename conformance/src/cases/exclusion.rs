use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright_core::{AcquireOutcome, Fencing, Locks};

use crate::case::{Case, cases};
use crate::context::{Context, is_free, refused, release, take};
use crate::failure::{Failure, Verdict, ensure};
use crate::history::{History, Hold};
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

async fn a_second_claim_is_refused(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.backend().await?, context.backend().await?);
    let (first, second) = (context.long_claim("x"), context.long_claim("x"));
    take(&context, &*one, &first).await?;
    refused(&*two, &second).await?;
    refused(&*one, &second).await?;
    release(&*one, &first).await
}

async fn only_one_of_many_is_granted(context: Arc<Context>) -> Verdict {
    for round in 0..5 {
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let backend = context.backend().await?;
            for _ in 0..4 {
                let claim = context.long_claim(&format!("x{round}"));
                let backend = Arc::clone(&backend);
                asking.spawn(async move {
                    let answer = backend.try_acquire(&claim).await;
                    (answer, claim)
                });
            }
        }
        let mut granted = Vec::new();
        while let Some(asked) = asking.join_next().await {
            let (answer, claim) = asked?;
            if let AcquireOutcome::Granted(_) = answer? {
                granted.push(claim);
            }
        }
        ensure!(granted.len() == 1, "{} of 16 were granted", granted.len());
        release(&*context.backend().await?, &granted[0]).await?;
    }
    Ok(())
}

async fn a_refused_claim_leaves_nothing_behind(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let holder = context.long_claim("x");
    take(&context, &*backend, &holder).await?;
    for _ in 0..3 {
        refused(&*backend, &context.long_claim("x")).await?;
    }
    release(&*backend, &holder).await?;
    is_free(&context, &*backend, "x").await
}

async fn a_released_name_is_free_at_once(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.backend().await?, context.backend().await?);
    for round in 0..10 {
        let claim = context.long_claim("x");
        let backend = if round % 2 == 0 { &*one } else { &*two };
        take(&context, backend, &claim).await?;
        release(backend, &claim).await?;
    }
    Ok(())
}

async fn a_busy_answer_tells_the_truth(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let holder = context.claim("x");
    take(&context, &*backend, &holder).await?;
    let busy = refused(&*backend, &context.claim("x")).await?;
    ensure!(!busy.queued, "a claim without a wait was queued");
    if let Some(left) = busy.retry_after {
        // Servers round the time up to their unit, which is at most a second.
        let most = context.ttl + Duration::from_secs(1);
        ensure!(
            left <= most,
            "the busy answer suggests a retry after {left:?}; the TTL is {:?}",
            context.ttl
        );
    }
    if let Some(named) = busy.holder {
        let token = named.token;
        ensure!(token == Some(holder.token), "the busy answer names {token:?} as the holder");
    }
    release(&*backend, &holder).await
}

async fn tasks_of_one_client_never_overlap(context: Arc<Context>) -> Verdict {
    contend(&context, vec![context.client().await?], 6, 8).await
}

async fn clients_never_overlap(context: Arc<Context>) -> Verdict {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(context.client().await?);
    }
    contend(&context, clients, 2, 8).await
}

async fn contend(
    context: &Arc<Context>,
    clients: Vec<Locks>,
    tasks: usize,
    rounds: usize,
) -> Verdict {
    let counter = Arc::new(AtomicU64::new(0));
    let (history, register) = (History::default(), Register::default());
    let mut working = tokio::task::JoinSet::new();
    for (client, locks) in clients.iter().enumerate() {
        for task in 0..tasks {
            let (locks, history) = (locks.clone(), history.clone());
            let (register, counter) = (register.clone(), Arc::clone(&counter));
            let clock = context.clock.clone();
            working.spawn(async move {
                for _ in 0..rounds {
                    let asked = clock.now();
                    let guard = locks.mutex("x").no_limit().acquire().await?;
                    let granted = clock.now();
                    let before = counter.load(Ordering::SeqCst);
                    clock.sleep(Duration::from_millis(1)).await;
                    counter.store(before + 1, Ordering::SeqCst);
                    register.write(guard.fence());
                    let (who, name) = (format!("client {client} task {task}"), "x".to_owned());
                    let (token, fence, mode) = (guard.token(), guard.fence(), guard.mode());
                    let until = clock.now().min(guard.deadline());
                    history.add(Hold { who, name, mode, token, fence, asked, granted, until });
                    guard.release().await?;
                }
                Ok::<(), Failure>(())
            });
        }
    }
    while let Some(done) = working.join_next().await {
        done??;
    }
    for locks in clients {
        locks.close().await;
    }
    let fences = context.profile.fencing != Fencing::None;
    if let Some(violation) = history.check(fences).first() {
        return Err(Failure::new(violation.to_string()));
    }
    let done = history.holds().len() as u64;
    let counted = counter.load(Ordering::SeqCst);
    ensure!(counted == done, "{done} updates were made under the lock, and {counted} are left");
    if fences {
        let refused = register.writes().refused;
        ensure!(refused == 0, "{refused} writes had a fence below an earlier one");
    }
    ensure!(history.contended() > 0, "inconclusive: no client had to wait");
    Ok(())
}
