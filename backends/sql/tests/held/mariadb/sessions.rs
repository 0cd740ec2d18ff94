use std::collections::BTreeSet;

use lockwright_core::{DistributedLock, ReleaseMode};

use super::server::{Server, backend, sessions_of};
use crate::support::{LONG, MODES, claim_for, grant, hold, is_busy, ms, within};

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_outlives_the_ttl_of_its_last_claim() {
    let server = Server::start().unwrap();
    let connected = || {
        let ids = server
            .sql("SELECT id FROM information_schema.processlist WHERE user = 'lockwright'")
            .unwrap();
        ids.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let ttl = ms(1_000);
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, backend(&server, mode).await);
        // Connecting opens more connections, which close again. Each backend keeps one.
        within(ms(10_000), "two connections", async || connected().len() <= 2).await;
        let held = claim_for("x", ttl);
        grant(&one, &held).await;
        assert!(is_busy(&two, &claim_for("x", ttl)).await);
        one.release(&held, ReleaseMode::Plain).await.unwrap();
        let before = connected();
        assert!(before.len() >= 2, "{before:?} are kept");
        tokio::time::sleep(ms(2_500)).await;
        let gone: Vec<_> = before.difference(&connected()).cloned().collect();
        assert!(gone.is_empty(), "{mode}: the server has ended {gone:?}");
        drop((one, two));
        within(ms(10_000), "the connections to go", async || connected().is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_limits_for_idle_transactions_end_no_hold() {
    let server = Server::options()
        .set("idle_transaction_timeout", "1")
        .set("idle_write_transaction_timeout", "1")
        .set("idle_readonly_transaction_timeout", "1")
        .set("max_statement_time", "1")
        .start()
        .unwrap();
    for mode in MODES {
        let one = backend(&server, mode).await;
        let held = hold(&one, "x").await;
        tokio::time::sleep(ms(2_500)).await;
        assert_eq!(sessions_of(&server, held.token), 1, "{mode}");
        let other = backend(&server, mode).await;
        let next = claim_for("x", LONG);
        assert!(is_busy(&other, &next).await, "{mode}");
    }
}
