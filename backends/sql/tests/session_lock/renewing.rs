use super::server::*;
use crate::support::*;

in_each_mode!(plain; stuck_session_delays_no_other_renewal, locked_table_delays_no_release);

/// A renewal checks whether the hold was broken, so it waits while the table is locked. A release
/// must not wait for that renewal.
async fn locked_table_delays_no_release(server: &Server, mode: &str) {
    let ttl = ms(12_000);
    let one = shared(server, mode).await;
    let held = claim_for("x", ttl);
    grant(&*one, &held).await;
    let lock = lock_table(server, "lockwright_hold").await;
    let renewing = renewing(&one, &held);
    sleep(ms(500)).await;
    let begun = Instant::now();
    let released = one.release(&held, ReleaseMode::Plain).await;
    assert_eq!(released.unwrap(), ReleaseOutcome::Released, "{mode}");
    let took = begun.elapsed();
    assert!(took < ttl / 2, "late: {mode}: the renewal delayed it by {took:?}");
    assert_eq!(renewing.await.unwrap(), Renewal::INDETERMINATE, "{mode}");
    drop(lock);
    let next = claim_for("x", ttl);
    within(ms(5_000), "the table to be unlocked", async || {
        matches!(one.try_acquire(&next).await, Ok(AcquireOutcome::Granted(_)))
    })
    .await;
    // A failed renewal keeps the hold. The table is locked before the first renewal, because in the
    // mode `row` a successful renewal leaves a lock on the table.
    let lock = lock_table(server, "lockwright_hold").await;
    assert_eq!(renew(&*one, &next).await, Renewal::INDETERMINATE, "{mode}");
    drop(lock);
    within(ms(5_000), "the table to be unlocked", async || {
        let renewal = renew(&*one, &next).await;
        assert!(!matches!(renewal.outcome, RenewalOutcome::NotHeld(_)), "{mode}: {renewal:?}");
        renewal == Renewal::RENEWED
    })
    .await;
    for _ in 0..2 {
        assert_eq!(renew(&*one, &next).await, Renewal::RENEWED, "{mode}");
    }
    let other = shared(server, mode).await;
    assert!(!is_free(&*other, "x").await, "{mode}: the failed renewal has freed it");
    one.release(&next, ReleaseMode::Plain).await.unwrap();
}

/// One session's connection is silent, so its requests don't reach the server.
async fn stuck_session_delays_no_other_renewal(server: &Server, mode: &str) {
    let ttl = ms(8_000);
    let proxy = lockwright_testbed::Proxy::start(server.address()).unwrap();
    let one = backend_through(server, proxy.port(), mode).await;
    // Waits until the client has opened its first connections. The hold gets the next connection,
    // with the number `session`.
    let (mut session, mut since) = (0, Instant::now());
    within(ms(20_000), "no more connections", async || {
        if std::mem::replace(&mut session, proxy.accepted()) != proxy.accepted() {
            since = Instant::now();
        }
        since.elapsed() > ms(1_000)
    })
    .await;
    let stuck = claim_for("stuck", ttl);
    grant(&one, &stuck).await;
    proxy.keep_requests_of(Some(session));
    let others: Vec<_> = (0..4).map(|number| claim_for(&format!("x{number}"), ttl)).collect();
    for other in &others {
        grant(&one, other).await;
    }
    let mut batch = vec![Renew::of(&stuck)];
    batch.extend(others.iter().map(Renew::of));
    let begun = Instant::now();
    let renewals = one.renew(&batch).await.unwrap();
    let took = begun.elapsed();
    assert!(took < ttl / 4, "late: {mode}: too late for the client, after {took:?}");
    assert_eq!(renewals[0], Renewal::INDETERMINATE, "{mode}");
    assert_eq!(renewals[1..], vec![Renewal::RENEWED; others.len()], "{mode}");
    for other in &others {
        one.release(other, ReleaseMode::Plain).await.unwrap();
    }
}
