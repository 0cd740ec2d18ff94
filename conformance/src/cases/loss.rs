use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockwright_core::{ErrorKind, HoldState, Reason, ReleaseMode, ReleaseOutcome};

use crate::case::{Case, cases};
use crate::context::{Context, close, fails, is_lost, refused, release};
use crate::failure::{Failure, Verdict, ensure, in_time};
use crate::faults::{Fate, Faulty, Op};

pub(super) const CASES: &[Case] = cases! { Loss:
    a_loss_is_reported_while_renewals_hang []
        "if the server doesn't answer, the holder is notified of the loss before the next grant";
    a_loss_is_reported_though_renewals_panic []
        "if the backend panics, the holder is notified of the loss before the next grant";
    an_unreachable_server_is_the_reason []
        "if all renewals fail, the hold is lost as Unreachable";
    hold_that_the_server_no_longer_has_is_lost []
        "a hold that was deleted on the server is lost at its next renewal";
    a_loss_is_for_ever []
        "a late answer never makes a lost hold live again";
    a_risk_is_reported_and_taken_back []
        "an overdue renewal is signalled as AtRisk, and a later success as Held";
    work_is_stopped_at_a_loss []
        "run drops its future before the deadline and returns the reason";
    a_clean_release_is_no_loss []
        "the signal of a released hold is Released, never Lost";
    a_late_renewal_revives_nothing [MovedClock]
        "a renewal's answer after the loss doesn't restore the hold";
    a_suspended_clients_hold_is_not_valid [MovedClock]
        "a hold's validity follows a clock that runs during suspend";
    a_suspended_machine_knows_at_once [MovedClock]
        "after a suspend beyond the deadline, the first check fails";
    a_foreign_takeover_is_noticed []
        "verify returns the server's state without changing it";
};

async fn renewals_fail(context: &Context, fate: Fate) -> Verdict {
    let faulty = Faulty::new(context.backend().await?, context.clock.clone());
    faulty.always(Op::Renew, fate);
    let tested = context.tested_client(Arc::new(faulty.clone()))?;
    let hold = tested.try_acquire(&context.name("x"), false).await?;
    let Some(hold) = hold else { return Err(Failure::new("a free name was refused")) };
    let (backend, next) = (context.backend().await?, context.claim("x"));
    let signalling = async {
        hold.ended().await;
        context.clock.now()
    };
    let taking = async {
        let within = context.patience();
        let entry = context.granted_within(&*backend, &next, within, context.ttl / 200).await?;
        Ok::<_, Failure>((entry, hold.is_valid()))
    };
    let both = async { tokio::join!(signalling, taking) };
    let (signalled_at, taken) = match tokio::time::timeout(context.patience() * 2, both).await {
        Ok(both) => both,
        Err(_) => return Err(Failure::new("the loss was never signalled")),
    };
    let (entry, is_valid) = taken?;
    ensure!(!is_valid, "the hold was still valid at the next grant");
    let late = signalled_at.saturating_since(entry.answered);
    ensure!(late <= context.moment(), "the loss was signalled {late:?} after the next grant");
    ensure!(!faulty.calls(Op::Renew).is_empty(), "inconclusive: there was no renewal");
    faulty.mend();
    let _ = hold.release().await;
    refused(&*backend, &context.claim("x")).await?;
    release(&*backend, &next).await
}

async fn a_loss_is_reported_while_renewals_hang(context: Arc<Context>) -> Verdict {
    renewals_fail(&context, Fate::Hang).await
}

async fn a_loss_is_reported_though_renewals_panic(context: Arc<Context>) -> Verdict {
    renewals_fail(&context, Fate::Panic).await
}

async fn an_unreachable_server_is_the_reason(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::UNAVAILABLE);
    let ended = guard.signal().ended().await;
    ensure!(ended == HoldState::Lost(Reason::Unreachable), "the guard ended as {ended:?}");
    let now = context.clock.now();
    let most = guard.deadline() + context.moment();
    in_time!(now <= most, "the loss was signalled after the deadline");
    fails(guard.check(), ErrorKind::Lost(Reason::Unreachable))?;
    drop(guard);
    close(&[&locks]).await
}

async fn hold_that_the_server_no_longer_has_is_lost(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let mut theirs = context.claim("x");
    theirs.token = guard.token();
    let ended = context.backend().await?.release(&theirs, ReleaseMode::Plain).await?;
    ensure!(ended == ReleaseOutcome::Released, "the release didn't find the hold");
    let renewals = faulty.calls(Op::Renew).len();
    let ended = guard.signal().ended().await;
    ensure!(ended == HoldState::Lost(Reason::Gone), "the guard ended as {ended:?}");
    let renewals = faulty.calls(Op::Renew).len() - renewals;
    ensure!(renewals <= 1, "the loss was noticed after more than one renewal");
    drop(guard);
    close(&[&locks]).await
}

