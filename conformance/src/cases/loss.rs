//! Loss of a hold, reported in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockwright_core::{ErrorKind, HoldState, Reason, ReleaseMode, ReleaseOutcome};

use crate::case::{Case, Failure, Verdict, case, ensure, in_time};
use crate::context::{Context, refused, release};
use crate::faults::{Fate, Faulty, Op};

pub(super) const CASES: &[Case] = &[
    case!(
        Loss,
        a_loss_is_told_while_renewals_hang,
        [],
        "a server that answers nothing can't keep the loss from being told before the next one is let in"
    ),
    case!(Loss, a_loss_is_told_though_renewals_panic, [], "neither can a backend that panics"),
    case!(
        Loss,
        an_unreachable_server_is_the_reason,
        [],
        "renewals that all fail end in a loss that says why"
    ),
    case!(
        Loss,
        what_the_server_no_longer_has_is_lost,
        [],
        "a hold that somebody deleted is lost at its next renewal"
    ),
    case!(Loss, a_loss_is_for_ever, [], "a late answer never makes a lost hold live again"),
    case!(
        Loss,
        a_risk_is_told_and_taken_back,
        [],
        "an overdue renewal is a risk, and no more once it has come through"
    ),
    case!(
        Loss,
        work_is_stopped_at_a_loss,
        [],
        "run drops its future before the deadline and says why"
    ),
    case!(
        Loss,
        a_clean_release_is_no_loss,
        [],
        "a signal of a released hold says so, and never says lost"
    ),
    case!(
        Loss,
        a_late_renewal_revives_nothing,
        [MovedClock],
        "a renewal that is answered when its hold was found lost doesn't bring it back"
    ),
    case!(
        Loss,
        a_suspended_client_stops_believing,
        [MovedClock],
        "belief goes by a clock that runs while the machine sleeps"
    ),
    case!(
        Loss,
        a_suspended_machine_knows_at_once,
        [MovedClock],
        "after a suspend beyond the deadline, the first look at the clock knows"
    ),
    case!(
        Loss,
        a_foreign_takeover_is_noticed,
        [],
        "verify tells what the server says, without changing anything"
    ),
];

/// Runs a client whose renewals fail against a client that acquires the name as soon as it is free.
async fn renewing_in_vain(context: &Context, fate: Fate) -> Verdict {
    let faulty = Faulty::new(context.backend().await?, context.clock.clone());
    faulty.always(Op::Renew, fate);
    let believer = context.believer(Arc::new(faulty.clone()))?;
    let belief = believer.try_acquire(&context.name("x"), false).await?;
    let Some(belief) = belief else { return Err(Failure::new("a free name was refused")) };
    let (backend, next) = (context.backend().await?, context.claim("x"));
    let told = AtomicBool::new(false);
    let telling = async {
        belief.ended().await;
        told.store(true, Ordering::SeqCst);
        context.clock.now()
    };
    let taking = async {
        let within = context.patience();
        let entry = context.granted_within(&*backend, &next, within, context.ttl / 200).await?;
        Ok::<_, Failure>((entry, belief.believes(), told.load(Ordering::SeqCst)))
    };
    let both = async { tokio::join!(telling, taking) };
    // On a busy machine the notified task may run a little late.
    let (told_at, taken) = match tokio::time::timeout(context.patience() * 2, both).await {
        Ok(both) => both,
        Err(_) => return Err(Failure::new("the loss was never told")),
    };
    let (entry, believes, _) = taken?;
    ensure!(!believes, "it still believed when another one was granted");
    ensure!(
        told_at <= entry.answered + context.moment(),
        "it was told {:?} after another one was granted",
        told_at.saturating_since(entry.answered)
    );
    ensure!(faulty.calls(Op::Renew) > 0, "it showed nothing: nothing was renewed");
    faulty.mend();
    let _ = belief.release().await;
    refused(&*backend, &context.claim("x")).await?;
    release(&*backend, &next).await
}

async fn a_loss_is_told_while_renewals_hang(context: Arc<Context>) -> Verdict {
    renewing_in_vain(&context, Fate::Hang).await
}

async fn a_loss_is_told_though_renewals_panic(context: Arc<Context>) -> Verdict {
    renewing_in_vain(&context, Fate::Panic).await
}

async fn an_unreachable_server_is_the_reason(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::Refuse);
    let told = guard.signal().ended().await;
    ensure!(told == HoldState::Lost(Reason::Unreachable), "it ended as {told:?}");
    let now = context.clock.now();
    let most = guard.deadline() + context.moment();
    in_time!(now <= most, "it was told after its deadline");
    match guard.check() {
        Err(error) if error.kind() == ErrorKind::Lost(Reason::Unreachable) => {}
        other => return Err(Failure::new(format!("check answered {other:?}"))),
    }
    drop(guard);
    locks.close().await;
    Ok(())
}

async fn what_the_server_no_longer_has_is_lost(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let mut theirs = context.claim("x");
    theirs.token = guard.token();
    let ended = context.backend().await?.release(&theirs, ReleaseMode::Plain).await?;
    ensure!(ended == ReleaseOutcome::Released, "what is held was not released");
    let renewals = faulty.calls(Op::Renew);
    let told = guard.signal().ended().await;
    ensure!(told == HoldState::Lost(Reason::Gone), "it ended as {told:?}");
    ensure!(faulty.calls(Op::Renew) <= renewals + 1, "it took more than one renewal to notice");
    drop(guard);
    locks.close().await;
    Ok(())
}

