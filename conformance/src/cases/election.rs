use lockwright_core::{
    BreakMode, BreakTarget, Election, ErrorKind, Identity, Leader, Leadership, Observer,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::case::{Case, cases};
use crate::context::Context;
use crate::failure::{Failure, Verdict, ensure, given};

pub(super) const CASES: &[Case] = cases! { Election:
    one_of_many_candidates_leads []
        "one candidate leads, and another candidate leads when it resigns";
    the_leaders_value_is_seen []
        "all clients see the leader's value while it leads, and then the next leader's";
    a_candidate_that_left_gives_its_value_to_nobody []
        "a candidate may take over a dropped candidate's queue position, but not its value";
    leaders_are_observed []
        "an observer reports each new leader and each vacancy, without repeats";
    later_leaders_have_larger_fences [Fences]
        "a later leader has a larger fence, so that a deposed leader's writes are refused";
    the_loss_of_leadership_is_reported [Breakable]
        "the deposed leader's work is stopped, and another candidate leads";
    bad_values_are_refused []
        "values that are too long or contain control characters are refused";
};
fn value(leader: Option<&Leader>) -> Option<&str> {
    leader?.value.as_deref()
}

/// Without an identity, a leader's value is unknown and accepted.
fn says(leader: Option<&Leader>, wanted: &str) -> bool {
    leader
        .is_some_and(|leader| leader.identity.is_none() || leader.value.as_deref() == Some(wanted))
}

async fn sees(election: &Election, wanted: &str) -> Verdict<Option<Leader>> {
    let leader = election.leader().await?;
    let shown = value(leader.as_ref());
    ensure!(says(leader.as_ref(), wanted), "{wanted:?} leads, and {shown:?} is seen");
    Ok(leader)
}

async fn lead(election: &Election, value: &str) -> Verdict<Leadership> {
    let elected = election.campaign(value).try_acquire().await?;
    given(elected, format!("{value} wasn't elected, and there is no leader"))
}

async fn one_of_many_candidates_leads(context: Context) -> Verdict {
    let mut elections = Vec::new();
    for _ in 0..3 {
        elections.push(context.client().await?.election("x"));
    }
    let first = lead(&elections[0], "0").await?;
    let mut waiting = JoinSet::new();
    for (number, election) in elections.iter().enumerate() {
        let tried = election.campaign("another").try_acquire().await?;
        ensure!(tried.is_none(), "two lead");
        waiting.spawn(election.campaign(number.to_string()).acquire());
    }
    first.resign().await?;
    for _ in &elections {
        let next = timeout(context.patience() * 3, waiting.join_next()).await;
        let next = given(next.ok().flatten(), "no candidate leads after the leader resigned")???;
        sees(&elections[0], next.value()).await?;
        next.resign().await?;
    }
    Ok(())
}

async fn the_leaders_value_is_seen(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let seen = two.election("x");
    ensure!(seen.leader().await?.is_none(), "there is a leader before any campaign");
    for name in ["http://[::1]:8080/?a=b@c", "", "größer: \"1\" \\ 2"] {
        let leadership = lead(&one.election("x"), name).await?;
        let token = sees(&seen, name).await?.and_then(|leader| leader.token);
        let is_own = token == Some(leadership.token());
        ensure!(is_own, "the leader's token isn't the leader's own: {token:?}");
        leadership.resign().await?;
        let left = seen.leader().await?;
        ensure!(left.is_none(), "the leader has resigned, but {left:?} is seen");
    }
    let mutex = one.mutex("x").acquire().await?;
    let leader = seen.leader().await?;
    let shown = value(leader.as_ref());
    let has_no_value = leader.is_some() && shown.is_none();
    ensure!(has_no_value, "the holder didn't campaign, but its value is {shown:?}");
    Ok(mutex.release().await?)
}

async fn a_candidate_that_left_gives_its_value_to_nobody(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let leader = lead(&one.election("x"), "first").await?;
    let election = two.election("x");
    let waited = timeout(context.ttl / 4, election.campaign("left").acquire()).await;
    ensure!(waited.is_err(), "two lead");
    leader.resign().await?;
    let next = election.campaign("came").wait_for(context.patience() * 2).acquire().await?;
    let led = next.value();
    ensure!(led == "came", "the candidate campaigned as \"came\" and leads as {led:?}");
    sees(&one.election("x"), "came").await?;
    Ok(next.resign().await?)
}

async fn observed(context: &Context, observer: &mut Observer) -> Verdict<Option<Leader>> {
    match timeout(context.patience(), observer.next()).await {
        Ok(leader) => Ok(leader?),
        Err(_) => Err(Failure::new("the observer reported no change")),
    }
}

async fn leaders_are_observed(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let mut observer = two.election("x").observe().each(context.ttl / 20);
    let at_first = observed(&context, &mut observer).await?;
    ensure!(at_first.is_none(), "the observer reported {at_first:?} before any campaign");
    for name in ["one", "two"] {
        let leadership = lead(&one.election("x"), name).await?;
        let leader = observed(&context, &mut observer).await?;
        let shown = value(leader.as_ref());
        ensure!(says(leader.as_ref(), name), "{name} leads, but the observer reported {shown:?}");
        let again = timeout(context.ttl / 4, observer.next()).await;
        ensure!(again.is_err(), "nothing has changed, but the observer reported {again:?}");
        leadership.resign().await?;
        let leader = observed(&context, &mut observer).await?;
        ensure!(leader.is_none(), "there is no leader, but the observer reported {leader:?}");
    }
    Ok(())
}

async fn later_leaders_have_larger_fences(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let mut last = None;
    for locks in [&one, &two, &one, &two] {
        let leadership = lead(&locks.election("x"), "me").await?;
        let fence = leadership.fence();
        ensure!(Some(fence) > last, "{fence} came after {last:?}");
        last = Some(fence);
        leadership.resign().await?;
    }
    Ok(())
}

async fn the_loss_of_leadership_is_reported(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let leadership = lead(&one.election("x"), "one").await?;
    let seen = BreakTarget::Token(leadership.token());
    let led = leadership.run(async {
        two.break_lock("x", seen, BreakMode::Now, "to see").await?;
        std::future::pending::<Verdict>().await
    });
    context.is_stopped(led).await?;
    let next = lead(&two.election("x"), "two").await?;
    sees(&one.election("x"), "two").await?;
    drop(leadership);
    next.check()?;
    Ok(next.resign().await?)
}

async fn bad_values_are_refused(context: Context) -> Verdict {
    let election = context.client().await?.election("x");
    let long = "x".repeat(Identity::LONGEST_VALUE);
    for bad in [&format!("{long}x"), "two\nlines", "\u{1b}[2J"] {
        let kind = election.campaign(bad).acquire().await.err().map(|error| error.kind());
        let is_refused = kind == Some(ErrorKind::InvalidInput);
        ensure!(is_refused, "a value of {} bytes was answered {kind:?}", bad.len());
    }
    let leadership = lead(&election, &long).await?;
    sees(&election, &long).await?;
    Ok(leadership.resign().await?)
}
