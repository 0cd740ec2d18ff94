use std::time::{Duration, UNIX_EPOCH};

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, DistributedLock, ErrorKind, Fence, Mode, Reason,
    ReleaseMode, Renew, Renewal, Token, Wait,
};

use crate::common::{
    FOR_EVER, MODES, QUICK, busy, claim, claim_for, connect, count_calls, eventually, exists,
    fails, fails_with, grant, not_held, released, renewed, server_and_client, token_in, until,
    weak_user,
};

#[tokio::test]
async fn the_lock_is_what_set_nx_px_makes_and_leaves() {
    let (server, redis) = server_and_client().await;
    let claim = claim("orders/42");
    let granted = grant(&redis, &claim).await;

    let value: String = server.command(&["GET", "orders/42"]).unwrap();
    let parts: Vec<&str> = value.splitn(4, ':').collect();
    let (token, identity) = (claim.token.to_string(), claim.identity.to_string());
    assert_eq!(parts, ["lw1", &token, "1", &identity]);
    let counter: u64 = server.command(&["GET", "lockwright:{orders/42}:fence"]).unwrap();
    assert_eq!(counter, granted.fence.get());
    let left: i64 = server.command(&["PTTL", "orders/42"]).unwrap();
    assert!((1..=30_000).contains(&left), "{left}");
    let busy = busy(&redis, &self::claim("orders/42"), Wait::No).await;
    let seen = busy.holder.unwrap();
    assert_eq!((seen.token, seen.fence), (Some(claim.token), Some(granted.fence)));
    assert_eq!(seen.identity.as_ref(), Some(&*claim.identity));
    assert!(busy.retry_after.unwrap() > Duration::from_secs(25));

    released(&redis, &claim, ReleaseMode::Plain).await;
    let keys: Vec<String> = server.command(&["KEYS", "*"]).unwrap();
    assert_eq!(keys, ["lockwright:{orders/42}:fence"], "only the fence stays");
    let life: i64 = server.command(&["TTL", "lockwright:{orders/42}:fence"]).unwrap();
    assert!(life >= 7 * 24 * 60 * 60, "an idle fence lives for a week or more: {life}");
    not_held(&redis, &claim, ReleaseMode::Plain).await;
}

#[tokio::test]
async fn a_batch_is_renewed_hold_by_hold() {
    let (server, redis) = server_and_client().await;
    let claims: Vec<_> = (0..10).map(|i| claim(&format!("lock {i}"))).collect();
    for claim in &claims {
        grant(&redis, claim).await;
        server.command::<()>(&["PEXPIRE", claim.name.as_str(), "9000"]).unwrap();
    }
    redis.release(&claims[3], ReleaseMode::Plain).await.unwrap();
    server.command::<()>(&["SET", "lock 5", "somebody else's"]).unwrap();
    server.command::<()>(&["DEL", "lock 7"]).unwrap();
    server.command::<()>(&["LPUSH", "lock 7", "no lock"]).unwrap();
    let batch: Vec<_> = claims.iter().map(Renew::of).collect();
    let renewals = redis.renew(&batch).await.unwrap();
    assert_eq!(renewals.len(), 10);
    for (at, renewal) in renewals.iter().enumerate() {
        if [3, 5, 7].contains(&at) {
            assert_eq!(*renewal, Renewal::not_held(Reason::Gone), "{at}");
        } else {
            assert_eq!(*renewal, Renewal::RENEWED, "{at}");
            let left: i64 = server.command(&["PTTL", claims[at].name.as_str()]).unwrap();
            assert!(left > 25_000, "{at}: {left}");
        }
    }
    assert_eq!(server.command::<String>(&["GET", "lock 5"]).unwrap(), "somebody else's");
}

#[tokio::test]
async fn a_batch_may_have_several_ttls() {
    let (server, redis) = server_and_client().await;
    let holds: Vec<_> = MODES
        .into_iter()
        .flat_map(|mode| [30, 60, 90].map(|ttl| (mode, ttl)))
        .map(|(mode, ttl)| Claim {
            mode,
            ..claim_for(&format!("{mode} {ttl}"), Duration::from_secs(ttl))
        })
        .collect();
    for held in &holds {
        grant(&redis, &Claim { ttl: QUICK, ..held.clone() }).await;
    }
    let batch: Vec<_> = holds.iter().map(Renew::of).collect();
    assert_eq!(redis.renew(&batch).await.unwrap(), vec![Renewal::RENEWED; holds.len()]);
    for held in &holds {
        let left: u64 = server.command(&["PTTL", held.name.as_str()]).unwrap();
        let ttl = held.ttl.as_millis() as u64;
        assert!((ttl - 10_000..=ttl + 2).contains(&left), "{}: {left}", held.name);
    }
}

