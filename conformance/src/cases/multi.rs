use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockwright_core::{BreakMode, BreakTarget, ErrorKind, Locks, Step};

use crate::case::{Case, cases};
use crate::context::{Context, fails, is_stopped, release, soon, take};
use crate::failure::{Failure, Verdict, ensure, in_time};

pub(super) const CASES: &[Case] = cases! { Multi:
    all_names_are_held_at_once []
        "a request for several names holds all of them, and its release frees all of them";
    a_try_that_fails_gives_all_back []
        "if one of the names is held, the failed request holds none of them";
    a_limit_is_for_all_of_them []
        "a request that waits for two holders keeps its limit and leaves no hold";
    opposite_orders_dont_deadlock []
        "two clients that request the same locks in opposite orders are both granted";
    a_name_given_twice_is_one []
        "a request that names a lock twice doesn't wait for itself";
    one_lock_of_two_clients_is_noticed []
        "two names of one lock on the server are an error, not a deadlock";
    the_loss_of_one_is_reported [Breakable]
        "if one hold is lost, the common check fails and the work is stopped";
    a_dropped_request_leaves_nothing []
        "a dropped request leaves no hold and no waiter";
    several_clients_are_held_at_once []
        "each name is held by its own client; if one name is unavailable, none is held";
};

async fn all_names_are_held_at_once(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let names = ["c", "a", "b"];
    let all = one.multi(names).acquire().await?;
    let held: Vec<&str> = all.guards().iter().map(|guard| guard.name()).collect();
    ensure!(held == ["a", "b", "c"], "the request holds {held:?}");
    all.check()?;
    for name in names {
        let other = two.mutex(name).try_acquire().await?;
        ensure!(other.is_none(), "{name} was granted to a second client");
        let fence = all.fence(name);
        ensure!(fence.is_some(), "{name} has no fence");
    }
    all.release().await?;
    for name in names {
        let Some(other) = two.mutex(name).try_acquire().await? else {
            return Err(Failure::new(format!("{name} was not granted though it was free")));
        };
        other.release().await?;
    }
    Ok(())
}

async fn a_try_that_fails_gives_all_back(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    for taken in ["a", "b", "c"] {
        let holder = one.mutex(taken).acquire().await?;
        let tried = two.multi(["a", "b", "c"]).try_acquire().await?;
        ensure!(tried.is_none(), "{taken} was granted to a second client");
        let all = one.multi(["a", "b", "c"].into_iter().filter(|name| *name != taken));
        let Some(rest) = all.try_acquire().await? else {
            return Err(Failure::new(format!(
                "the request failed because {taken} was held, but kept the other names"
            )));
        };
        rest.release().await?;
        holder.release().await?;
    }
    context.nothing_left().await
}

async fn a_limit_is_for_all_of_them(context: Arc<Context>) -> Verdict {
    soon(|name| limited_together(Arc::clone(&context), name)).await?;
    context.nothing_left().await
}

async fn limited_together(context: Arc<Context>, name: String) -> Verdict {
    let (a, b) = (format!("{name}/a"), format!("{name}/b"));
    let (one, two) = (context.client().await?, context.client().await?);
    let limit = context.ttl / 2;
    let (first, second) = (one.mutex(&a).acquire().await?, one.mutex(&b).acquire().await?);
    let clock = context.clock.clone();
    let goes = tokio::spawn(async move {
        clock.sleep(limit / 2).await;
        first.release().await
    });
    let begun = context.clock.now();
    match two.multi([&a, &b]).wait_for(limit).acquire().await {
        Err(error) if error.kind() == ErrorKind::TimedOut(Step::Holder) => {
            let name = error.name().map(|name| name.as_str());
            ensure!(name == Some(&*b), "the request timed out for {name:?}, but {b:?} was held");
        }
        Err(error) if error.kind() == ErrorKind::TimedOut(Step::Answer) => {
            return Err(Failure::late(format!("no answer of the server within {limit:?}")));
        }
        other => return Err(Failure::new(format!("the request was answered {other:?}"))),
    }
    let took = context.clock.now().saturating_since(begun);
    let most = limit + context.moment();
    ensure!(took >= limit, "the limit of {limit:?} was reached after {took:?}");
    in_time!(took < most, "the limit of {limit:?} was reached after {took:?}");
    goes.await??;
    second.check()?;
    Ok(second.release().await?)
}

