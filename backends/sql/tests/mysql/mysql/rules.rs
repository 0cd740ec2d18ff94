//! The rules for granting rows. Each test failed with its rule broken.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, DistributedLock, ErrorKind, Fence, Reason,
    ReleaseMode, ReleaseOutcome, Renew, RenewalOutcome,
};
use lockwright_sql::Mysql;
use sqlx::Executor;

use crate::kit::{
    claim, claim_for, connect, grant, locking, name, server_and_client, wait_for_blocked,
};

/// On open connections, so that only the row decides.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_is_granted() {
    let (server, one) = server_and_client().await;
    let mut clients = vec![Arc::new(one)];
    for _ in 0..3 {
        clients.push(Arc::new(connect(&server.url()).await));
    }
    for round in 0..100 {
        // Free names, and names with a row.
        let locked = format!("x{}", round % 50);
        let asked: Vec<_> = clients
            .iter()
            .cycle()
            .take(16)
            .map(|client| {
                let (client, claim) = (Arc::clone(client), claim(&locked));
                tokio::spawn(async move { (client.try_acquire(&claim).await.unwrap(), claim) })
            })
            .collect();
        let mut granted = Vec::new();
        for asked in asked {
            if let (AcquireOutcome::Granted(_), claim) = asked.await.unwrap() {
                granted.push(claim);
            }
        }
        assert_eq!(granted.len(), 1, "in round {round}");
        clients[0].release(&granted[0], ReleaseMode::Plain).await.unwrap();
    }
}

async fn renew(mysql: &Mysql, claim: &Claim) -> RenewalOutcome {
    let renewals = mysql.renew(&[Renew::of(claim)]).await.unwrap();
    assert_eq!(renewals.len(), 1);
    renewals[0].outcome.clone()
}

