use std::collections::BTreeSet;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, DistributedLock, ErrorKind, Event, Mode,
    Reason, ReleaseMode, Renew, Renewal, Result, Token,
};
use lockwright_redis::{Config, Redis};

use crate::common::{
    FOR_EVER, MODES, busy, call_counts, claim, claim_for, events, exists, fails, grant, name, next,
    renewed, server_and_client,
};

const NOT_HELD_BROKEN: [Renewal; 1] = [Renewal::not_held(Reason::Broken)];

async fn broken(redis: &Redis, seen: BreakTarget, how: BreakMode) -> Result<Broken> {
    redis.break_lock(&name("a"), seen, how, "anna", "stuck").await
}

async fn list(redis: &Redis, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut from = None;
    loop {
        let page = redis.list(prefix, from).await.unwrap();
        names.extend(page.names.into_iter().map(|found| String::from(found.name)));
        match page.next {
            Some(next) => from = Some(next),
            None => return names,
        }
    }
}

#[tokio::test]
async fn a_break_passes_the_reserved_block() {
    // The counter is far ahead of the clock, so that the clock doesn't raise it.
    const AHEAD: u64 = 3_000_000_000_000_000;
    let (server, redis) = server_and_client().await;
    let mut events = events(&redis);
    for how in [BreakMode::RunOut, BreakMode::Now] {
        server.command::<()>(&["SET", "lockwright:{a}:fence", &AHEAD.to_string()]).unwrap();
        let holder = Claim { fences: 10, ..claim("a") };
        let granted = grant(&redis, &holder).await;
        assert_eq!((granted.fence.get(), granted.fences), (AHEAD + 1, 10));
        let told = broken(&redis, BreakTarget::Token(holder.token), how).await.unwrap();
        let (Broken::RunsOut(left) | Broken::Freed(left)) = told else { panic!("{told:?}") };
        assert!(left > Duration::from_secs(25), "{told:?}");
        assert_eq!(next(&mut events).await, Event::Lost(holder.token, Reason::Broken));
        assert_eq!(redis.renew(&[Renew::of(&holder)]).await.unwrap(), NOT_HELD_BROKEN);
        let seen = redis.inspect(&holder.name).await.unwrap();
        assert_eq!(seen.fence.unwrap().get(), AHEAD + 11);
        if how == BreakMode::Now {
            assert_eq!(next(&mut events).await, Event::Wake(name("a")));
            fails(redis.try_acquire(&holder).await, ErrorKind::Lost(Reason::Gone));
        } else {
            let again = grant(&redis, &holder).await;
            assert_eq!((again.fence.get(), again.fences), (AHEAD + 1, 10));
        }
        redis.release(&holder, ReleaseMode::Plain).await.unwrap();
    }
}

/// The reply to a transfer is lost, and the hold is broken before the client repeats the transfer.
#[tokio::test]
async fn repeated_transfer_does_not_extend_a_broken_hold() {
    let (_server, redis) = server_and_client().await;
    for mode in MODES {
        let [from, mut to] = [(); 2].map(|()| Claim { mode, ..claim(&format!("{mode}")) });
        grant(&redis, &from).await;
        let moved = redis.swap(from.token, &to).await.unwrap();
        assert!(matches!(moved, AcquireOutcome::Granted(_)), "{mode}: {moved:?}");
        let seen = BreakTarget::Token(to.token);
        let run_out = |by| redis.break_lock(&to.name, seen, BreakMode::RunOut, by, "stuck");
        let broken = run_out("anna").await;
        let Ok(Broken::RunsOut(left)) = broken else { panic!("{mode}: {broken:?}") };
        assert!(matches!(run_out("ben").await, Ok(Broken::RunsOut(_))), "{mode}");
        to.ttl *= 10;
        let Ok(AcquireOutcome::Granted(again)) = redis.swap(from.token, &to).await else {
            panic!("{mode}: a repeat is the same hold")
        };
        assert!(again.valid.is_some_and(|valid| valid <= left), "{mode}: {again:?}");
        let seen = redis.inspect(&to.name).await.unwrap().holders.remove(0);
        assert!(seen.remaining.is_some_and(|remaining| remaining <= left), "{mode}: {seen:?}");
        assert_eq!(seen.broken.as_deref(), Some("anna: stuck"), "{mode}: the first break");
        let moved = redis.swap(to.token, &Claim { token: Token::random(), ..to }).await.unwrap();
        assert!(matches!(moved, AcquireOutcome::Busy(_)), "{mode}: {moved:?}");
    }
}