#[tokio::test]
async fn a_counter_of_a_held_lock_is_kept_once_a_day() {
    let (server, redis) = server_and_client().await;
    // A renewal extends the counter's expiry only in a daily period, which the token's first byte
    // selects. The present period belongs to one or two of 256 bytes.
    let ttl = Duration::from_secs(24 * 60 * 60 / 256 + 10);
    let claim = |byte| {
        let mut token = *Token::random().as_bytes();
        token[0] = byte;
        let token = Token::from_bytes(token);
        Claim { token, ..claim_for(&format!("lock {byte}"), ttl) }
    };
    let claims: Vec<_> = (0..=255).map(claim).collect();
    let fence = |claim: &Claim| format!("lockwright:{{{}}}:fence", claim.name);
    for claim in &claims {
        grant(&redis, claim).await;
        server.command::<()>(&["EXPIRE", &fence(claim), "900"]).unwrap();
    }
    let batch: Vec<_> = claims.iter().map(Renew::of).collect();
    assert_eq!(redis.renew(&batch).await.unwrap(), vec![Renewal::RENEWED; 256]);
    let lives = claims.iter().map(|claim| server.command::<i64>(&["TTL", &fence(claim)]).unwrap());
    let kept = lives.filter(|life| *life >= 7 * 24 * 60 * 60).count();
    assert!((1..=2).contains(&kept), "{kept}");
}

#[tokio::test]
async fn fences_are_exact_up_to_the_largest() {
    let (server, redis) = server_and_client().await;
    // By default, Lua would format `max` as 9.007199254741e+15.
    let max = Fence::MAX.get();
    for last in [1_795_000_000_000_001, max - 1_001, max - 3] {
        server.command::<()>(&["SET", "lockwright:{a}:fence", &last.to_string()]).unwrap();
        let claim = claim("a");
        let granted = grant(&redis, &claim).await;
        let now_micros = granted.fence.get();
        assert!(now_micros > last, "{now_micros} after {last}");
        if last > 2_000_000_000_000_000 {
            assert_eq!(granted.fence.get(), last + 1);
        }
        let stored: String = server.command(&["GET", "lockwright:{a}:fence"]).unwrap();
        assert_eq!(stored, granted.fence.to_string());
        redis.release(&claim, ReleaseMode::Plain).await.unwrap();
    }
    // The last fence was max - 2, so two are left.
    let block = Claim { fences: 3, ..claim("a") };
    fails(redis.try_acquire(&block).await, ErrorKind::Conflict);
    let block = Claim { fences: 2, ..block };
    assert_eq!(grant(&redis, &block).await.fence.get(), max - 1);
    redis.release(&block, ReleaseMode::Plain).await.unwrap();
    fails_with(redis.try_acquire(&claim("a")).await, ErrorKind::Conflict, "lockwright:{a}:fence");
    for damaged in ["nan", "-5", "x", "1e300", "inf"] {
        server.command::<()>(&["SET", "lockwright:{a}:fence", damaged]).unwrap();
        for mode in MODES {
            let claim = Claim { mode, ..claim("a") };
            fails(redis.try_acquire(&claim).await, ErrorKind::Conflict);
        }
    }
    assert!(!exists(&server, "a"), "nothing was granted");
}

#[tokio::test]
async fn fences_grow_after_a_reconnect_to_older_data() {
    let (server, redis) = server_and_client().await;
    let mut last = Fence::new(0);
    let pair = async || {
        let claim = claim("a");
        let granted = eventually(|| async { redis.try_acquire(&claim).await.ok() }).await;
        let AcquireOutcome::Granted(granted) = granted else { panic!("{granted:?}") };
        released(&redis, &claim, ReleaseMode::Plain).await;
        granted.fence
    };
    // Several rounds: in one of over a second, the clock raises the fence, which proves nothing.
    for _ in 0..5 {
        for _ in 0..3 {
            let fence = pair().await;
            assert!(fence > last, "{fence} after {last}");
            last = fence;
        }
        // Simulate a restart that lost the last grants.
        let older = (last.get() - 2).to_string();
        server.command::<()>(&["SET", "lockwright:{a}:fence", &older]).unwrap();
        let killed = ["normal", "pubsub"].map(|kind| {
            server.command::<i64>(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]).unwrap()
        });
        assert!(killed.iter().sum::<i64>() >= 1);
    }
    let fence = pair().await;
    assert!(fence > last, "{fence} after {last}");
}

