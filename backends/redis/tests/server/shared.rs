use std::time::Duration;

use lockwright_core::{Claim, Clock, DistributedLock, Mode, ReleaseMode, Renew, Token, Wait};
use lockwright_testbed as testbed;

use crate::common::{busy, claim_for, grant, released, renewed, server_and_client};

const HOLDERS: &str = "lockwright:{a}:holders";

fn of(mode: Mode, seconds: u64) -> Claim {
    Claim { mode, ..claim_for("a", Duration::from_secs(seconds)) }
}

/// Asserts that the holders' keys last as long as each hold: without the lock's key, no hold is
/// left, and without the records, no break.
#[track_caller]
fn keys_last(server: &testbed::Redis) {
    let last = server.command::<Vec<String>>(&["ZRANGE", HOLDERS, "-1", "-1", "WITHSCORES"]);
    let longest: i64 = last.unwrap()[1].parse().unwrap();
    for key in ["a", HOLDERS, "lockwright:{a}:meta"] {
        let end: i64 = server.command(&["PEXPIRETIME", key]).unwrap();
        assert!(end >= longest, "{key} ends at {end}, and a hold at {longest}");
    }
}

#[tokio::test]
async fn keys_last_as_long_as_each_shared_hold() {
    let (server, redis) = server_and_client().await;
    for mode in [Mode::Shared, Mode::Permits { count: 1, of: 9 }] {
        let [mut one, two] = [20, 30].map(|seconds| of(mode, seconds));
        for holder in [&one, &two] {
            grant(&redis, holder).await;
            keys_last(&server);
        }
        for seconds in [40, 10] {
            one.ttl = Duration::from_secs(seconds);
            grant(&redis, &one).await;
            keys_last(&server);
        }
        for seconds in [50, 10] {
            one.ttl = Duration::from_secs(seconds);
            renewed(&redis, &one).await;
            keys_last(&server);
        }
        let moved = of(mode, 60);
        redis.swap(one.token, &moved).await.unwrap();
        keys_last(&server);
        let all =
            if mode == Mode::Shared { Mode::Exclusive } else { Mode::Permits { count: 9, of: 9 } };
        let waits = of(all, 1);
        busy(&redis, &waits, Wait::Until(Clock::boot().now())).await;
        keys_last(&server);
        released(&redis, &moved, ReleaseMode::Plain).await;
        keys_last(&server);
        for claim in [&two, &waits] {
            redis.release(claim, ReleaseMode::Plain).await.unwrap();
        }
    }
}

#[tokio::test]
async fn shared_hold_lasts_exactly_its_ttl() {
    let (server, redis) = server_and_client().await;
    // Each renewal in a batch extends the TTL of `holders`, by which the scripts compute the time.
    let second = Duration::from_secs(1);
    let reader = |ttl| Claim { mode: Mode::Shared, ..claim_for("a", ttl) };
    let readers: Vec<_> = (0..200).map(|i| reader(30 * second + i * second / 1_000)).collect();
    for reader in &readers {
        grant(&redis, reader).await;
    }
    let batch: Vec<_> = readers.iter().map(Renew::of).collect();
    for _ in 0..10 {
        redis.renew(&batch).await.unwrap();
    }
    // If the request and the grant have the same millisecond, an early end is not visible.
    for _ in 0..50 {
        let now = || server.command::<(f64, f64)>(&["TIME"]).unwrap();
        let millis = |(seconds, micros): (f64, f64)| (seconds + 30.0) * 1_000.0 + micros / 1_000.0;
        let reader = reader(30 * second);
        let least = millis(now());
        grant(&redis, &reader).await;
        let end: f64 = server.command(&["ZSCORE", HOLDERS, &reader.token.to_string()]).unwrap();
        assert!(end >= least && end <= millis(now()) + 2.0, "{least}: {end}");
    }
}

/// The TTL of `holders`, by which the scripts compute the time, must become shorter too.
#[tokio::test]
async fn shared_hold_can_become_shorter() {
    let (server, redis) = server_and_client().await;
    for by in ["repeat", "renewal", "transfer", "release"] {
        let long = of(Mode::Shared, 30);
        grant(&redis, &long).await;
        let mut short = Claim { ttl: Duration::from_secs(1), ..long.clone() };
        match by {
            "repeat" => drop(grant(&redis, &short).await),
            "renewal" => renewed(&redis, &short).await,
            "transfer" => {
                short.token = Token::random();
                redis.swap(long.token, &short).await.unwrap();
            }
            _ => {
                short.token = Token::random();
                grant(&redis, &short).await;
                released(&redis, &long, ReleaseMode::Plain).await;
            }
        }
        let seen = redis.inspect(&short.name).await.unwrap().holders.remove(0);
        assert!(seen.remaining <= Some(Duration::from_millis(1_001)), "{by}: {seen:?}");
        server.command::<()>(&["FLUSHALL"]).unwrap();
    }
}
