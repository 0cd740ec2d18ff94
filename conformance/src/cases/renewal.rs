use std::sync::Arc;

use lockwright_core::{Claim, Renew, RenewalOutcome};

use crate::case::{Case, cases};
use crate::context::{
    Context, is_free, not_renewed, refused, release, release_all, renew, renewed, take, take_all,
};
use crate::failure::{Verdict, ensure, in_time};
use crate::faults::{Fate, Op};

pub(super) const CASES: &[Case] = cases! { Renewal:
    a_renewed_hold_lives_on []
        "a renewed hold outlives its first TTL";
    a_renewal_is_for_a_full_ttl []
        "a renewal's TTL starts at the renewal, not at the previous expiry";
    an_expired_hold_is_not_revived []
        "a late renewal doesn't restore an expired hold, even if the name is free";
    a_renewal_after_the_next_grant_finds_nothing []
        "a late renewal doesn't end the next hold";
    a_foreign_renewal_finds_nothing []
        "another token can't renew a hold";
    a_released_hold_is_not_renewed []
        "a released hold can't be renewed";
    a_batch_is_answered_in_order []
        "a batch has one answer for each hold, in order";
    a_full_batch_is_renewed []
        "a batch of the profile's maximum size is renewed";
    the_client_keeps_a_hold []
        "a guard stays held over several TTLs";
    one_failed_renewal_is_no_loss []
        "lost requests and answers don't end a hold if one renewal succeeds in time";
    a_guard_can_be_renewed_by_hand []
        "a fixed hold that is renewed explicitly lasts another TTL";
};

fn is_renewed(outcome: &RenewalOutcome) -> bool {
    matches!(outcome, RenewalOutcome::Renewed { .. })
}

fn is_not_held(outcome: &RenewalOutcome) -> bool {
    matches!(outcome, RenewalOutcome::NotHeld(_))
}

async fn a_renewed_hold_lives_on(context: Arc<Context>) -> Verdict {
    let (backend, other) = (context.backend().await?, context.backend().await?);
    let claim = context.claim("x");
    take(&context, &*backend, &claim).await?;
    for _ in 0..6 {
        context.clock.sleep(context.ttl / 3).await;
        renewed(&*backend, &claim).await?;
        refused(&*other, &context.claim("x")).await?;
    }
    release(&*backend, &claim).await
}

async fn a_renewal_is_for_a_full_ttl(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.claim("x");
    take(&context, &*backend, &claim).await?;
    context.clock.sleep(context.ttl * 3 / 5).await;
    let sent = context.clock.now();
    let outcome = renew(&*backend, &claim).await?;
    let RenewalOutcome::Renewed { valid } = outcome else {
        return Err(crate::Failure::new(format!("a renewal in time was answered {outcome:?}")));
    };
    let until = sent + valid.unwrap_or(context.ttl).min(context.ttl);
    let next = context.claim("x");
    let end =
        context.granted_within(&*backend, &next, context.patience(), context.ttl / 100).await?;
    ensure!(
        end.answered >= until,
        "the name was free {:?} before the end that the renewal promised",
        until.saturating_since(end.answered)
    );
    release(&*backend, &next).await
}

async fn run_out(context: &Context, claim: &Claim) -> Verdict {
    let backend = context.backend().await?;
    let give_up = context.clock.now() + context.patience();
    while !backend.inspect(&claim.name).await?.holders.is_empty() {
        ensure!(context.clock.now() < give_up, "the hold never expired");
        context.clock.sleep(context.ttl / 50).await;
    }
    Ok(())
}

async fn an_expired_hold_is_not_revived(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.claim("x");
    take(&context, &*backend, &claim).await?;
    run_out(&context, &claim).await?;
    not_renewed(&*backend, &claim).await?;
    is_free(&context, &*backend, "x").await
}

async fn a_renewal_after_the_next_grant_finds_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, next) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &claim).await?;
    context.granted_within(&*backend, &next, context.patience(), context.ttl / 20).await?;
    not_renewed(&*backend, &claim).await?;
    renewed(&*backend, &next).await?;
    release(&*backend, &next).await
}