/// A loss of writes leaves an old counter.
#[tokio::test]
async fn fence_passes_the_time_despite_an_old_counter() {
    let (server, redis) = server_and_client().await;
    let old = || server.command::<()>(&["SET", "lockwright:{a}:fence", "5"]).unwrap();
    let (seconds, _) = server.command::<(u64, u64)>(&["TIME"]).unwrap();
    let least = Fence::new(seconds * 1_000_000);
    for mode in MODES {
        let held = Claim { mode, fences: 2, ..claim("a") };
        old();
        assert!(grant(&redis, &held).await.fence > least, "{mode}");
        old();
        let next = Claim { token: Token::random(), ..held.clone() };
        let Ok(AcquireOutcome::Granted(moved)) = redis.swap(held.token, &next).await else {
            panic!("{mode}: not transferred");
        };
        assert!(moved.fence > least, "{mode}");
        released(&redis, &next, ReleaseMode::Plain).await;
    }
}

#[tokio::test]
async fn counter_lives_as_long_as_it_is_needed() {
    const WEEK: i64 = 7 * 24 * 60 * 60 * 1000;
    const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    let (server, redis) = server_and_client().await;
    let left = |name: &str| -> i64 {
        server.command(&["PTTL", &format!("lockwright:{{{name}}}:fence")]).unwrap()
    };
    // The counter below must last until the clock reaches it, in about 100 years.
    const CENTURY: i64 = 100 * 52 * WEEK;
    // The fast path serves only TTLs of up to a day.
    for (name, ttl) in [("a", MONTH / 300), ("e", MONTH)] {
        let key = format!("lockwright:{{{name}}}:fence");
        server.command::<()>(&["SET", &key, "5000000000000000", "PX", "60000"]).unwrap();
        grant(&redis, &claim_for(name, ttl)).await;
        assert!(left(name) > CENTURY, "{}", left(name));
    }

    let long = claim_for("b", MONTH);
    redis.release(&long, ReleaseMode::Reconcile).await.unwrap();
    grant(&redis, &claim("b")).await;
    assert!(left("b") > MONTH.as_millis() as i64, "as its tombstone: {}", left("b"));

    grant(&redis, &claim_for("c", MONTH)).await;
    let newcomer = connect(&server.url()).await;
    busy(&newcomer, &claim("c"), FOR_EVER).await;
    assert!(left("c") > MONTH.as_millis() as i64, "as the hold: {}", left("c"));

    let mut repeated = claim("d");
    grant(&redis, &repeated).await;
    repeated.ttl = MONTH;
    grant(&redis, &repeated).await;
    assert!(left("d") > MONTH.as_millis() as i64, "as the repeated claim: {}", left("d"));

    for ttl in [QUICK, MONTH] {
        grant(&redis, &Claim { mode: Mode::Shared, ..claim_for("f", ttl) }).await;
    }
    assert!(left("f") > MONTH.as_millis() as i64, "as the last reader: {}", left("f"));

    let reader = |ttl| Claim { mode: Mode::Shared, ..claim_for("g", ttl) };
    let (short, long) = (reader(QUICK), reader(MONTH));
    grant(&redis, &short).await;
    redis.swap(short.token, &long).await.unwrap();
    assert!(left("g") > MONTH.as_millis() as i64, "as the moved reader: {}", left("g"));
}

#[tokio::test]
async fn a_denied_grant_counts_no_fence() {
    let (server, _redis) = server_and_client().await;
    for missing in ["-set", "-time"] {
        let weak = connect(&weak_user(&server, missing)).await;
        fails(weak.try_acquire(&claim("a")).await, ErrorKind::Denied);
        assert_eq!(server.command::<i64>(&["DBSIZE"]).unwrap(), 0, "{missing}");
    }
}

/// The counter has a mark, so the script must undo its `SET` without `DEL`, which is denied.
#[tokio::test]
async fn a_refused_acquire_leaves_no_hold_without_the_permission_to_delete() {
    let (server, redis) = server_and_client().await;
    let ended = claim("a");
    redis.release(&ended, ReleaseMode::Reconcile).await.unwrap();
    let weak = connect(&weak_user(&server, "-del")).await;
    fails(weak.try_acquire(&ended).await, ErrorKind::Denied);
    until(|| !exists(&server, "a")).await;
    grant(&redis, &claim("a")).await;
}

