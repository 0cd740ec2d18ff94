use std::sync::Arc;

use lockwright_core::{
    BreakMode, BreakTarget, Election, ErrorKind, Identity, Leader, Leadership, Locks, Observer,
};

use crate::case::{Case, cases};
use crate::context::{Context, is_stopped};
use crate::failure::{Failure, Verdict, ensure};

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

/// A leader without an identity has no value, and passes.
fn says(leader: Option<&Leader>, wanted: &str) -> bool {
    leader
        .is_some_and(|leader| leader.identity.is_none() || leader.value.as_deref() == Some(wanted))
}

async fn lead(election: &Election, value: &str) -> Verdict<Leadership> {
    match election.campaign(value).try_acquire().await? {
        Some(leadership) => Ok(leadership),
        None => Err(Failure::new(format!("{value} wasn't elected, and there is no leader"))),
    }
}

async fn one_of_many_candidates_leads(context: Arc<Context>) -> Verdict {
    let clients = [context.client().await?, context.client().await?, context.client().await?];
    let first = lead(&clients[0].election("x"), "0").await?;
    let mut waiting = tokio::task::JoinSet::new();
    for (number, locks) in clients.iter().enumerate() {
        let tried = locks.election("x").campaign("another").try_acquire().await?;
        ensure!(tried.is_none(), "two lead");
        let election = locks.election("x");
        waiting.spawn(async move { election.campaign(number.to_string()).acquire().await });
    }
    first.resign().await?;
    for _ in &clients {
        let next = tokio::time::timeout(context.patience() * 3, waiting.join_next()).await;
        let Ok(Some(next)) = next else {
            return Err(Failure::new("no candidate leads after the leader resigned"));
        };
        let next = next??;
        let leader = clients[0].election("x").leader().await?;
        let (seen, is) = (value(leader.as_ref()), next.value());
        ensure!(says(leader.as_ref(), is), "{is} leads, and {seen:?} is seen");
        next.resign().await?;
    }
    context.nothing_left().await
}

async fn the_leaders_value_is_seen(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let seen = two.election("x");
    ensure!(seen.leader().await?.is_none(), "there is a leader before any campaign");
    for name in ["http://[::1]:8080/?a=b@c", "", "größer: \"1\" \\ 2"] {
        let leadership = lead(&one.election("x"), name).await?;
        let leader = seen.leader().await?;
        let shown = value(leader.as_ref());
        ensure!(says(leader.as_ref(), name), "{name:?} leads, and {shown:?} is seen");
        let token = leader.and_then(|leader| leader.token);
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

async fn a_candidate_that_left_gives_its_value_to_nobody(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let leader = lead(&one.election("x"), "first").await?;
    let election = two.election("x");
    let waiting = election.campaign("left").acquire();
    let waited = tokio::time::timeout(context.ttl / 4, waiting).await;
    ensure!(waited.is_err(), "two lead");
    leader.resign().await?;
    let request = election.campaign("came").wait_for(context.patience() * 2);
    let next = request.acquire().await?;
    let leader = one.election("x").leader().await?;
    let shown = value(leader.as_ref());
    let led = next.value();
    ensure!(led == "came", "the candidate campaigned as \"came\" and leads as {led:?}");
    let is_seen = says(leader.as_ref(), "came");
    ensure!(is_seen, "the candidate campaigned as \"came\", but {shown:?} is seen");
    next.resign().await?;
    context.nothing_left().await
}

async fn observed(context: &Context, observer: &mut Observer) -> Verdict<Option<Leader>> {
    match tokio::time::timeout(context.patience(), observer.next()).await {
        Ok(leader) => Ok(leader?),
        Err(_) => Err(Failure::new("the observer reported no change")),
    }
}

async fn leaders_are_observed(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let mut observer = two.election("x").observe().each(context.ttl / 20);
    let at_first = observed(&context, &mut observer).await?;
    ensure!(at_first.is_none(), "the observer reported {at_first:?} before any campaign");
    for name in ["one", "two"] {
        let leadership = lead(&one.election("x"), name).await?;
        let leader = observed(&context, &mut observer).await?;
        let shown = value(leader.as_ref());
        ensure!(says(leader.as_ref(), name), "{name} leads, but the observer reported {shown:?}");
        let again = tokio::time::timeout(context.ttl / 4, observer.next()).await;
        ensure!(again.is_err(), "nothing has changed, but the observer reported {again:?}");
        leadership.resign().await?;
        let leader = observed(&context, &mut observer).await?;
        ensure!(leader.is_none(), "there is no leader, but the observer reported {leader:?}");
    }
    Ok(())
}

async fn later_leaders_have_larger_fences(context: Arc<Context>) -> Verdict {
    let clients: [Locks; 2] = [context.client().await?, context.client().await?];
    let mut last = None;
    for number in 0..4 {
        let leadership = lead(&clients[number % 2].election("x"), "me").await?;
        let fence = leadership.fence();
        ensure!(Some(fence) > last, "{fence} came after {last:?}");
        last = Some(fence);
        leadership.resign().await?;
    }
    Ok(())
}

async fn the_loss_of_leadership_is_reported(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let leadership = lead(&one.election("x"), "one").await?;
    let seen = BreakTarget::Token(leadership.token());
    let led = leadership.run(async {
        two.break_lock("x", seen, BreakMode::Now, "to see").await?;
        std::future::pending::<Verdict>().await
    });
    is_stopped(&context, led).await?;
    let next = lead(&two.election("x"), "two").await?;
    let leader = one.election("x").leader().await?;
    let shown = value(leader.as_ref());
    ensure!(says(leader.as_ref(), "two"), "two leads, and {shown:?} is seen");
    drop(leadership);
    next.check()?;
    Ok(next.resign().await?)
}

async fn bad_values_are_refused(context: Arc<Context>) -> Verdict {
    let election = context.client().await?.election("x");
    let long = "x".repeat(Identity::LONGEST_VALUE);
    for bad in [&format!("{long}x"), "two\nlines", "\u{1b}[2J"] {
        let kind = election.campaign(bad).acquire().await.err().map(|error| error.kind());
        let is_refused = kind == Some(ErrorKind::InvalidInput);
        ensure!(is_refused, "a value of {} bytes was answered {kind:?}", bad.len());
    }
    let leadership = lead(&election, &long).await?;
    let leader = election.leader().await?;
    let shown = value(leader.as_ref()).map(str::len);
    let (bytes, is_seen) = (long.len(), says(leader.as_ref(), &long));
    ensure!(is_seen, "the value has {bytes} bytes, but {shown:?} is seen");
    leadership.resign().await?;
    context.nothing_left().await
}