async fn a_foreign_renewal_finds_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (claim, foreign) = (context.claim("x"), context.claim("x"));
    let entry = take(&context, &*backend, &claim).await?;
    context.clock.sleep(context.ttl / 2).await;
    not_renewed(&*backend, &foreign).await?;
    let within = context.ttl + std::time::Duration::from_secs(1) + context.moment();
    let next = context.claim("x");
    let end = context.granted_within(&*backend, &next, within, context.ttl / 100).await?;
    let lived = end.sent.saturating_since(entry.answered);
    let most = context.ttl + std::time::Duration::from_secs(1).max(context.ttl / 10);
    ensure!(lived < most, "a foreign renewal extended the hold to {lived:?}");
    release(&*backend, &next).await
}

async fn a_released_hold_is_not_renewed(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let claim = context.long_claim("x");
    take(&context, &*backend, &claim).await?;
    release(&*backend, &claim).await?;
    not_renewed(&*backend, &claim).await?;
    is_free(&context, &*backend, "x").await
}

async fn a_batch_is_answered_in_order(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let size = context.profile.renew_batch.clamp(1, 6);
    let claims: Vec<_> =
        (0..size).map(|number| context.long_claim(&format!("x{number}"))).collect();
    take_all(&context, &*backend, claims.iter().step_by(2)).await?;
    let holds: Vec<_> = claims.iter().map(Renew::of).collect();
    let answers = backend.renew(&holds).await?;
    ensure!(answers.len() == size, "{} answers for {size} holds", answers.len());
    for (number, answer) in answers.iter().enumerate() {
        let right = if number % 2 == 0 { is_renewed } else { is_not_held };
        ensure!(right(&answer.outcome), "hold {number} was answered {answer:?}");
    }
    release_all(&*backend, claims.iter().step_by(2)).await?;
    ensure!(backend.renew(&[]).await?.is_empty(), "an empty batch has answers");
    Ok(())
}

async fn a_full_batch_is_renewed(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let size = context.profile.renew_batch.clamp(1, 250);
    let claims: Vec<_> =
        (0..size).map(|number| context.long_claim(&format!("x{number}"))).collect();
    let begun = context.clock.now();
    take_all(&context, &*backend, &claims).await?;
    let holds: Vec<_> = claims.iter().map(Renew::of).collect();
    let answers = backend.renew(&holds).await?;
    let took = context.clock.now().saturating_since(begun);
    in_time!(took < claims[0].ttl, "the renewal took {took:?} of a TTL of {:?}", claims[0].ttl);
    let unknown = answers.iter().filter(|answer| answer.outcome == RenewalOutcome::Indeterminate);
    let unknown = unknown.count();
    in_time!(unknown == 0, "no answer for {unknown} of {size} holds");
    let other = answers.iter().find(|answer| !is_renewed(&answer.outcome));
    ensure!(answers.len() == size && other.is_none(), "not all of {size} were renewed: {other:?}");
    release_all(&*backend, &claims).await
}

async fn the_client_keeps_a_hold(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let other = context.backend().await?;
    let guard = locks.mutex("x").acquire().await?;
    for _ in 0..8 {
        context.clock.sleep(context.ttl / 2).await;
        guard.check()?;
        refused(&*other, &context.claim("x")).await?;
    }
    let renewals = faulty.calls(Op::Renew).len();
    ensure!((8..=32).contains(&renewals), "{renewals} renewals in four TTLs");
    Ok(guard.release().await?)
}

async fn one_failed_renewal_is_no_loss(context: Arc<Context>) -> Verdict {
    let (locks, faulty) = context.faulty_client().await?;
    let guard = locks.mutex("x").acquire().await?;
    for fate in [Fate::LoseRequest, Fate::LoseAnswer, Fate::UNAVAILABLE, Fate::Panic] {
        let before = faulty.calls(Op::Renew).len();
        faulty.next(Op::Renew, [fate, fate]);
        faulty.called(Op::Renew, before + 4).await;
        guard.check()?;
    }
    Ok(guard.release().await?)
}

async fn a_guard_can_be_renewed_by_hand(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let other = context.backend().await?;
    let guard = locks.mutex("x").fixed().acquire().await?;
    let first = guard.deadline();
    context.clock.sleep(context.ttl / 2).await;
    guard.renew().await?;
    ensure!(guard.deadline() > first, "the guard's deadline did not change");
    context.clock.sleep_until(first + context.ttl / 20).await;
    guard.check()?;
    refused(&*other, &context.claim("x")).await?;
    Ok(guard.release().await?)
}