async fn a_loss_is_for_ever(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    // The renewal takes effect, but its answer arrives after the client has given up the hold.
    faulty.always(Op::Renew, Fate::DelayAnswer(context.ttl * 11 / 10));
    let signal = guard.signal();
    let told = signal.ended().await;
    ensure!(matches!(told, HoldState::Lost(_)), "it ended as {told:?}");
    faulty.mend();
    for _ in 0..20 {
        ensure!(signal.state() == told, "it was {told:?} and is {:?}", signal.state());
        ensure!(guard.check().is_err(), "a lost hold is believed again");
        context.clock.sleep(context.ttl / 10).await;
    }
    ensure!(guard.renew().await.is_err(), "a lost hold was renewed by hand");
    drop(guard);
    locks.close().await;
    Ok(())
}

async fn a_risk_is_told_and_taken_back(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    let mut signal = guard.signal();
    let first = signal.changed().await;
    ensure!(first == HoldState::AtRisk, "first it was {first:?}");
    faulty.mend();
    let then = signal.changed().await;
    ensure!(then == HoldState::Held, "then it was {then:?}");
    guard.check()?;
    guard.release().await?;
    locks.close().await;
    Ok(())
}

async fn work_is_stopped_at_a_loss(context: Arc<Context>) -> Verdict {
    /// Records the instant of its drop.
    struct Working<'a>(&'a Context, &'a std::sync::Mutex<Option<lockwright_core::BootInstant>>);
    impl Drop for Working<'_> {
        fn drop(&mut self) {
            if let Ok(mut dropped) = self.1.lock() {
                *dropped = Some(self.0.clock.now());
            }
        }
    }
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    let stopped = std::sync::Mutex::new(None);
    let work = async {
        let _working = Working(&context, &stopped);
        std::future::pending::<()>().await;
    };
    match guard.run(work).await {
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => {}
        other => return Err(Failure::new(format!("run answered {other:?}"))),
    }
    let stopped = stopped.lock().map(|stopped| *stopped).ok().flatten();
    let Some(stopped) = stopped else { return Err(Failure::new("the work was not stopped")) };
    in_time!(stopped <= guard.deadline() + context.moment(), "it was stopped after the deadline");
    drop(guard);
    locks.close().await;
    Ok(())
}

async fn a_clean_release_is_no_loss(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let signal = guard.signal();
    let listening = tokio::spawn({
        let signal = signal.clone();
        async move { signal.ended().await }
    });
    guard.release().await?;
    ensure!(listening.await? == HoldState::Released, "a released hold did not end as that");
    context.clock.sleep(context.ttl * 2).await;
    ensure!(signal.state() == HoldState::Released, "later it is {:?}", signal.state());
    locks.close().await;
    Ok(())
}

async fn a_late_renewal_revives_nothing(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.next(Op::Renew, [Fate::DelayAnswer(context.ttl / 10)]);
    faulty.called(Op::Renew, 1).await;
    // After the first deadline, before the renewal's.
    context.clock.jump(context.ttl * 62 / 100);
    ensure!(guard.check().is_err(), "check believes after its deadline");
    for _ in 0..10 {
        context.clock.sleep(context.ttl / 50).await;
        ensure!(guard.check().is_err(), "a lost hold is believed again");
    }
    drop(guard);
    locks.close().await;
    Ok(())
}

async fn a_suspended_client_stops_believing(context: Arc<Context>) -> Verdict {
    let believer = context.believer(context.backend().await?)?;
    let (backend, next) = (context.backend().await?, context.claim("x"));
    let belief = believer.try_acquire(&context.name("x"), true).await?;
    let Some(belief) = belief else { return Err(Failure::new("a free name was refused")) };
    ensure!(belief.believes(), "it doesn't believe in what it was just granted");
    context.clock.jump(context.ttl);
    context.granted_within(&*backend, &next, context.moment(), context.ttl / 200).await?;
    ensure!(!belief.believes(), "it still believed when another one was granted");
    let _ = belief.release().await;
    release(&*backend, &next).await
}

async fn a_suspended_machine_knows_at_once(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let signal = guard.signal();
    guard.check()?;
    // The jump fires no timer.
    context.clock.jump(context.ttl);
    ensure!(guard.check().is_err(), "check believes after its deadline");
    ensure!(matches!(signal.state(), HoldState::Lost(_)), "the signal says {:?}", signal.state());
    let polled = AtomicBool::new(false);
    let ran = guard.run(async { polled.store(true, Ordering::SeqCst) }).await;
    ensure!(ran.is_err() && !polled.load(Ordering::SeqCst), "run began after the deadline");
    drop(guard);
    locks.close().await;
    Ok(())
}

async fn a_foreign_takeover_is_noticed(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").fixed().acquire().await?;
    ensure!(guard.verify().await?, "the server has it, and verify denies it");
    let mut theirs = context.claim("x");
    theirs.token = guard.token();
    context.backend().await?.release(&theirs, ReleaseMode::Plain).await?;
    ensure!(!guard.verify().await?, "the server no longer has it, and verify says it does");
    drop(guard);
    locks.close().await;
    Ok(())
}
