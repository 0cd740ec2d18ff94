use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Claim, ErrorKind, Guard, HoldState, Reason};
use tokio::time::timeout;

use crate::case::{Case, cases};
use crate::context::{Context, fails, is_lost};
use crate::failure::{Verdict, ensure, given, in_time};
use crate::faults::{Fate, Op};

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
    let faulty = context.faulty().await?;
    faulty.always(Op::Renew, fate);
    let tested = context.tested_client(Arc::new(faulty.clone()))?;
    let hold = tested.try_acquire(&context.name("x"), false).await?;
    let (hold, next) = (given(hold, "a free name was refused")?, context.claim("x"));
    let signalling = async {
        hold.ended().await;
        context.clock.now()
    };
    let taking = async {
        let entry = context.granted_in_the_end(&next).await;
        (entry, hold.is_valid())
    };
    let both = async { tokio::join!(signalling, taking) };
    let both = timeout(context.patience() * 2, both).await.ok();
    let (signalled_at, (entry, is_valid)) = given(both, "the loss was never signalled")?;
    let entry = entry?;
    ensure!(!is_valid, "the hold was still valid at the next grant");
    let late = signalled_at.saturating_since(entry.answered);
    ensure!(late <= context.moment(), "the loss was signalled {late:?} after the next grant");
    ensure!(!faulty.calls(Op::Renew).is_empty(), "inconclusive: there was no renewal");
    faulty.mend();
    let _ = hold.release().await;
    context.is_held("x").await?;
    context.release(&next).await
}

async fn a_loss_is_reported_while_renewals_hang(context: Context) -> Verdict {
    renewals_fail(&context, Fate::Hang).await
}

async fn a_loss_is_reported_though_renewals_panic(context: Context) -> Verdict {
    renewals_fail(&context, Fate::Panic).await
}

async fn an_unreachable_server_is_the_reason(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
    faulty.always(Op::Renew, Fate::UNAVAILABLE);
    let ended = guard.signal().ended().await;
    ensure!(ended == HoldState::Lost(Reason::Unreachable), "the guard ended as {ended:?}");
    let most = guard.deadline() + context.moment();
    in_time!(context.clock.now() <= most, "the loss was signalled after the deadline");
    fails(guard.check(), ErrorKind::Lost(Reason::Unreachable))
}

async fn steal(context: &Context, guard: &Guard) -> Verdict {
    context.release(&Claim { token: guard.token(), ..context.claim("x") }).await
}

async fn hold_that_the_server_no_longer_has_is_lost(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
    // Only a recorded hold is lost with a reason. The inspection waits for the record.
    context.holders("x").await?;
    steal(&context, &guard).await?;
    let renewals = faulty.calls(Op::Renew).len();
    let ended = guard.signal().ended().await;
    ensure!(ended == HoldState::Lost(Reason::Gone), "the guard ended as {ended:?}");
    let renewals = faulty.calls(Op::Renew).len() - renewals;
    ensure!(renewals <= 1, "the loss was noticed after more than one renewal");
    Ok(())
}

async fn a_loss_is_for_ever(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
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
    Ok(())
}

async fn a_risk_is_reported_and_taken_back(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    let mut signal = guard.signal();
    let first = signal.changed().await;
    ensure!(first == HoldState::AtRisk, "the first state was {first:?}");
    faulty.mend();
    let then = signal.changed().await;
    ensure!(then == HoldState::Held, "the second state was {then:?}");
    guard.check()?;
    Ok(guard.release().await?)
}

async fn work_is_stopped_at_a_loss(context: Context) -> Verdict {
    struct Working<'a>(&'a Context, &'a Mutex<Option<BootInstant>>);
    impl Drop for Working<'_> {
        fn drop(&mut self) {
            *lock(self.1) = Some(self.0.clock.now());
        }
    }
    let (guard, faulty) = context.faulty_guard().await?;
    faulty.always(Op::Renew, Fate::LoseRequest);
    let stopped = Mutex::new(None);
    let work = async {
        let _working = Working(&context, &stopped);
        std::future::pending::<()>().await;
    };
    is_lost(guard.run(work).await)?;
    let stopped = given(*lock(&stopped), "the work was not stopped")?;
    let most = guard.deadline() + context.moment();
    in_time!(stopped <= most, "the work was stopped after the deadline");
    Ok(())
}

async fn a_clean_release_is_no_loss(context: Context) -> Verdict {
    let guard = context.guard().await?;
    let (signal, listening) = (guard.signal(), guard.signal());
    let listening = tokio::spawn(async move { listening.ended().await });
    guard.release().await?;
    ensure!(listening.await? == HoldState::Released, "a released hold did not end as Released");
    context.clock.sleep(context.ttl * 2).await;
    let state = signal.state();
    ensure!(state == HoldState::Released, "the state after a release is {state:?}");
    Ok(())
}

async fn a_late_renewal_revives_nothing(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
    faulty.next(Op::Renew, [Fate::DelayAnswer(context.ttl / 10)]);
    faulty.called(Op::Renew, 1).await;
    // The jump passes the grant's deadline, but not the renewal's.
    context.clock.jump(context.ttl * 62 / 100);
    for _ in 0..=10 {
        ensure!(guard.check().is_err(), "the check succeeds after the deadline");
        context.clock.sleep(context.ttl / 50).await;
    }
    Ok(())
}

async fn a_suspended_clients_hold_is_not_valid(context: Context) -> Verdict {
    let tested = context.tested_client(context.another().await?.backend)?;
    let next = context.claim("x");
    let hold = tested.try_acquire(&context.name("x"), true).await?;
    let hold = given(hold, "a free name was refused")?;
    ensure!(hold.is_valid(), "a new hold isn't valid");
    context.clock.jump(context.ttl);
    context.granted_within(&next, context.moment()).await?;
    ensure!(!hold.is_valid(), "the hold was still valid at the next grant");
    let _ = hold.release().await;
    context.release(&next).await
}

async fn a_suspended_machine_knows_at_once(context: Context) -> Verdict {
    let guard = context.guard().await?;
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
    Ok(())
}

async fn a_foreign_takeover_is_noticed(context: Context) -> Verdict {
    let guard = context.client().await?.mutex("x").fixed().acquire().await?;
    ensure!(guard.verify().await?, "the server has the hold, but verify returns false");
    steal(&context, &guard).await?;
    ensure!(!guard.verify().await?, "the server no longer has the hold, but verify returns true");
    Ok(())
}
