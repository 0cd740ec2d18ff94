use std::time::Duration;

use lockwright_core::{Claim, DistributedLock, Mode, Renew};

use crate::common::{claim_for, grant, server_and_client};

const HOLDERS: &str = "lockwright:{a}:holders";

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
