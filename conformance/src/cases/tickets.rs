use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, ErrorKind, Fence, Guard, HoldState, Mode, Owner,
    Reason, ReleaseMode, RenewalOutcome, Result, TicketError, Token,
};

use crate::case::{Case, cases};
use crate::context::{Context, is_lost};
use crate::failure::{Failure, Verdict, ensure, given};
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
async fn a_hold_moves_to_another_client(context: Context) -> Verdict {
    let (guard, two) = (context.guard().await?, context.client().await?);
    let (fence, token) = (guard.fence(), guard.token());
    let ticket = guard.into_ticket()?;
    let its = ticket.fence();
    ensure!(its == fence, "the hold has the fence {fence}, but its ticket has {its}");
    for _ in 0..3 {
        context.clock.sleep(context.ttl / 2).await;
        two.renew_ticket(&ticket).await?;
    }
    context.is_held("x").await?;
    let resumed = two.resume(&ticket).await?;
    let now = resumed.fence();
    ensure!(now > fence, "the hold had the fence {fence}, and has {now} after it moved");
    ensure!(resumed.token() != token, "the hold has the same token after it moved");
    ensure!(resumed.name() == "x", "the hold's name is {} after it moved", resumed.name());
    context.clock.sleep(context.ttl * 2).await;
    resumed.check()?;
    context.is_held("x").await?;
    resumed.release().await?;
    let next = context.long_claim("x");
    let later = context.take(&next).await?.granted.fence;
    ensure!(later > now, "{later} came after {now}");
    context.release(&next).await?;

    let (one, faulty) = context.faulty_client().await?;
    let ticket = one.mutex("x").acquire().await?.into_ticket()?;
    two.release_ticket(&ticket).await?;
    context.are_free_within(&["x"], context.moment()).await?;
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

async fn is_kept(guard: Guard) -> Verdict {
    guard.check()?;
    ensure!(guard.verify().await?, "a refused resumption ended the hold");
    Ok(guard.release().await?)
}

async fn a_ticket_is_good_once(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let ticket = one.mutex("x").acquire().await?.into_ticket()?;
    let resumed = two.resume(&ticket).await?;
    for locks in [&one, &two] {
        is_lost(locks.resume(&ticket).await)?;
    }
    is_kept(resumed).await?;
    is_lost(one.resume(&ticket).await)
}

async fn the_hold_ends_with_the_ticket(context: Context) -> Verdict {
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

#[track_caller]
fn not_granted(answer: Result<AcquireOutcome>, message: &str) -> Verdict {
    match answer {
        Ok(AcquireOutcome::Granted(_)) => Err(Failure::new(message)),
        Ok(AcquireOutcome::Busy(_)) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn moved(context: &Context, from: &Claim, to: &Claim) -> Verdict<Fence> {
    match context.backend.swap(from.token, to).await? {
        AcquireOutcome::Granted(granted) => Ok(granted.fence),
        AcquireOutcome::Busy(_) => Err(Failure::new("the transfer of an own hold was refused")),
    }
}

async fn an_old_token_is_worth_nothing(context: Context) -> Verdict {
    let (first, second) = (context.taken(context.long_claim("x")).await?, context.long_claim("x"));
    moved(&context, &first, &second).await?;
    context.not_renewed(&first).await?;
    context.not_released(&first, ReleaseMode::Plain).await?;
    context.is_held("x").await?;
    context.renewed(&second).await?;
    let answer = context.backend.swap(Token::random(), &context.long_claim("x")).await;
    not_granted(answer, "a foreign token transferred the hold")?;
    context.release(&second).await?;
    if context.profile.tombstones {
        let answer = context.backend.try_acquire(&first).await;
        not_granted(answer, "a late duplicate of the first acquire was granted")?;
    }
    Ok(())
}

async fn a_repeated_swap_is_the_same_hold(context: Context) -> Verdict {
    let (first, second) = (context.long_claim("x"), context.long_claim("x"));
    let before = context.take(&first).await?.granted.fence;
    let now = moved(&context, &first, &second).await?;
    ensure!(now > before, "the hold had the fence {before}, and then {now}");
    for _ in 0..2 {
        let again = context.backend.swap(first.token, &second).await?;
        let AcquireOutcome::Granted(again) = again else {
            return Err(Failure::new("a repeat was refused"));
        };
        ensure!(again.fence == now, "a repeat has the fence {}, not {now}", again.fence);
    }
    context.release(&second).await?;
    let third = context.taken(context.long_claim("x")).await?;
    let answer = context.backend.swap(first.token, &context.long_claim("x")).await;
    not_granted(answer, "a late transfer took over the next hold")?;
    context.release(&third).await
}

async fn a_repeated_swap_does_not_rearm_a_broken_hold(context: Context) -> Verdict {
    let (first, second) = (context.taken(context.claim("x")).await?, context.claim("x"));
    moved(&context, &first, &second).await?;
    context.break_hold(&second, BreakMode::RunOut).await?;
    context.clock.sleep(context.ttl / 2).await;
    let _ = context.backend.swap(first.token, &second).await;
    let outcome = context.renew(&second).await?;
    let is_broken = outcome == RenewalOutcome::NotHeld(Reason::Broken);
    ensure!(is_broken, "the renewal of a broken hold was answered {outcome:?}");
    let bound = context.ttl / 2 + Duration::from_secs(1) + context.moment();
    context.are_free_within(&["x"], bound).await
}

async fn a_ticket_that_nobody_resumes_runs_out(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let ticket = one.mutex("x").acquire().await?.into_ticket()?;
    let within = context.ttl + context.patience();
    let next = two.mutex("x").wait_for(within).acquire().await?;
    is_lost(one.resume(&ticket).await)?;
    is_kept(next).await
}

async fn a_broken_hold_does_not_move(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    for (name, how) in [("x", BreakMode::RunOut), ("y", BreakMode::Now)] {
        let guard = one.mutex(name).acquire().await?;
        let seen = BreakTarget::Token(guard.token());
        let ticket = guard.into_ticket()?;
        two.break_lock(name, seen, how, "to see").await?;
        is_lost(two.resume(&ticket).await)?;
    }
    Ok(())
}

fn is_kind(failed: &TicketError, kind: ErrorKind) -> Verdict {
    let is = failed.error().kind();
    ensure!(is == kind, "the ticket was answered {is:?}");
    Ok(())
}

async fn a_shared_guard_makes_no_ticket(context: Context) -> Verdict {
    let (locks, owner) = (context.client().await?, Owner::new());
    let first = locks.mutex("x").reentrant(&owner).acquire().await?;
    let second = locks.mutex("x").reentrant(&owner).acquire().await?;
    let failed = given(second.into_ticket().err(), "a second guard made a ticket")?;
    is_kind(&failed, ErrorKind::Conflict)?;
    let second = failed.into_guard();
    second.check()?;
    second.release().await?;
    first.check()?;
    let resumed = locks.resume(&first.into_ticket()?).await?;
    let mode = resumed.mode();
    ensure!(mode == Mode::Exclusive, "the hold's mode is {mode} after it moved");
    Ok(resumed.release().await?)
}

async fn a_backend_without_tickets_refuses_them(context: Context) -> Verdict {
    let made = context.guard().await?.into_ticket();
    let failed = given(made.err(), "the profile has no tickets, but a guard made one")?;
    is_kind(&failed, ErrorKind::Unsupported)?;
    Ok(failed.into_guard().release().await?)
}