#[tokio::test]
async fn what_ran_out_is_not_revived() {
    let (_server, mysql) = server_and_client().await;
    let short = claim_for("x", Duration::from_secs(1));
    let first = grant(&mysql, &short).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(renew(&mysql, &short).await, RenewalOutcome::NotHeld(Reason::Expired));
    assert!(mysql.inspect(&name("x")).await.unwrap().holders.is_empty());
    assert_eq!(
        mysql.release(&short, ReleaseMode::Plain).await.unwrap(),
        ReleaseOutcome::NotHeld,
        "it had run out by itself"
    );
    let again = grant(&mysql, &short).await;
    assert!(again.fence > first.fence, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_out_during_a_wait_for_its_row_is_not_revived() {
    let (server, mysql) = server_and_client().await;
    let mysql = Arc::new(mysql);
    let ttl = Duration::from_secs(1);
    for by_renewal in [true, false] {
        let held = claim_for("x", ttl);
        let first = grant(&mysql, &held).await;
        let mut row = locking(&server, "x").await;
        // Shortly before the end, as no request waits a whole TTL for a row.
        tokio::time::sleep(ttl * 8 / 10).await;
        let asking = tokio::spawn({
            let (mysql, held) = (Arc::clone(&mysql), held.clone());
            async move {
                if by_renewal {
                    renew(&mysql, &held).await == RenewalOutcome::Renewed { valid: None }
                } else {
                    // A new hold is correct, the old one isn't.
                    let answer = mysql.try_acquire(&held).await;
                    matches!(answer, Ok(AcquireOutcome::Granted(granted)) if granted.fence == first.fence)
                }
            }
        });
        tokio::time::sleep(ttl * 3 / 10).await;
        row.execute("COMMIT").await.unwrap();
        assert!(!asking.await.unwrap(), "it was revived, by a renewal: {by_renewal}");
        mysql.release(&held, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn a_hold_ends_by_its_own_token_only() {
    let (_server, mysql) = server_and_client().await;
    let (held, other) = (claim("x"), claim("x"));
    grant(&mysql, &held).await;
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        assert_eq!(mysql.release(&other, release_mode).await.unwrap(), ReleaseOutcome::NotHeld);
        assert_eq!(renew(&mysql, &other).await, RenewalOutcome::NotHeld(Reason::Gone));
        assert_eq!(renew(&mysql, &held).await, RenewalOutcome::Renewed { valid: None });
    }
    assert_eq!(mysql.release(&held, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(mysql.release(&held, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
}

/// A claim in progress doesn't see the tombstone of its token.
#[tokio::test(flavor = "multi_thread")]
async fn claim_in_flight_is_reconciled() {
    let (server, mysql) = server_and_client().await;
    let mysql = Arc::new(mysql);
    let before = claim("x");
    grant(&mysql, &before).await;
    mysql.release(&before, ReleaseMode::Plain).await.unwrap();

    let late = claim("x");
    let mut row = locking(&server, "x").await;
    let asking = tokio::spawn({
        let (mysql, late) = (Arc::clone(&mysql), late.clone());
        async move { mysql.try_acquire(&late).await }
    });
    wait_for_blocked(&server, 1).await;
    let settling = tokio::spawn({
        let (mysql, late) = (Arc::clone(&mysql), late.clone());
        async move { mysql.release(&late, ReleaseMode::Reconcile).await.unwrap() }
    });
    wait_for_blocked(&server, 2).await;
    row.execute("COMMIT").await.unwrap();
    settling.await.unwrap();
    let _ = asking.await.unwrap();
    assert!(mysql.inspect(&name("x")).await.unwrap().holders.is_empty());
    let error = mysql.try_acquire(&late).await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(Reason::Gone), "{error:?}");
    // By the row, without the tombstone.
    server.sql("DELETE FROM lockwright_tombstone").unwrap();
    let error = mysql.try_acquire(&late).await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(Reason::Gone), "{error:?}");
    assert!(mysql.inspect(&name("x")).await.unwrap().holders.is_empty(), "a ghost holds it");
}

#[tokio::test]
async fn a_broken_hold_is_not_rearmed_by_a_repeat() {
    let (_server, mysql) = server_and_client().await;
    let held = claim_for("x", Duration::from_secs(3));
    let first = grant(&mysql, &held).await;
    mysql
        .break_lock(&name("x"), BreakTarget::Any, BreakMode::RunOut, "ada", "to see")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let again = grant(&mysql, &held).await;
    assert_eq!(again.fence, first.fence);
    let valid = again.valid.expect("it says for how long");
    assert!(valid <= Duration::from_millis(2_500), "it was re-armed: {valid:?}");
}

#[tokio::test]
async fn fences_grow_past_what_was_reserved() {
    let (server, mysql) = server_and_client().await;
    let mut last = Fence::new(0);
    for fences in [1, 1_000_000_000, 1, 7] {
        let mut held = claim("x");
        held.fences = fences;
        let granted = grant(&mysql, &held).await;
        assert!(granted.fence > last, "{granted:?} after {last}");
        assert_eq!(granted.fences, fences);
        last = Fence::new(granted.fence.get() + u64::from(fences) - 1);
        let again = grant(&mysql, &held).await;
        assert_eq!((again.fence, again.fences), (granted.fence, fences));
        let shown = mysql.inspect(&name("x")).await.unwrap();
        assert_eq!(shown.fence, Some(last));
        if fences == 7 {
            mysql
                .break_lock(&name("x"), BreakTarget::Any, BreakMode::Now, "ada", "to see")
                .await
                .unwrap();
            assert_eq!(renew(&mysql, &held).await, RenewalOutcome::NotHeld(Reason::Broken));
        } else {
            mysql.release(&held, ReleaseMode::Plain).await.unwrap();
        }
    }
    // As after a step back of the server's clock.
    server.sql("UPDATE lockwright_lease SET fence = 9000000000000000").unwrap();
    assert_eq!(grant(&mysql, &claim("x")).await.fence, Fence::new(9_000_000_000_000_007));
    // After the highest fence comes an error.
    server
        .sql("UPDATE lockwright_lease SET token = NULL, fences = 1, fence = 9007199254740991")
        .unwrap();
    let error = mysql.try_acquire(&claim("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
}

/// The fence is that of the locked row, not that at the start of the statement.
#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_past_what_was_granted_during_a_wait() {
    let (server, mysql) = server_and_client().await;
    let mysql = Arc::new(mysql);
    let before = claim("x");
    grant(&mysql, &before).await;
    mysql.release(&before, ReleaseMode::Plain).await.unwrap();
    let mut row = locking(&server, "x").await;
    let asking = tokio::spawn({
        let mysql = Arc::clone(&mysql);
        async move { grant(&mysql, &claim("x")).await.fence }
    });
    wait_for_blocked(&server, 1).await;
    row.execute("UPDATE lockwright_lease SET fence = 9000000000000000, fences = 5; COMMIT")
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), Fence::new(9_000_000_000_000_005));
}

/// Requests that lose against others are retried.
#[tokio::test(flavor = "multi_thread")]
async fn serializable_transactions_are_no_obstacle() {
    let (server, one) = server_and_client().await;
    drop(one);
    server.sql("SET GLOBAL tx_isolation = 'SERIALIZABLE'").unwrap();
    let clients = [connect(&server.url()).await, connect(&server.url()).await].map(Arc::new);
    for round in 0..20 {
        let asked: Vec<_> = (0..8)
            .map(|at| {
                let (client, claim) = (Arc::clone(&clients[at % 2]), claim("x"));
                tokio::spawn(async move { (client.try_acquire(&claim).await, claim) })
            })
            .collect();
        let mut granted = Vec::new();
        for asked in asked {
            match asked.await.unwrap() {
                (Ok(AcquireOutcome::Granted(_)), claim) => granted.push(claim),
                (Ok(AcquireOutcome::Busy(_)), _) => {}
                // It lost in each attempt, without effect.
                (Err(error), _) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
            }
        }
        assert_eq!(granted.len(), 1, "in round {round}");
        clients[0].release(&granted[0], ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_in_a_value_is_taken_for_sql() {
    let (server, mysql) = server_and_client().await;
    for modes in ["", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT", "ORACLE"] {
        server.sql(&format!("SET GLOBAL sql_mode = '{modes}'")).unwrap();
        let mysql = connect(&server.url()).await;
        for odd in [
            "'; DROP TABLE lockwright_lease; --",
            "\\'; DROP TABLE lockwright_lease; --",
            "\\",
            "x\\'",
            ":name",
            "$1",
            "{lease}",
            "%_%",
            "naïve 🔒 \u{10FFFF}",
        ] {
            let held = claim(odd);
            grant(&mysql, &held).await;
            let shown = mysql.inspect(&name(odd)).await.unwrap();
            assert_eq!(shown.holders.len(), 1, "{odd:?}");
            let listed = mysql.list(odd, None).await.unwrap();
            assert_eq!(listed.names.len(), 1, "{odd:?}");
            let broken =
                mysql.break_lock(&held.name, BreakTarget::Any, BreakMode::RunOut, odd, odd);
            broken.await.unwrap();
            let shown = mysql.inspect(&name(odd)).await.unwrap();
            assert_eq!(shown.holders[0].broken.as_deref(), Some(&*format!("{odd}: {odd}")));
            assert_eq!(renew(&mysql, &held).await, RenewalOutcome::NotHeld(Reason::Broken));
            mysql.release(&held, ReleaseMode::Reconcile).await.unwrap();
        }
    }
    drop(mysql);
}

#[tokio::test]
async fn what_is_granted_is_committed_whatever_the_completion_type_is() {
    let (server, _) = crate::kit::server_and_client().await;
    server.sql("SET GLOBAL completion_type = 'CHAIN'").unwrap();
    let url = format!("{}?connections=2", server.url());
    let mysql = crate::kit::connect(&url).await;
    crate::kit::grant(&mysql, &crate::kit::claim("x")).await;
    let how = lockwright_core::BreakMode::Now;
    let seen = lockwright_core::BreakTarget::Any;
    mysql.break_lock(&crate::kit::name("x"), seen, how, "a", "b").await.unwrap();
    let held = crate::kit::claim("y");
    crate::kit::grant(&mysql, &held).await;
    let token = server.sql("SELECT token FROM lockwright_lease WHERE name = 'y'").unwrap();
    assert_eq!(token, held.token.to_string());
}

#[tokio::test]
async fn names_are_whole_in_a_database_with_another_character_set() {
    let server = lockwright_testbed::MariaDb::start().unwrap();
    server.sql("ALTER DATABASE lockwright CHARACTER SET latin1").unwrap();
    let mysql = crate::kit::connect(&server.url()).await;
    for name in ["abc", "é", "ключ", "🔒"] {
        let held = crate::kit::claim(name);
        crate::kit::grant(&mysql, &held).await;
        let renewed = mysql.renew(&[lockwright_core::Renew::of(&held)]).await.unwrap();
        assert!(format!("{:?}", renewed[0].outcome).starts_with("Renewed"), "{name}: {renewed:?}");
        mysql.release(&held, lockwright_core::ReleaseMode::Plain).await.unwrap();
    }
    // The steps of a sweep read names from such a table too.
    let hour = "UPDATE lockwright_lease SET updated = updated - 3600000000, \
                expires = expires - 3600000000";
    server.sql(hour).unwrap();
    while mysql.sweep(std::time::Duration::from_secs(1_800)).await.unwrap().more {}
    assert_eq!(server.sql("SELECT count(*) FROM lockwright_lease").unwrap(), "0");
}