/// A late duplicate of the acquire may arrive until the hold would have expired.
#[tokio::test]
async fn token_of_a_broken_or_transferred_hold_is_refused_for_its_ttl() {
    let (server, redis) = server_and_client().await;
    let ttl = Duration::from_secs(2 * 60 * 60);
    for (mode, moves) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let held = Claim { mode, ..claim_for(&format!("{mode} {moves}"), ttl) };
        grant(&redis, &held).await;
        if moves {
            let next = Claim { token: Token::random(), ..held.clone() };
            redis.swap(held.token, &next).await.unwrap();
            redis.release(&next, ReleaseMode::Plain).await.unwrap();
        } else {
            let seen = BreakTarget::Token(held.token);
            redis.break_lock(&held.name, seen, BreakMode::Now, "anna", "stuck").await.unwrap();
        }
        fails(redis.try_acquire(&held).await, ErrorKind::Lost(Reason::Gone));
    }
    for tombstone in server.command::<Vec<String>>(&["KEYS", "*:ended:*"]).unwrap() {
        let left: u64 = server.command(&["PTTL", &tombstone]).unwrap();
        assert!(left > 90 * 60 * 1_000, "{tombstone}: {left} ms");
    }
}

#[tokio::test]
async fn present_holder_can_be_broken_without_a_token() {
    let (server, redis) = server_and_client().await;
    let any = async |how| broken(&redis, BreakTarget::Any, how).await;
    grant(&redis, &claim("a")).await;
    assert!(matches!(any(BreakMode::RunOut).await.unwrap(), Broken::RunsOut(_)));
    assert!(matches!(any(BreakMode::Now).await.unwrap(), Broken::Freed(_)));

    // Another library's holder renews despite a break, so only `BreakMode::Now` has an effect.
    server.command::<()>(&["SET", "a", "theirs", "PX", "20000"]).unwrap();
    let seen = BreakTarget::Token(Token::random());
    assert_eq!(broken(&redis, seen, BreakMode::Now).await.unwrap(), Broken::NotHeld);
    fails(any(BreakMode::RunOut).await, ErrorKind::Conflict);
    let freed = any(BreakMode::Now).await.unwrap();
    assert!(matches!(freed, Broken::Freed(left) if left > Duration::from_secs(15)), "{freed:?}");
    assert!(!exists(&server, "a"));

    server.command::<()>(&["HSET", "a", "no", "lock"]).unwrap();
    fails(any(BreakMode::Now).await, ErrorKind::Conflict);
    assert!(exists(&server, "a"));
}

#[tokio::test]
async fn hold_without_an_expiry_does_not_run_out() {
    let (server, redis) = server_and_client().await;
    let held = claim("a");
    grant(&redis, &held).await;
    server.command::<i64>(&["PERSIST", "a"]).unwrap();
    let seen = BreakTarget::Token(held.token);
    fails(broken(&redis, seen, BreakMode::RunOut).await, ErrorKind::Conflict);
    renewed(&redis, &held).await;
}