async fn a_loss_is_for_ever(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::DelayAnswer(context.ttl * 11 / 10));
    let signal = guard.signal();
    let ended = signal.ended().await;
    ensure!(matches!(ended, HoldState::Lost(_)), "the guard ended as {ended:?}");
    faulty.mend();
    for _ in 0..20 {
        let state = signal.state();
        ensure!(state == ended, "the signal was {ended:?} and is now {state:?}");
        ensure!(guard.check().is_err(), "a lost hold is valid again");
        context.clock.sleep(context.ttl / 10).await;
    }
    ensure!(guard.renew().await.is_err(), "a lost hold was renewed by hand");
    drop(guard);
    close(&[&locks]).await
}

async fn a_risk_is_reported_and_taken_back(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    let mut signal = guard.signal();
    let first = signal.changed().await;
    ensure!(first == HoldState::AtRisk, "the first state was {first:?}");
    faulty.mend();
    let then = signal.changed().await;
    ensure!(then == HoldState::Held, "the second state was {then:?}");
    guard.check()?;
    guard.release().await?;
    close(&[&locks]).await
}

async fn work_is_stopped_at_a_loss(context: Arc<Context>) -> Verdict {
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
    is_lost(guard.run(work).await)?;
    let stopped = stopped.lock().map(|stopped| *stopped).ok().flatten();
    let Some(stopped) = stopped else { return Err(Failure::new("the work was not stopped")) };
    let most = guard.deadline() + context.moment();
    in_time!(stopped <= most, "the work was stopped after the deadline");
    drop(guard);
    close(&[&locks]).await
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
    ensure!(listening.await? == HoldState::Released, "a released hold did not end as Released");
    context.clock.sleep(context.ttl * 2).await;
    let state = signal.state();
    ensure!(state == HoldState::Released, "the state after a release is {state:?}");
    close(&[&locks]).await
}

async fn a_late_renewal_revives_nothing(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    faulty.next(Op::Renew, [Fate::DelayAnswer(context.ttl / 10)]);
    faulty.called(Op::Renew, 1).await;
    // The jump passes the grant's deadline, but not the deadline that the delayed renewal sets.
    context.clock.jump(context.ttl * 62 / 100);
    ensure!(guard.check().is_err(), "the check succeeds after the deadline");
    for _ in 0..10 {
        context.clock.sleep(context.ttl / 50).await;
        ensure!(guard.check().is_err(), "a lost hold is valid again");
    }
    drop(guard);
    close(&[&locks]).await
}

async fn a_suspended_clients_hold_is_not_valid(context: Arc<Context>) -> Verdict {
    let tested = context.tested_client(context.backend().await?)?;
    let (backend, next) = (context.backend().await?, context.claim("x"));
    let hold = tested.try_acquire(&context.name("x"), true).await?;
    let Some(hold) = hold else { return Err(Failure::new("a free name was refused")) };
    ensure!(hold.is_valid(), "a new hold isn't valid");
    context.clock.jump(context.ttl);
    context.granted_within(&*backend, &next, context.moment(), context.ttl / 200).await?;
    ensure!(!hold.is_valid(), "the hold was still valid at the next grant");
    let _ = hold.release().await;
    release(&*backend, &next).await
}

async fn a_suspended_machine_knows_at_once(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let signal = guard.signal();
    guard.check()?;
    // The clock advances without firing timers, as on a suspended machine.
    context.clock.jump(context.ttl);
    ensure!(guard.check().is_err(), "the check succeeds after the deadline");
    let state = signal.state();
    ensure!(matches!(state, HoldState::Lost(_)), "the signal's state is {state:?}");
    let polled = AtomicBool::new(false);
    let ran = guard.run(async { polled.store(true, Ordering::SeqCst) }).await;
    ensure!(ran.is_err() && !polled.load(Ordering::SeqCst), "run began after the deadline");
    drop(guard);
    close(&[&locks]).await
}

async fn a_foreign_takeover_is_noticed(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").fixed().acquire().await?;
    ensure!(guard.verify().await?, "the server has the hold, but verify returns false");
    let mut theirs = context.claim("x");
    theirs.token = guard.token();
    release(&*context.backend().await?, &theirs).await?;
    ensure!(!guard.verify().await?, "the server no longer has the hold, but verify returns true");
    drop(guard);
    close(&[&locks]).await
}
