use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, Clock, DistributedLock, ErrorKind, Event, Mode,
    ReleaseMode, ReleaseOutcome, Renew, RenewalMode, RenewalOutcome, Token, Wait,
};
use lockwright_testbed as testbed;

use crate::acl;
use crate::common::{
    FOR_EVER, busy, claim, claim_for, connect, count_calls, events, eventually, exists, fails,
    grant, granted_soon, handed, name, next, released, renewed, server_and_client, token_in, until,
    user,
};

const OFFER: Duration = Duration::from_secs(2);

fn subscribed(server: &testbed::Redis) -> usize {
    let clients: String = server.command(&["CLIENT", "LIST", "TYPE", "PUBSUB"]).unwrap();
    clients.lines().count()
}

#[tokio::test]
async fn a_hold_that_is_handed_over_ends_no_later_than_the_server_says() {
    let (server, holder) = server_and_client().await;
    let waiter = connect(&server.url()).await;
    let (held, waits) = (claim("a"), claim("a"));
    let before = grant(&holder, &held).await;
    let mut told = events(&waiter);
    let queued = Clock::boot().now();
    assert!(busy(&waiter, &waits, FOR_EVER).await.queued);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let released = Clock::boot().now();
    holder.release(&held, ReleaseMode::Plain).await.unwrap();
    let (token, granted) = handed(&mut told).await;
    assert_eq!(token, waits.token);
    assert!(granted.fence > before.fence, "{} after {}", granted.fence, before.fence);
    let (start, life) = (granted.start.unwrap(), granted.valid.unwrap());
    assert_eq!(life, OFFER);
    assert!(start >= queued, "it was told to have begun before it was asked for");
    // The hold begins with the offer, not when the claim was queued.
    assert!(start + Duration::from_millis(100) >= released);
    let value: String = server.command(&["GET", "a"]).unwrap();
    assert_eq!(token_in(&value), token.to_string());
    while exists(&server, "a") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let ended = Clock::boot().now();
    assert!(start + life <= ended, "it ended {:?} early", (start + life).saturating_since(ended));
}

#[tokio::test]
async fn an_offer_is_confirmed_by_a_renewal_or_by_asking_again() {
    let (server, redis) = server_and_client().await;
    let mut told = events(&redis);
    let (held, renews, asks) = (claim("a"), claim("a"), claim("a"));
    grant(&redis, &held).await;
    busy(&redis, &renews, FOR_EVER).await;
    busy(&redis, &asks, FOR_EVER).await;
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(handed(&mut told).await.0, renews.token);
    let left = || server.command::<i64>(&["PTTL", "a"]).unwrap();
    assert!(left() <= 2_000);
    let renewed = redis.renew(&[Renew::of(&renews)]).await;
    assert!(matches!(renewed.unwrap()[0].outcome, RenewalOutcome::Renewed { .. }));
    assert!(left() > 20_000);
    redis.release(&renews, ReleaseMode::Plain).await.unwrap();
    let (token, offered) = handed(&mut told).await;
    assert_eq!(token, asks.token);
    let again = grant(&redis, &asks).await;
    assert_eq!((again.fence, again.valid), (offered.fence, None));
    assert!(left() > 20_000);
    redis.release(&asks, ReleaseMode::Plain).await.unwrap();
    let keys: Vec<String> = server.command(&["KEYS", "*"]).unwrap();
    assert_eq!(keys, ["lockwright:{a}:fence"]);
}

