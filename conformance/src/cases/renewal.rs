use std::time::Duration;

use lockwright_core::{ErrorKind, Renew, Renewal, RenewalOutcome};

use crate::case::{Case, cases};
use crate::context::Context;
use crate::failure::{Failure, Verdict, ensure, in_time};
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

async fn a_renewed_hold_lives_on(context: Context) -> Verdict {
    let other = context.another().await?;
    let claim = context.taken(context.claim("x")).await?;
    for _ in 0..6 {
        context.clock.sleep(context.ttl / 3).await;
        context.renewed(&claim).await?;
        other.is_held("x").await?;
    }
    context.release(&claim).await
}

async fn a_renewal_is_for_a_full_ttl(context: Context) -> Verdict {
    let claim = context.taken(context.claim("x")).await?;
    context.clock.sleep(context.ttl * 3 / 5).await;
    let sent = context.clock.now();
    let outcome = context.renew(&claim).await?;
    let RenewalOutcome::Renewed { valid } = outcome else {
        return Err(Failure::new(format!("a renewal in time was answered {outcome:?}")));
    };
    let until = sent + valid.unwrap_or(context.ttl).min(context.ttl);
    let next = context.claim("x");
    let end = context.granted_in_the_end(&next).await?;
    let early = until.saturating_since(end.answered);
    ensure!(
        early.is_zero(),
        "the name was free {early:?} before the end that the renewal promised"
    );
    context.release(&next).await
}

async fn an_expired_hold_is_not_revived(context: Context) -> Verdict {
    let claim = context.taken(context.claim("x")).await?;
    let give_up = context.clock.now() + context.patience();
    while !context.holders("x").await?.is_empty() {
        ensure!(context.clock.now() < give_up, "the hold never expired");
        context.clock.sleep(context.ttl / 50).await;
    }
    context.not_renewed(&claim).await?;
    context.is_free("x").await
}

async fn a_renewal_after_the_next_grant_finds_nothing(context: Context) -> Verdict {
    let (claim, next) = (context.taken(context.claim("x")).await?, context.claim("x"));
    context.granted_in_the_end(&next).await?;
    context.not_renewed(&claim).await?;
    context.renewed(&next).await?;
    context.release(&next).await
}

async fn a_foreign_renewal_finds_nothing(context: Context) -> Verdict {
    let entry = context.take(&context.claim("x")).await?;
    context.clock.sleep(context.ttl / 2).await;
    context.not_renewed(&context.claim("x")).await?;
    let second = Duration::from_secs(1);
    let within = context.ttl + second + context.moment();
    let next = context.claim("x");
    let end = context.granted_within(&next, within).await?;
    let lived = end.sent.saturating_since(entry.answered);
    let most = context.ttl + second.max(context.ttl / 10);
    ensure!(lived < most, "a foreign renewal extended the hold to {lived:?}");
    context.release(&next).await
}

async fn a_released_hold_is_not_renewed(context: Context) -> Verdict {
    let claim = context.taken(context.long_claim("x")).await?;
    context.release(&claim).await?;
    context.not_renewed(&claim).await?;
    context.is_free("x").await
}

async fn a_batch_is_answered_in_order(context: Context) -> Verdict {
    let size = context.profile.renew_batch.clamp(1, 6);
    let claims = context.long_claims(size);
    context.take_all(claims.iter().step_by(2)).await?;
    let holds: Vec<_> = claims.iter().map(Renew::of).collect();
    let answers = context.backend.renew(&holds).await?;
    ensure!(answers.len() == size, "{} answers for {size} holds", answers.len());
    for (number, answer) in answers.iter().enumerate() {
        let is_right = match answer.outcome {
            RenewalOutcome::Renewed { .. } => number % 2 == 0,
            RenewalOutcome::NotHeld(_) => number % 2 == 1,
            _ => false,
        };
        ensure!(is_right, "hold {number} was answered {answer:?}");
    }
    context.release_all(claims.iter().step_by(2)).await?;
    ensure!(context.backend.renew(&[]).await?.is_empty(), "an empty batch has answers");
    Ok(())
}

async fn a_full_batch_is_renewed(context: Context) -> Verdict {
    let size = context.profile.renew_batch.clamp(1, 250);
    let claims = context.long_claims(size);
    let begun = context.clock.now();
    context.take_all(&claims).await?;
    let holds: Vec<_> = claims.iter().map(Renew::of).collect();
    let answers = context.backend.renew(&holds).await?;
    let took = context.clock.now().saturating_since(begun);
    in_time!(took < claims[0].ttl, "the renewal took {took:?} of a TTL of {:?}", claims[0].ttl);
    let is_unknown = |answer: &Renewal| answer.outcome == RenewalOutcome::Indeterminate;
    in_time!(!answers.iter().any(is_unknown), "not all of {size} holds were answered");
    let other = answers.iter().find(|answer| !is_renewed(&answer.outcome));
    ensure!(answers.len() == size && other.is_none(), "not all of {size} were renewed: {other:?}");
    context.release_all(&claims).await
}

async fn the_client_keeps_a_hold(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
    for _ in 0..8 {
        context.clock.sleep(context.ttl / 2).await;
        guard.check()?;
        context.is_held("x").await?;
    }
    let renewals = faulty.calls(Op::Renew).len();
    ensure!((8..=32).contains(&renewals), "{renewals} renewals in four TTLs");
    Ok(guard.release().await?)
}

async fn one_failed_renewal_is_no_loss(context: Context) -> Verdict {
    let (guard, faulty) = context.faulty_guard().await?;
    let denied = Fate::Refuse(ErrorKind::Denied);
    for fate in [Fate::LoseRequest, Fate::LoseAnswer, Fate::UNAVAILABLE, denied, Fate::Panic] {
        let before = faulty.calls(Op::Renew).len();
        faulty.next(Op::Renew, [fate, fate]);
        faulty.called(Op::Renew, before + 4).await;
        guard.check()?;
    }
    Ok(guard.release().await?)
}

async fn a_guard_can_be_renewed_by_hand(context: Context) -> Verdict {
    let guard = context.client().await?.mutex("x").fixed().acquire().await?;
    let first = guard.deadline();
    context.clock.sleep(context.ttl / 2).await;
    guard.renew().await?;
    ensure!(guard.deadline() > first, "the guard's deadline did not change");
    context.clock.sleep_until(first + context.ttl / 20).await;
    guard.check()?;
    context.is_held("x").await?;
    Ok(guard.release().await?)
}
