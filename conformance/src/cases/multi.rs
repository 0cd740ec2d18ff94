use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockwright_core::{BreakMode, BreakTarget, ErrorKind, Locks, Step};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::case::{Case, cases};
use crate::context::{Context, all_done, fails, soon};
use crate::failure::{Failure, Verdict, ensure, given, in_time};

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
async fn all_names_are_held_at_once(context: Context) -> Verdict {
    let locks = context.client().await?;
    let names = ["c", "a", "b"];
    let all = locks.multi(names).acquire().await?;
    let held: Vec<&str> = all.guards().iter().map(|guard| guard.name()).collect();
    ensure!(held == ["a", "b", "c"], "the request holds {held:?}");
    all.check()?;
    for name in names {
        context.is_held(name).await?;
        ensure!(all.fence(name).is_some(), "{name} has no fence");
    }
    all.release().await?;
    for name in names {
        context.is_free(name).await?;
    }
    Ok(())
}

async fn a_try_that_fails_gives_all_back(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    for taken in ["a", "b", "c"] {
        let holder = one.mutex(taken).acquire().await?;
        let tried = two.multi(["a", "b", "c"]).try_acquire().await?;
        ensure!(tried.is_none(), "{taken} was granted to a second client");
        let rest = one.multi(["a", "b", "c"].into_iter().filter(|name| *name != taken));
        let message =
            format!("the request failed because {taken} was held, but kept the other names");
        given(rest.try_acquire().await?, message)?.release().await?;
        holder.release().await?;
    }
    Ok(())
}

async fn a_limit_is_for_all_of_them(context: Context) -> Verdict {
    soon(async |name| {
        let (a, b) = (format!("{name}/a"), format!("{name}/b"));
        let (one, two) = context.two_clients().await?;
        let limit = context.ttl / 2;
        let (first, second) = (one.mutex(&a).acquire().await?, one.mutex(&b).acquire().await?);
        let releasing = async {
            context.clock.sleep(limit / 2).await;
            first.release().await
        };
        let begun = context.clock.now();
        let waiting = async {
            match two.multi([&a, &b]).wait_for(limit).acquire().await {
                Err(error) if error.kind() == ErrorKind::TimedOut(Step::Answer) => {
                    Err(Failure::late(format!("no answer of the server within {limit:?}")))
                }
                Err(error) if error.kind() == ErrorKind::TimedOut(Step::Holder) => {
                    let name = error.name().map(|name| name.as_str());
                    ensure!(name == Some(&*b), "it timed out for {name:?}, but {b:?} was held");
                    context.took_its_limit(begun, limit)
                }
                other => Err(Failure::new(format!("the request was answered {other:?}"))),
            }
        };
        let (waited, released) = tokio::join!(waiting, releasing);
        waited?;
        released?;
        second.check()?;
        Ok(second.release().await?)
    })
    .await
}

async fn opposite_orders_dont_deadlock(context: Context) -> Verdict {
    const TIMES: u32 = 5;
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for names in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let (locks, inside) = (context.client().await?, Arc::clone(&inside));
        tasks.spawn(async move {
            for _ in 0..TIMES {
                let all = locks.multi(names).acquire().await?;
                let others = inside.fetch_add(1, Ordering::SeqCst);
                ensure!(others == 0, "{others} other clients held at the same time");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                all.release().await?;
            }
            Ok(())
        });
    }
    let within = context.patience() * 3 * TIMES;
    match timeout(within, all_done(tasks)).await {
        Ok(done) => done,
        Err(_) => Err(Failure::late(format!("the requests still waited after {within:?}"))),
    }
}

async fn a_name_given_twice_is_one(context: Context) -> Verdict {
    let locks = context.client().await?;
    let all = locks.multi(["x", "y", "x"]).wait_for(context.patience()).acquire().await?;
    let count = all.guards().len();
    ensure!(count == 2, "two names, one of them twice, are {count} holds");
    all.release().await?;
    fails(locks.multi([] as [&str; 0]).acquire().await, ErrorKind::InvalidInput)
}

async fn one_lock_of_two_clients_is_noticed(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let tried = one.multi(["x"]).and(&two, ["x"]).try_acquire().await;
    fails(tried, ErrorKind::Conflict)?;
    let limit = context.ttl * 30;
    let begun = context.clock.now();
    let waited = one.multi(["x"]).and(&two, ["x"]).wait_for(limit).acquire().await;
    fails(waited, ErrorKind::Conflict)?;
    let took = context.clock.now().saturating_since(begun);
    in_time!(took < limit / 2, "the conflict was noticed after {took:?} of {limit:?}");
    Ok(())
}

async fn the_loss_of_one_is_reported(context: Context) -> Verdict {
    let (locks, operator) = context.two_clients().await?;
    let all = locks.multi(["a", "b"]).acquire().await?;
    let second = given(all.guards().get(1), "two names are fewer holds")?;
    let seen = BreakTarget::Token(second.token());
    let stopped = all.run(async {
        operator.break_lock("b", seen, BreakMode::Now, "to see").await?;
        std::future::pending::<Verdict>().await
    });
    context.is_stopped(stopped).await?;
    ensure!(all.check().is_err(), "the check succeeds though one hold is lost");
    all.guards()[0].check()?;
    ensure!(all.release().await.is_err(), "the release succeeded though one hold is lost");
    Ok(())
}

async fn a_dropped_request_leaves_nothing(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let holder = one.mutex("b").acquire().await?;
    let short = timeout(context.ttl / 4, two.multi(["a", "b", "c"]).acquire()).await;
    ensure!(short.is_err(), "b was granted to a second client");
    holder.release().await?;
    context.nothing_left().await?;
    context.are_free_within(&["a", "b", "c"], context.patience()).await
}

async fn several_clients_are_held_at_once(context: Context) -> Verdict {
    let (one, two) = context.two_clients().await?;
    let both = |one: &Locks, two: &Locks| one.multi(["x"]).and(two, ["y"]);
    let all = both(&one, &two).acquire().await?;
    let names: Vec<&str> = all.guards().iter().map(|guard| guard.name()).collect();
    ensure!(names == ["x", "y"], "the request holds {names:?}");
    all.release().await?;
    let taken = context.taken(context.long_claim("y")).await?;
    ensure!(both(&one, &two).try_acquire().await?.is_none(), "y was granted to a second client");
    context.release(&taken).await
}
