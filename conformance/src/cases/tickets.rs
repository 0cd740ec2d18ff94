use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, ErrorKind, HoldState, Locks, Mode, Owner,
    Reason, ReleaseMode, RenewalOutcome, Result, Token,
};

use crate::case::{Case, cases};
use crate::context::{
    Context, break_hold, is_lost, not_released, not_renewed, refused, release, renew, renewed, take,
};
use crate::failure::{Failure, Verdict, ensure};
use crate::faults::{Fate, Op};

pub(super) const CASES: &[Case] = cases! { Tickets:
    a_hold_moves_to_another_client [Tickets]
        "a transferred hold is never free, and has a larger fence afterwards";
    a_ticket_is_good_once [Tickets]
        "a ticket's second resumption is refused";
    the_hold_ends_with_the_ticket [Tickets]
        "a guard that made a ticket no longer holds";
    an_old_token_is_worth_nothing [Tickets]
        "the old token can't renew or release a transferred hold, and is never granted again";
    a_repeated_swap_is_the_same_hold [Tickets]
        "a repeated transfer is one hold with one fence, and one release ends it";
    a_repeated_swap_does_not_rearm_a_broken_hold [Tickets, Breakable]
        "a repeated transfer doesn't extend a broken hold";
    a_ticket_that_nobody_resumes_runs_out [Tickets]
        "an unused ticket expires, and its resumption doesn't end the next hold";
    a_broken_hold_does_not_move [Tickets, Breakable]
        "a ticket of a broken or freed hold can't be resumed";
    a_shared_guard_makes_no_ticket [Tickets]
        "a guard makes no ticket while its owner has another guard of the same hold";
    a_backend_without_tickets_refuses_them [NoTickets]
        "a backend without tickets returns Unsupported, and the hold is released";
};

async fn a_hold_moves_to_another_client(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let guard = one.mutex("x").acquire().await?;
    let (fence, token) = (guard.fence(), guard.token());
    let ticket = guard.into_ticket()?;
    let its = ticket.fence();
    ensure!(its == fence, "the hold has the fence {fence}, but its ticket has {its}");
    let other = two.mutex("x").try_acquire().await?;
    ensure!(other.is_none(), "the name was free during the transfer");
    let resumed = two.resume(&ticket).await?;
    let now = resumed.fence();
    ensure!(now > fence, "the hold had the fence {fence}, and has {now} after it moved");
    ensure!(resumed.token() != token, "the hold has the same token after it moved");
    ensure!(resumed.name() == "x", "the hold's name is {} after it moved", resumed.name());
    context.clock.sleep(context.ttl * 2).await;
    resumed.check()?;
    let other = one.mutex("x").try_acquire().await?;
    ensure!(other.is_none(), "the name was free after the transfer");
    resumed.release().await?;
    let Some(next) = one.mutex("x").try_acquire().await? else {
        return Err(Failure::new("the name isn't free after the transferred hold was released"));
    };
    ensure!(next.fence() > now, "{} came after {now}", next.fence());
    next.release().await?;
    an_unanswered_one_moves_too(&context, &two).await
}

async fn an_unanswered_one_moves_too(context: &Context, two: &Locks) -> Verdict {
    let (one, faulty) = context.faulty_client().await?;
    let mut requests = vec![one.mutex("y")];
    if context.profile.modes.contains(Mode::Shared) {
        requests.push(one.read("z"));
    }
    for request in requests {
        faulty.next(Op::Acquire, [Fate::LoseAnswer]);
        let ticket = request.acquire().await?.into_ticket()?;
        let resumed = two.resume(&ticket).await?;
        resumed.check()?;
        if resumed.mode() == Mode::Shared {
            let (before, now) = (ticket.fence(), resumed.fence());
            ensure!(now == before, "a reader had the fence {before}, and has {now} after it moved");
        }
        resumed.release().await?;
    }
    Ok(())
}

async fn a_ticket_is_good_once(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let ticket = one.mutex("x").acquire().await?.into_ticket()?;
    let resumed = two.resume(&ticket).await?;
    for locks in [&one, &two] {
        is_lost(locks.resume(&ticket).await)?;
    }
    resumed.check()?;
    ensure!(resumed.verify().await?, "the second resumption ended the first one's hold");
    resumed.release().await?;
    is_lost(one.resume(&ticket).await)?;
    context.nothing_left().await
}

async fn the_hold_ends_with_the_ticket(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let signal = guard.signal();
    let ticket = guard.into_ticket()?;
    let state = signal.state();
    ensure!(state == HoldState::Released, "the guard made a ticket, but its state is {state:?}");
    let resumed = locks.resume(&ticket).await?;
    let state = signal.state();
    let is_released = state == HoldState::Released;
    ensure!(is_released, "the guard's ticket was resumed, but its state is {state:?}");
    Ok(resumed.release().await?)
}

fn next(context: &Context) -> Claim {
    context.long_claim("x")
}

