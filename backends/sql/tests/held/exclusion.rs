//! Mutual exclusion, with a TTL for busy machines.

use std::sync::Arc;

use lockwright_core::{AcquireOutcome, DistributedLock, ReleaseMode, ReleaseOutcome, Wait};
use tokio::task::JoinSet;

use super::server::{Server, plain, shared};
use crate::in_each_mode;
use crate::support::{LONG, claim_for};

in_each_mode!(
    plain;
    of_many_on_a_fresh_name_one_is_granted,
);

async fn of_many_on_a_fresh_name_one_is_granted(server: &Server, mode: &str) {
    let backends =
        [shared(server, mode).await, shared(server, mode).await, shared(server, mode).await];
    for round in 0..40 {
        let mut asking = JoinSet::new();
        for number in 0..9 {
            let backend = Arc::clone(&backends[number % backends.len()]);
            asking.spawn(async move {
                let claim = claim_for(&format!("x{round}"), LONG);
                let answer = backend.acquire(&claim, Wait::No).await.unwrap();
                matches!(answer, AcquireOutcome::Granted(_)).then_some((backend, claim))
            });
        }
        let mut granted: Vec<_> = asking.join_all().await.into_iter().flatten().collect();
        assert_eq!(granted.len(), 1, "{mode}, round {round}");
        let (backend, claim) = granted.pop().unwrap();
        let ended = backend.release(&claim, ReleaseMode::Plain).await.unwrap();
        assert_eq!(ended, ReleaseOutcome::Released);
    }
}