/// Deleting the readers' marker ends their holds. The next holder's break or release must not
/// revive those.
#[tokio::test]
async fn a_break_does_not_revive_readers() {
    let (server, redis) = server_and_client().await;
    let reader = || Claim { mode: Mode::Shared, ..claim("a") };
    for (is_foreign, is_broken) in [(false, true), (true, true), (false, false)] {
        let (old, holder, waits) = (reader(), claim("a"), reader());
        grant(&redis, &old).await;
        server.command::<()>(&["DEL", "a"]).unwrap();
        if is_foreign {
            server.command::<()>(&["SET", "a", "theirs", "PX", "20000"]).unwrap();
        } else {
            grant(&redis, &holder).await;
        }
        busy(&redis, &waits, FOR_EVER).await;
        if is_broken {
            broken(&redis, BreakTarget::Any, BreakMode::Now).await.unwrap();
        } else {
            redis.release(&holder, ReleaseMode::Plain).await.unwrap();
        }
        let renewals = redis.renew(&[Renew::of(&old)]).await.unwrap();
        assert_eq!(renewals, [Renewal::not_held(Reason::Gone)]);
        let holders = redis.inspect(&name("a")).await.unwrap().holders;
        assert_eq!(holders.iter().map(|it| it.token).collect::<Vec<_>>(), [Some(waits.token)]);
        redis.release(&waits, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn a_listing_has_what_is_held_and_nothing_else() {
    let (server, redis) = server_and_client().await;
    for held in ["orders/1", "orders/2", "orders/{2}", "or}ders", "other"] {
        grant(&redis, &claim(held)).await;
    }
    let released = claim("orders/3");
    grant(&redis, &released).await;
    redis.release(&released, ReleaseMode::Reconcile).await.unwrap();
    // A listing must skip these keys: another library's lock, a deleted lock's fence, and a key
    // that isn't a fence.
    server.command::<()>(&["SET", "orders/4", "theirs"]).unwrap();
    server.command::<()>(&["DEL", "other"]).unwrap();
    server.command::<()>(&["HSET", "lockwright:{x}:fence", "field", "no fence"]).unwrap();

    assert_eq!(list(&redis, "").await, ["orders/1", "orders/2", "orders/{2}", "or}ders"]);
    assert_eq!(list(&redis, "orders/").await, ["orders/1", "orders/2", "orders/{2}"]);
    assert!(list(&redis, "nothing").await.is_empty());

    let elsewhere =
        Config::new(&server.url()).unwrap().key_prefix("shop:").connect().await.unwrap();
    assert!(list(&elsewhere, "").await.is_empty(), "another prefix is another world");
    grant(&elsewhere, &claim("mine")).await;
    assert_eq!(list(&elsewhere, "").await, ["mine"]);
}

/// `lockwright top` and `watch` list repeatedly.
#[tokio::test]
async fn listing_needs_one_command_per_name() {
    const NAMES: usize = 1_000;
    let (server, redis) = server_and_client().await;
    for number in 0..NAMES {
        grant(&redis, &claim(&number.to_string())).await;
    }
    server.command::<()>(&["CONFIG", "RESETSTAT"]).unwrap();
    assert_eq!(list(&redis, "").await.len(), NAMES);
    let mut calls = call_counts(&server);
    assert_eq!(calls.remove("pttl"), Some(1_000), "in scripts: {calls:?}");
    assert!(calls.values().sum::<u64>() <= 50, "{calls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanent_hold_is_listed_exactly_once_among_changes() {
    let (_server, redis) = server_and_client().await;
    let redis = std::sync::Arc::new(redis);
    let mut steady = BTreeSet::new();
    for i in 0..5_500 {
        let held = format!("steady {i}");
        grant(&redis, &claim_for(&held, Duration::from_secs(600))).await;
        steady.insert(held);
    }
    // The growing number of keys causes a rehash, so that `SCAN` repeats keys.
    let churning = std::sync::Arc::clone(&redis);
    let churn = tokio::spawn(async move {
        for i in 0.. {
            let passing = claim_for(&format!("passing {i}"), Duration::from_secs(5));
            grant(&churning, &passing).await;
            if i % 3 == 0 {
                churning.release(&passing, ReleaseMode::Plain).await.unwrap();
            }
        }
    });
    for _ in 0..3 {
        let listed = list(&redis, "steady ").await;
        assert_eq!(listed.len(), steady.len(), "more than a page, and none twice");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), steady);
    }
    assert!(!churn.is_finished());
    churn.abort();
}