#[track_caller]
fn not_granted(answer: Result<AcquireOutcome>, message: &str) -> Verdict {
    match answer {
        Ok(AcquireOutcome::Granted(_)) => Err(Failure::new(message)),
        Ok(AcquireOutcome::Busy(_)) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn an_old_token_is_worth_nothing(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (next(&context), next(&context));
    take(&context, &*backend, &first).await?;
    let AcquireOutcome::Granted(_) = backend.swap(first.token, &second).await? else {
        return Err(Failure::new("the transfer didn't find the hold of its own token"));
    };
    not_renewed(&*backend, &first).await?;
    not_released(&*backend, &first, ReleaseMode::Plain).await?;
    refused(&*backend, &next(&context)).await?;
    renewed(&*backend, &second).await?;
    let answer = backend.swap(Token::random(), &next(&context)).await;
    not_granted(answer, "a foreign token transferred the hold")?;
    release(&*backend, &second).await?;
    if context.profile.tombstones {
        let answer = backend.try_acquire(&first).await;
        not_granted(answer, "a late duplicate of the first acquire was granted")?;
    }
    Ok(())
}

async fn a_repeated_swap_is_the_same_hold(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (next(&context), next(&context));
    let before = take(&context, &*backend, &first).await?.granted.fence;
    let mut fences = Vec::new();
    for _ in 0..3 {
        match backend.swap(first.token, &second).await? {
            AcquireOutcome::Granted(granted) => fences.push(granted.fence),
            AcquireOutcome::Busy(_) => return Err(Failure::new("a repeat was refused")),
        }
    }
    let are_one = fences.iter().all(|fence| *fence == fences[0]) && fences[0] > before;
    ensure!(are_one, "the hold had the fence {before}, and repeats of one transfer had {fences:?}");
    release(&*backend, &second).await?;
    let third = next(&context);
    take(&context, &*backend, &third).await?;
    let answer = backend.swap(first.token, &next(&context)).await;
    not_granted(answer, "a late transfer took over the next hold")?;
    release(&*backend, &third).await
}

async fn a_repeated_swap_does_not_rearm_a_broken_hold(context: Arc<Context>) -> Verdict {
    let backend = context.backend().await?;
    let (first, second) = (context.claim("x"), context.claim("x"));
    take(&context, &*backend, &first).await?;
    let AcquireOutcome::Granted(_) = backend.swap(first.token, &second).await? else {
        return Err(Failure::new("the transfer didn't find the hold of its own token"));
    };
    break_hold(&*backend, &second, BreakMode::RunOut).await?;
    context.clock.sleep(context.ttl / 2).await;
    let _ = backend.swap(first.token, &second).await;
    let outcome = renew(&*backend, &second).await?;
    let is_broken = outcome == RenewalOutcome::NotHeld(Reason::Broken);
    ensure!(is_broken, "the renewal of a broken hold was answered {outcome:?}");
    let bound = context.ttl / 2 + Duration::from_secs(1) + context.moment();
    let next = context.claim("x");
    context.granted_within(&*backend, &next, bound, context.ttl / 100).await?;
    release(&*backend, &next).await
}

async fn a_ticket_that_nobody_resumes_runs_out(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let ticket = one.mutex("x").acquire().await?.into_ticket()?;
    let within = context.ttl + context.patience();
    let next = two.mutex("x").wait_for(within).acquire().await?;
    is_lost(one.resume(&ticket).await)?;
    next.check()?;
    ensure!(next.verify().await?, "the refused resumption ended the next hold");
    next.release().await?;
    context.nothing_left().await
}

async fn a_broken_hold_does_not_move(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    for (name, how) in [("x", BreakMode::RunOut), ("y", BreakMode::Now)] {
        let guard = one.mutex(name).acquire().await?;
        let seen = BreakTarget::Token(guard.token());
        let ticket = guard.into_ticket()?;
        two.break_lock(name, seen, how, "to see").await?;
        is_lost(two.resume(&ticket).await)?;
    }
    context.nothing_left().await
}

async fn a_shared_guard_makes_no_ticket(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let owner = Owner::new();
    let first = locks.mutex("x").reentrant(&owner).acquire().await?;
    let second = locks.mutex("x").reentrant(&owner).acquire().await?;
    let failed = second.into_ticket().expect_err("the owner has another guard");
    let kind = failed.error().kind();
    ensure!(kind == ErrorKind::Conflict, "a second guard was answered {kind:?}");
    let second = failed.into_guard();
    second.check()?;
    second.release().await?;
    first.check()?;
    let ticket = first.into_ticket()?;
    let resumed = locks.resume(&ticket).await?;
    let mode = resumed.mode();
    ensure!(mode == Mode::Exclusive, "the hold's mode is {mode} after it moved");
    Ok(resumed.release().await?)
}

async fn a_backend_without_tickets_refuses_them(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let guard = locks.mutex("x").acquire().await?;
    let failed = guard.into_ticket().expect_err("the profile has no tickets");
    let kind = failed.error().kind();
    ensure!(kind == ErrorKind::Unsupported, "the ticket was answered {kind:?}");
    failed.into_guard().release().await?;
    context.nothing_left().await
}