/// With its mark, the counter `42` is as long as a usual one without a mark. The release must find
/// the mark.
#[tokio::test]
async fn release_with_a_short_counter_serves_the_waiter() {
    let (server, redis) = server_and_client().await;
    let (holder, waiter) = (claim("a"), claim("a"));
    grant(&redis, &holder).await;
    server.command::<()>(&["SET", "lockwright:{a}:fence", "42"]).unwrap();
    let other = connect(&server.url()).await;
    busy(&other, &waiter, FOR_EVER).await;
    released(&redis, &holder, ReleaseMode::Plain).await;
    let value: String = server.command(&["GET", "a"]).unwrap();
    assert_eq!(token_in(&value), waiter.token.to_string(), "the lock is offered");
}

#[tokio::test]
async fn counter_far_ahead_of_the_clock_is_counted_once() {
    const FAR: u64 = 9_000_000_000_000_000;
    let (server, _redis) = server_and_client().await;
    for missing in ["-pttl", "-pexpire", "+get"] {
        let counter = ["SET", "lockwright:{a}:fence", &FAR.to_string(), "EX", "60"];
        server.command::<()>(&counter).unwrap();
        let weak = connect(&weak_user(&server, missing)).await;
        assert_eq!(grant(&weak, &claim("a")).await.fence.get(), FAR + 1, "{missing}");
        server.command::<()>(&["FLUSHALL"]).unwrap();
    }
}

#[tokio::test]
async fn a_released_token_with_a_tombstone_does_not_come_back() {
    let (server, redis) = server_and_client().await;
    for (ttl, life) in [(30, 3_600), (86_400, 86_400)] {
        let claim = claim_for("a", Duration::from_secs(ttl));
        not_held(&redis, &claim, ReleaseMode::Reconcile).await;
        fails(redis.try_acquire(&claim).await, ErrorKind::Lost(Reason::Gone));
        assert!(!exists(&server, "a"));
        let tombstone = format!("lockwright:{{a}}:ended:{}", claim.token);
        let left: i64 = server.command(&["TTL", &tombstone]).unwrap();
        assert!((life - 10..=life).contains(&left), "{left}");
    }
}

/// The counter's mark makes fast requests find the tombstone, so no request may shorten the mark.
#[tokio::test]
async fn mark_lasts_as_long_as_the_tombstone() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let (server, redis) = server_and_client().await;
    let ended = claim_for("a", DAY);
    redis.release(&ended, ReleaseMode::Reconcile).await.unwrap();
    for mode in MODES {
        let (held, waits) = (Claim { mode, ..claim("a") }, claim("a"));
        let next = Claim { token: Token::random(), ..held.clone() };
        grant(&redis, &held).await;
        if !matches!(mode, Mode::Permits { .. }) {
            busy(&redis, &waits, FOR_EVER).await;
        }
        redis.swap(held.token, &next).await.unwrap();
        let seen = BreakTarget::Token(next.token);
        for how in [BreakMode::RunOut, BreakMode::Now] {
            redis.break_lock(&next.name, seen, how, "anna", "stuck").await.unwrap();
        }
        redis.release(&waits, ReleaseMode::Plain).await.unwrap();
        let counter: String = server.command(&["GET", "lockwright:{a}:fence"]).unwrap();
        let mark = Duration::from_millis(counter.split(' ').nth(1).unwrap().parse().unwrap());
        assert!(mark > UNIX_EPOCH.elapsed().unwrap() + DAY, "{mode}: {counter}");
    }
}

/// With a mark that ends before the wait, a fast request would overtake the waiter.
#[tokio::test]
async fn waiter_prolongs_a_mark_that_ends_soon() {
    let (server, redis) = server_and_client().await;
    grant(&redis, &claim("a")).await;
    let now = UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let counter = format!("5 {}", now + 1_000);
    server.command::<()>(&["SET", "lockwright:{a}:fence", &counter]).unwrap();
    busy(&redis, &claim("a"), FOR_EVER).await;
    let counter: String = server.command(&["GET", "lockwright:{a}:fence"]).unwrap();
    let mark: u64 = counter.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(mark > now + 10_000, "{counter}");
}