async fn opposite_orders_dont_deadlock(context: Arc<Context>) -> Verdict {
    const TIMES: u32 = 5;
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for names in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let (locks, inside) = (context.client().await?, Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            for _ in 0..TIMES {
                let all = locks.multi(names).acquire().await?;
                let others = inside.fetch_add(1, Ordering::SeqCst);
                ensure!(others == 0, "{others} other clients held at the same time");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                all.release().await?;
            }
            Verdict::Ok(())
        }));
    }
    let all = async {
        for task in tasks {
            task.await??;
        }
        Verdict::Ok(())
    };
    let within = context.patience() * 3 * TIMES;
    match tokio::time::timeout(within, all).await {
        Ok(done) => done,
        Err(_) => Err(Failure::late(format!("the requests still waited after {within:?}"))),
    }
}

async fn a_name_given_twice_is_one(context: Arc<Context>) -> Verdict {
    let locks = context.client().await?;
    let request = locks.multi(["x", "y", "x"]).wait_for(context.patience());
    let all = request.acquire().await?;
    let count = all.guards().len();
    ensure!(count == 2, "two names, one of them twice, are {count} holds");
    all.release().await?;
    let nothing = locks.multi([] as [&str; 0]).acquire().await;
    fails(nothing, ErrorKind::InvalidInput)?;
    context.nothing_left().await
}

async fn one_lock_of_two_clients_is_noticed(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let tried = one.multi(["x"]).and(&two, ["x"]).try_acquire().await;
    fails(tried, ErrorKind::Conflict)?;
    let limit = context.ttl * 30;
    let begun = context.clock.now();
    let waited = one.multi(["x"]).and(&two, ["x"]).wait_for(limit).acquire().await;
    fails(waited, ErrorKind::Conflict)?;
    let took = context.clock.now().saturating_since(begun);
    in_time!(took < limit / 2, "the conflict was noticed after {took:?} of {limit:?}");
    context.nothing_left().await
}

async fn the_loss_of_one_is_reported(context: Arc<Context>) -> Verdict {
    let (locks, operator) = (context.client().await?, context.client().await?);
    let all = locks.multi(["a", "b"]).acquire().await?;
    let second = all.guards().get(1);
    let second = second.ok_or_else(|| Failure::new("two names are fewer holds"))?;
    let seen = BreakTarget::Token(second.token());
    let stopped = all.run(async {
        operator.break_lock("b", seen, BreakMode::Now, "to see").await?;
        std::future::pending::<Verdict>().await
    });
    is_stopped(&context, stopped).await?;
    ensure!(all.check().is_err(), "the check succeeds though one hold is lost");
    all.guards()[0].check()?;
    ensure!(all.release().await.is_err(), "the release succeeded though one hold is lost");
    context.nothing_left().await
}

async fn a_dropped_request_leaves_nothing(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let holder = one.mutex("b").acquire().await?;
    let waiting = two.multi(["a", "b", "c"]).acquire();
    let short = tokio::time::timeout(context.ttl / 4, waiting).await;
    ensure!(short.is_err(), "b was granted to a second client");
    holder.release().await?;
    context.nothing_left().await?;
    context.are_free_within(&["a", "b", "c"], context.patience()).await
}

async fn several_clients_are_held_at_once(context: Arc<Context>) -> Verdict {
    let (one, two) = (context.client().await?, context.client().await?);
    let both = |one: &Locks, two: &Locks| one.multi(["x"]).and(two, ["y"]);
    let all = both(&one, &two).acquire().await?;
    let names: Vec<&str> = all.guards().iter().map(|guard| guard.name()).collect();
    ensure!(names == ["x", "y"], "the request holds {names:?}");
    all.release().await?;
    let (backend, taken) = (context.backend().await?, context.long_claim("y"));
    take(&context, &*backend, &taken).await?;
    ensure!(both(&one, &two).try_acquire().await?.is_none(), "y was granted to a second client");
    release(&*backend, &taken).await?;
    context.nothing_left().await
}