#[tokio::test]
async fn an_offer_has_at_most_the_ttl_and_all_fences() {
    let (server, redis) = server_and_client().await;
    let mut told = events(&redis);
    // Only a claim of one fence is served without the full script.
    for fences in [1, 3] {
        let (held, waits) = (claim("a"), Claim { fences, ..claim_for("a", OFFER / 4) });
        grant(&redis, &held).await;
        busy(&redis, &waits, FOR_EVER).await;
        redis.release(&held, ReleaseMode::Plain).await.unwrap();
        assert!(server.command::<u64>(&["PTTL", "a"]).unwrap() <= 500, "{fences}");
        let (_, granted) = handed(&mut told).await;
        let counter: String = server.command(&["GET", "lockwright:{a}:fence"]).unwrap();
        let last = granted.fence.get() + u64::from(fences) - 1;
        assert_eq!(counter.split(' ').next(), Some(&*last.to_string()));
        redis.release(&waits, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_offered_with_a_damaged_counter() {
    let (server, redis) = server_and_client().await;
    let (held, waits) = (claim("a"), claim("a"));
    grant(&redis, &held).await;
    busy(&redis, &waits, FOR_EVER).await;
    server.command::<()>(&["SET", "lockwright:{a}:fence", "x"]).unwrap();
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    assert!(!exists(&server, "a"));
    fails(redis.acquire(&waits, FOR_EVER).await, ErrorKind::Conflict);
}

#[tokio::test]
async fn waiter_leaves_and_a_key_of_another_type_stays() {
    let (server, redis) = server_and_client().await;
    let (held, leaves, stays) = (claim("a"), claim("a"), claim("a"));
    grant(&redis, &held).await;
    for waits in [&leaves, &stays] {
        busy(&redis, waits, FOR_EVER).await;
    }
    server.command::<()>(&["DEL", "a"]).unwrap();
    server.command::<()>(&["HSET", "a", "field", "value"]).unwrap();
    released(&redis, &leaves, ReleaseMode::Plain).await;
    assert_eq!(server.command::<String>(&["HGET", "a", "field"]).unwrap(), "value");
}

#[tokio::test]
async fn waiters_keep_the_kind_of_a_name_while_they_live() {
    let (server, redis) = server_and_client().await;
    let permits = Claim { mode: Mode::Permits { count: 1, of: 2 }, ..claim("a") };
    let (held, waits) = (claim("a"), claim("a"));
    grant(&redis, &held).await;
    busy(&redis, &waits, FOR_EVER).await;
    fails(redis.acquire(&permits, FOR_EVER).await, ErrorKind::Conflict);
    server.command::<()>(&["DEL", "a"]).unwrap();
    fails(redis.acquire(&permits, FOR_EVER).await, ErrorKind::Conflict);
    let token = waits.token.to_string();
    let expired = format!("1 1 1 x 30000 {token} lw1:{token}:1:null");
    server.command::<i64>(&["HSET", "lockwright:{a}:meta", &token, &expired]).unwrap();
    grant(&redis, &permits).await;
}

#[tokio::test]
async fn an_offer_is_looked_after_beyond_the_runtime_of_the_release() {
    let (server, holder) = server_and_client().await;
    let holder = Arc::new(holder);
    let waiter = connect(&server.url()).await;
    let mut told = events(&waiter);
    // The first round's task, which expires offers, must not disturb the second round.
    for _ in 0..2 {
        let held = claim("a");
        grant(&holder, &held).await;
        let waiting = [claim("a"), claim("a")];
        for claim in &waiting {
            busy(&waiter, claim, FOR_EVER).await;
        }
        let (releasing, released) = (Arc::clone(&holder), held.clone());
        let release = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let ended = runtime.unwrap().block_on(releasing.release(&released, ReleaseMode::Plain));
            ended.unwrap()
        };
        assert_eq!(tokio::task::spawn_blocking(release).await.unwrap(), ReleaseOutcome::Released);
        for claim in &waiting {
            assert_eq!(handed(&mut told).await.0, claim.token);
        }
        waiter.release(&waiting[1], ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn a_ttl_is_sent_rounded_up() {
    let (server, redis) = server_and_client().await;
    grant(&redis, &claim("a")).await;
    let waits = claim_for("a", Duration::from_nanos(30_000_000_001));
    busy(&redis, &waits, FOR_EVER).await;
    let token = waits.token.to_string();
    let record: String = server.command(&["HGET", "lockwright:{a}:meta", &token]).unwrap();
    assert_eq!(record.split(' ').nth(4), Some("30001"), "{record}");
}

#[tokio::test]
async fn a_waiter_that_has_gone_is_passed_over_at_once() {
    for (mode, holders) in [(Mode::Exclusive, 1), (Mode::Permits { count: 1, of: 2 }, 2)] {
        let (server, holder) = server_and_client().await;
        let (gone, waiter) = (connect(&server.url()).await, connect(&server.url()).await);
        let mut told = events(&waiter);
        let [held, waits] = [(); 2].map(|()| Claim { mode, ..claim("a") });
        grant(&holder, &held).await;
        for _ in 1..holders {
            grant(&holder, &Claim { mode, ..claim("a") }).await;
        }
        for _ in 0..3 {
            busy(&gone, &Claim { mode, ..claim("a") }, FOR_EVER).await;
        }
        busy(&waiter, &waits, FOR_EVER).await;
        drop(gone);
        eventually(|| async { (subscribed(&server) == 2).then_some(()) }).await;
        holder.release(&held, ReleaseMode::Plain).await.unwrap();
        let seen = holder.inspect(&waits.name).await.unwrap().holders;
        assert_eq!(seen.len(), holders, "{mode}: {seen:?}");
        assert!(seen.iter().any(|holder| holder.token == Some(waits.token)), "{mode}: {seen:?}");
        assert_eq!(handed(&mut told).await.0, waits.token);
        assert_eq!(server.command::<i64>(&["EXISTS", "lockwright:{a}:queue"]).unwrap(), 0);
    }
}

#[tokio::test]
async fn a_writer_that_has_gone_keeps_no_readers_out() {
    let (server, redis) = server_and_client().await;
    let writer = connect(&server.url()).await;
    let mut told = events(&writer);
    for (mode, waits_as) in [
        (Mode::Shared, Mode::Exclusive),
        (Mode::Permits { count: 1, of: 3 }, Mode::Permits { count: 3, of: 3 }),
    ] {
        let of = |mode: Mode| Claim { mode, ..claim(&format!("{mode}")) };
        grant(&redis, &of(mode)).await;
        let waits = Claim { mode: waits_as, ..of(mode) };
        assert!(busy(&writer, &waits, FOR_EVER).await.queued);
        for _ in 0..3 {
            busy(&redis, &of(mode), Wait::No).await;
        }
        assert_eq!(redis.inspect(&waits.name).await.unwrap().waiters, Some(1));
    }
    assert_eq!(told.try_recv().ok(), None, "and hears of nothing");
    drop(writer);
    eventually(|| async { (subscribed(&server) == 1).then_some(()) }).await;
    for mode in [Mode::Shared, Mode::Permits { count: 1, of: 3 }] {
        grant(&redis, &Claim { mode, ..claim(&format!("{mode}")) }).await;
    }
}

#[tokio::test]
async fn waiters_are_not_overtaken() {
    let (server, redis) = server_and_client().await;
    let newcomer = connect(&server.url()).await;
    let mut told = events(&redis);
    let (held, first, second) =
        (claim_for("a", Duration::from_millis(300)), claim("a"), claim("a"));
    grant(&redis, &held).await;
    busy(&redis, &first, FOR_EVER).await;
    busy(&redis, &second, FOR_EVER).await;
    until(|| !exists(&server, "a")).await;
    assert!(!busy(&newcomer, &claim("a"), Wait::No).await.queued);
    assert_eq!(handed(&mut told).await.0, first.token);
    redis.release(&first, ReleaseMode::Plain).await.unwrap();
    busy(&newcomer, &claim("a"), Wait::No).await;
    assert_eq!(handed(&mut told).await.0, second.token);
    let (third, held) = (claim("a"), second);
    busy(&redis, &third, FOR_EVER).await;
    server.command::<()>(&["DEL", "a"]).unwrap();
    assert!(grant(&redis, &third).await.valid.is_none());
    assert!(told.try_recv().is_err());
    redis.release(&third, ReleaseMode::Plain).await.unwrap();
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
}

#[tokio::test]
async fn dead_waiters_of_a_held_lock_are_removed() {
    let (server, redis) = server_and_client().await;
    let mut told = events(&redis);
    let held = claim_for("a", Duration::from_secs(600));
    grant(&redis, &held).await;
    let mut live = vec![claim("a")];
    busy(&redis, &live[0], FOR_EVER).await;
    for _ in 0..900 {
        busy(&redis, &claim("a"), Wait::Until(Clock::boot().now())).await;
    }
    eventually(|| async {
        busy(&redis, &live[0], FOR_EVER).await;
        (redis.inspect(&name("a")).await.unwrap().waiters == Some(1)).then_some(())
    })
    .await;
    for _ in 0..200 {
        let waits = claim("a");
        busy(&redis, &waits, FOR_EVER).await;
        live.push(waits);
    }
    for command in [["LLEN", "lockwright:{a}:queue"], ["HLEN", "lockwright:{a}:meta"]] {
        let left = server.command::<usize>(&command).unwrap();
        assert!(left < 2 * live.len(), "{command:?}: {left}");
    }
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    for waits in &live {
        assert_eq!(handed(&mut told).await.0, waits.token);
        redis.release(waits, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn a_script_examines_a_limited_number_of_dead_waiters() {
    let (server, redis) = server_and_client().await;
    let (held, waits) = (claim("a"), claim("a"));
    grant(&redis, &held).await;
    busy(&redis, &waits, FOR_EVER).await;
    // Tokens without a record count as expired, but only the first 1,000 are examined.
    let dead = (0..1_500).map(|_| Token::random().to_string()).collect::<Vec<_>>();
    let mut push = vec!["LPUSH", "lockwright:{a}:queue"];
    push.extend(dead.iter().map(String::as_str));
    server.command::<i64>(&push).unwrap();
    assert_eq!(redis.inspect(&name("a")).await.unwrap().waiters, Some(501));
    let mut told = events(&redis);
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(next(&mut told).await, Event::Wake(name("a")), "the waiters go on");
    granted_soon(&redis, &waits, FOR_EVER).await;
}

#[tokio::test]
async fn release_counts_the_permits_once() {
    // Fewer permits become free than the 64 offers that a script makes at most.
    const OF: u32 = 160;
    let (server, redis) = server_and_client().await;
    let permits = |count| Claim { mode: Mode::Permits { count, of: OF }, ..claim("a") };
    for _ in 0..100 {
        grant(&redis, &permits(1)).await;
    }
    let many = permits(OF - 100);
    grant(&redis, &many).await;
    let waiting: Vec<_> = (0..OF - 99).map(|_| permits(1)).collect();
    for waits in &waiting {
        busy(&redis, waits, FOR_EVER).await;
    }
    let reads = || count_calls(&server, &["hget", "hmget"]);
    let before = reads();
    redis.release(&many, ReleaseMode::Plain).await.unwrap();
    let read = reads() - before;
    assert!(read < 100, "{read} reads of records for {} offers", OF - 100);
    let (last, offered) = waiting.split_last().unwrap();
    for waits in offered {
        grant(&redis, waits).await;
    }
    busy(&redis, last, FOR_EVER).await;
}

#[tokio::test]
async fn a_place_outlives_the_limit_a_little() {
    let (server, redis) = server_and_client().await;
    let held = claim("a");
    grant(&redis, &held).await;
    let (waits, limit) = (claim("a"), Duration::from_millis(200));
    busy(&redis, &waits, FOR_EVER).await;
    let (seconds, micros) = server.command::<(u64, u64)>(&["TIME"]).unwrap();
    let short = Wait::Until(Clock::boot().now() + limit);
    assert!(busy(&redis, &waits, short).await.queued);
    let token = waits.token.to_string();
    let record: String = server.command(&["HGET", "lockwright:{a}:meta", &token]).unwrap();
    let [asked_at, patience] = [0, 1].map(|at| record.split(' ').nth(at).unwrap().parse().unwrap());
    let live = Duration::from_micros(asked_at) + Duration::from_millis(patience);
    let asked = Duration::from_secs(seconds) + Duration::from_micros(micros);
    // Subtract one millisecond for rounding, and one because `least` mixes the server's clock and
    // the client's.
    let least = asked + limit + OFFER - Duration::from_millis(2);
    assert!(live >= least, "{live:?} is before {least:?}");
    let waiters = async || redis.inspect(&name("a")).await.unwrap().waiters;
    assert_eq!(waiters().await, Some(1));
    assert!(server.command::<i64>(&["PTTL", "lockwright:{a}:queue"]).unwrap() > 0);
    eventually(async || (waiters().await == Some(0)).then_some(())).await;
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    assert!(!exists(&server, "a"), "offered to nobody");
}

#[tokio::test]
async fn unrenewed_position_is_requested_again() {
    let (_server, redis) = server_and_client().await;
    let mut told = events(&redis);
    let (held, fixed) = (claim("a"), Claim { renewal_mode: RenewalMode::Off, ..claim("a") });
    grant(&redis, &held).await;
    busy(&redis, &fixed, FOR_EVER).await;
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    let (token, granted) = handed(&mut told).await;
    assert_eq!((token, granted.valid), (fixed.token, Some(Duration::ZERO)), "its client asks");
    assert_eq!(grant(&redis, &fixed).await.valid, None);
}

#[tokio::test]
async fn strangers_stay_out_while_readers_hold() {
    let (server, redis) = server_and_client().await;
    let set = || {
        let set = ["SET", "a", "stranger", "NX", "PX", "60000"];
        server.command::<Option<String>>(&set).unwrap()
    };
    for mode in [Mode::Shared, Mode::Permits { count: 1, of: 3 }] {
        let one = Claim { mode, ..claim("a") };
        let two = Claim { mode, ..claim_for("a", Duration::from_secs(300)) };
        grant(&redis, &one).await;
        grant(&redis, &two).await;
        assert_eq!(set(), None);
        // The lock's key lasts as long as the remaining hold.
        redis.release(&two, ReleaseMode::Plain).await.unwrap();
        assert!(server.command::<i64>(&["PTTL", "a"]).unwrap() <= 30_002);
        redis.release(&one, ReleaseMode::Plain).await.unwrap();
        let keys: Vec<String> = server.command(&["KEYS", "*"]).unwrap();
        assert_eq!(keys, ["lockwright:{a}:fence"]);
        assert_eq!(set().as_deref(), Some("OK"));
        let refused = redis.try_acquire(&one).await;
        if mode == Mode::Shared {
            assert!(matches!(refused, Ok(AcquireOutcome::Busy(_))), "{refused:?}");
        } else {
            fails(refused, ErrorKind::Conflict);
        }
        server.command::<()>(&["DEL", "a"]).unwrap();
    }
}

/// Shifts the readers' stored expiry times, as a slot's move to a server with another clock does.
#[tokio::test]
async fn readers_keep_their_time_where_the_clock_is_another() {
    let (server, redis) = server_and_client().await;
    for ahead in [3_600_000.0, -3_600_000.0] {
        let reader = |ttl| Claim { mode: Mode::Shared, ..claim_for("a", ttl) };
        let (one, dies) = (reader(Duration::from_secs(30)), reader(Duration::from_secs(3)));
        for holder in [&one, &dies] {
            grant(&redis, holder).await;
        }
        for holder in [&one, &dies] {
            let (by, token) = (f64::to_string(&-ahead), holder.token.to_string());
            let shift = ["ZINCRBY", "lockwright:{a}:holders", &by, &token];
            server.command::<f64>(&shift).unwrap();
        }
        busy(&redis, &claim("a"), Wait::No).await;
        renewed(&redis, &one).await;
        grant(&redis, &reader(Duration::from_secs(1))).await;
        for holder in redis.inspect(&name("a")).await.unwrap().holders {
            assert!(holder.remaining.unwrap() <= Duration::from_secs(31), "{holder:?}");
        }
        // A broken hold's repeated claim gets no more than the time left.
        let seen = BreakTarget::Token(one.token);
        redis.break_lock(&one.name, seen, BreakMode::RunOut, "anna", "stuck").await.unwrap();
        let left = grant(&redis, &one).await.valid.unwrap();
        assert!(left > Duration::from_secs(9) && left <= Duration::from_secs(31), "{left:?}");
        // The remaining readers block a writer until their TTLs end.
        redis.release(&one, ReleaseMode::Plain).await.unwrap();
        let begun = Instant::now();
        let writer = claim("a");
        granted_soon(&redis, &writer, Wait::No).await;
        assert!(begun.elapsed() < Duration::from_secs(20), "late: {:?}", begun.elapsed());
        redis.release(&writer, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn readers_whose_marker_was_deleted_do_not_hold() {
    let (server, redis) = server_and_client().await;
    let reader = Claim { mode: Mode::Shared, ..claim("a") };
    grant(&redis, &reader).await;
    server.command::<()>(&["DEL", "a"]).unwrap();
    let renewed = redis.renew(&[Renew::of(&reader)]).await;
    assert!(matches!(renewed.unwrap()[0].outcome, RenewalOutcome::NotHeld(_)));
    let writer = claim("a");
    grant(&redis, &writer).await;
    redis.release(&writer, ReleaseMode::Plain).await.unwrap();
    grant(&redis, &Claim { mode: Mode::Shared, ..claim("a") }).await;
    assert_eq!(redis.inspect(&name("a")).await.unwrap().holders.len(), 1);
}

/// While a waiter keeps `meta` from expiring, dead readers' records must be deleted from it.
#[tokio::test]
async fn nothing_is_left_of_readers_that_died() {
    let (server, redis) = server_and_client().await;
    let meta = "lockwright:{a}:meta";
    let records = || server.command::<Vec<String>>(&["HKEYS", meta]).unwrap();
    let dies = Claim { mode: Mode::Shared, ..claim_for("a", Duration::from_secs(1)) };
    grant(&redis, &dies).await;
    let (held, waits) = (claim("a"), claim("a"));
    busy(&redis, &held, FOR_EVER).await;
    busy(&redis, &waits, FOR_EVER).await;
    until(|| !exists(&server, "a")).await;
    granted_soon(&redis, &held, FOR_EVER).await;
    assert_eq!(records(), [waits.token.to_string()]);
    redis.release(&waits, ReleaseMode::Plain).await.unwrap();
    // The first waiter of an exclusive lock deletes all old records.
    server.command::<i64>(&["HSET", meta, &dies.token.to_string(), "s 1 1 host:1"]).unwrap();
    busy(&redis, &waits, FOR_EVER).await;
    assert_eq!(records(), [waits.token.to_string()]);
    redis.release(&waits, ReleaseMode::Plain).await.unwrap();
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    let lives = Claim { mode: Mode::Shared, ..claim("a") };
    grant(&redis, &lives).await;
    busy(&redis, &waits, FOR_EVER).await;
    assert_eq!(records().len(), 2);
    assert_eq!(redis.inspect(&name("a")).await.unwrap().holders.len(), 1);
}

#[tokio::test]
async fn waiter_without_notifications_keeps_its_place() {
    let (server, _) = server_and_client().await;
    let rules = acl::rules().replace("~orders/*", "~a").replace(" +publish", "");
    let redis = connect(&user(&server, "quiet", "x", &rules)).await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        let held = claim("a");
        let [first, second, third] = [(); 3].map(|()| Claim { mode, ..claim("a") });
        grant(&redis, &held).await;
        for waits in [&first, &second, &third] {
            busy(&redis, waits, FOR_EVER).await;
        }
        redis.release(&held, ReleaseMode::Plain).await.unwrap();
        assert!(!exists(&server, "a"), "{mode}: offered, and nobody was told");
        for waits in [&third, &second] {
            busy(&redis, waits, FOR_EVER).await;
        }
        for waits in [&first, &second, &third] {
            grant(&redis, waits).await;
            redis.release(waits, ReleaseMode::Plain).await.unwrap();
        }
    }
}

/// The smaller size of a waiter that has gone must not become the count of a holder without a record.
#[tokio::test]
async fn holder_without_a_record_has_all_permits_of_any_size() {
    let (server, redis) = server_and_client().await;
    let permits = |count, of| Claim { mode: Mode::Permits { count, of }, ..claim("a") };
    grant(&redis, &permits(12, 12)).await;
    server.command::<i64>(&["DEL", "lockwright:{a}:meta"]).unwrap();
    let gone = connect(&server.url()).await;
    busy(&gone, &permits(1, 1), FOR_EVER).await;
    drop(gone);
    eventually(|| async { (subscribed(&server) == 1).then_some(()) }).await;
    busy(&redis, &permits(1, 12), Wait::No).await;
}

#[tokio::test]
async fn holders_without_a_record_are_described() {
    let (server, redis) = server_and_client().await;
    for mode in [Mode::Shared, Mode::Permits { count: 1, of: 2 }] {
        let held = Claim { mode, ..claim("a") };
        grant(&redis, &held).await;
        assert_eq!(server.command::<i64>(&["DEL", "lockwright:{a}:meta"]).unwrap(), 1);
        let seen = redis.inspect(&name("a")).await.unwrap();
        let [holder] = &seen.holders[..] else { panic!("{seen:?}") };
        assert_eq!((holder.token, holder.mode), (Some(held.token), mode));
        let all = match mode {
            Mode::Permits { of, .. } => Mode::Permits { count: of, of },
            _ => Mode::Exclusive,
        };
        let busy = busy(&redis, &Claim { mode: all, ..claim("a") }, Wait::No).await;
        let holder = busy.holder.unwrap();
        assert_eq!((holder.token, holder.mode), (Some(held.token), mode));
        // A holder without a record may have all permits, so no more are granted.
        let one_more = Claim { mode, ..claim("a") };
        let attempt = redis.try_acquire(&one_more).await.unwrap();
        let is_granted = matches!(attempt, AcquireOutcome::Granted(_));
        assert_eq!(is_granted, mode == Mode::Shared, "{attempt:?}");
        for claim in [&held, &one_more] {
            redis.release(claim, ReleaseMode::Plain).await.unwrap();
        }
        assert_eq!(server.command::<i64>(&["EXISTS", "a"]).unwrap(), 0);
    }
}