#[tokio::test]
async fn a_key_of_another_type_is_a_conflict_and_stays_as_it_is() {
    let (server, redis) = server_and_client().await;
    server.command::<()>(&["HSET", "a", "field", "value"]).unwrap();
    let claim = claim("a");
    let refused = redis.try_acquire(&claim).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(refused.name(), Some(&claim.name));
    assert_eq!(redis.inspect(&claim.name).await.unwrap_err().kind(), ErrorKind::Conflict);
    not_held(&redis, &claim, ReleaseMode::Plain).await;
    assert_eq!(server.command::<String>(&["HGET", "a", "field"]).unwrap(), "value");
    assert!(!exists(&server, "lockwright:{a}:fence"), "no fence was counted for it");
    server.command::<()>(&["SET", "lockwright:{a}:fence", "7"]).unwrap();
    fails(redis.try_acquire(&claim).await, ErrorKind::Conflict);
    assert_eq!(server.command::<u64>(&["GET", "lockwright:{a}:fence"]).unwrap(), 7);
}

#[tokio::test]
async fn a_foreign_holder_keeps_us_out_and_counts_no_fence() {
    let (server, redis) = server_and_client().await;
    // redis-py's tokens look like Lockwright's, but must not be reported.
    let theirs = "0123456789abcdef0123456789abcdef";
    server.command::<()>(&["SET", "a", theirs, "NX", "PX", "20000"]).unwrap();
    let claim = claim("a");
    let busy = busy(&redis, &claim, Wait::No).await;
    let holder = busy.holder.unwrap();
    assert_eq!(holder.token, None);
    assert!(holder.remaining.unwrap() > Duration::from_secs(15));
    let poll = busy.retry_after.unwrap();
    assert!((50..=500).contains(&poll.as_millis()), "{poll:?}");
    assert!(!exists(&server, "lockwright:{a}:fence"));
    not_held(&redis, &claim, ReleaseMode::Reconcile).await;
    assert_eq!(server.command::<String>(&["GET", "a"]).unwrap(), theirs);
}

#[tokio::test]
async fn scripts_are_sent_again_after_the_server_forgot_them() {
    let (server, redis) = server_and_client().await;
    let claim = claim("a");
    for _ in 0..2 {
        server.command::<()>(&["SCRIPT", "FLUSH"]).unwrap();
        grant(&redis, &claim).await;
        server.command::<()>(&["SCRIPT", "FLUSH"]).unwrap();
        renewed(&redis, &claim).await;
        server.command::<()>(&["SCRIPT", "FLUSH"]).unwrap();
        released(&redis, &claim, ReleaseMode::Plain).await;
    }
    grant(&redis, &claim).await;
    server.command::<()>(&["CONFIG", "RESETSTAT"]).unwrap();
    grant(&redis, &self::claim("b")).await;
    assert!(count_calls(&server, &["evalsha"]) > 0);
    assert_eq!(count_calls(&server, &["eval"]), 0);
}

#[tokio::test]
async fn hold_is_not_transferred_to_another_mode() {
    let (_server, redis) = server_and_client().await;
    let modes = MODES.into_iter().chain([Mode::Permits { count: 2, of: 2 }]);
    for (mode, other) in
        modes.clone().flat_map(|mode| modes.clone().map(move |other| (mode, other)))
    {
        let held = Claim { mode, ..claim(&format!("{mode} {other}")) };
        let to = Claim { mode: other, token: Token::random(), ..held.clone() };
        grant(&redis, &held).await;
        let is_moved =
            matches!(redis.swap(held.token, &to).await.unwrap(), AcquireOutcome::Granted(_));
        assert_eq!(is_moved, mode == other, "{mode} to {other}");
    }
}

#[tokio::test]
async fn hold_is_not_transferred_to_an_ended_token() {
    let (_server, redis) = server_and_client().await;
    for mode in MODES {
        let held = Claim { mode, ..claim(&format!("{mode}")) };
        let ended = Claim { token: Token::random(), ..held.clone() };
        grant(&redis, &held).await;
        not_held(&redis, &ended, ReleaseMode::Reconcile).await;
        fails(redis.swap(held.token, &ended).await, ErrorKind::Lost(Reason::Gone));
        renewed(&redis, &held).await;
    }
}

#[tokio::test]
async fn a_transferred_hold_has_one_fence() {
    let (_server, redis) = server_and_client().await;
    for mode in MODES {
        let from = Claim { mode, ..claim(&format!("{mode}")) };
        let to = Claim { token: Token::random(), fences: 3, ..from.clone() };
        let before = grant(&redis, &from).await.fence;
        let AcquireOutcome::Granted(granted) = redis.swap(from.token, &to).await.unwrap() else {
            panic!("not transferred");
        };
        // Readers share a fence.
        assert_eq!(granted.fence > before, mode != Mode::Shared, "{mode}: {granted:?}");
        let again = grant(&redis, &to).await;
        assert_eq!((granted.fences, granted.fence), (1, again.fence));
    }
}
