use lockwright_core::{
    BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, Reason, ReleaseMode,
    ReleaseOutcome, Renew, Renewal, Wait,
};

use crate::support::*;

#[tokio::test]
async fn answers_name_the_holder_and_the_reason() {
    let place = Place::new();
    let backend = place.open().await;
    let (a, b) = (claim_for("x", LONG), claim_for("x", LONG));
    let first = grant(&backend, &a).await;
    let busy = busy(&backend, &b, Wait::No).await;
    let holder = busy.holder.unwrap();
    assert_eq!(holder.token, Some(a.token));
    assert_eq!(holder.fence, Some(first.fence));
    assert_eq!(holder.identity.as_ref(), Some(&*a.identity));
    assert!(busy.retry_after.unwrap() <= LONG);

    assert_eq!(renew(&backend, &a).await, Renewal::RENEWED);
    assert_eq!(renew(&backend, &b).await, Renewal::not_held(Reason::Gone));
}

#[tokio::test]
async fn a_repeat_is_the_same_hold_and_is_rearmed() {
    let place = Place::new();
    let backend = place.open().await;
    let mut a = claim_for("x", ms(500));
    a.fences = 5;
    let first = grant(&backend, &a).await;
    assert_eq!(first.fences, 5);
    a.ttl = LONG;
    let again = grant(&backend, &a).await;
    assert_eq!((again.fence, again.fences), (first.fence, 5));
    let holder = &backend.inspect(&a.name).await.unwrap().holders[0];
    assert!(holder.remaining.unwrap() > ms(1_000), "{holder:?}");
}

#[tokio::test]
async fn a_hold_that_ran_out_is_not_revived() {
    let place = Place::new();
    let backend = place.open().await;
    let a = claim_for("x", ms(60));
    grant(&backend, &a).await;
    while !backend.inspect(&a.name).await.unwrap().holders.is_empty() {
        tokio::time::sleep(ms(5)).await;
    }
    assert_eq!(renew(&backend, &a).await, Renewal::not_held(Reason::Expired));
    assert_eq!(backend.release(&a, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
    grant(&backend, &claim_for("x", LONG)).await;
    assert!(is_busy(&backend, &a).await, "a repeat of the old claim took the new hold");
}

#[tokio::test]
async fn a_late_duplicate_is_refused_while_another_holds() {
    let place = Place::new();
    let backend = place.open().await;
    // The release of `b` overtakes its acquire.
    let b = claim_for("x", LONG);
    assert_eq!(backend.release(&b, ReleaseMode::Reconcile).await.unwrap(), ReleaseOutcome::NotHeld);
    grant(&backend, &claim_for("x", LONG)).await;
    refused(backend.try_acquire(&b).await, ErrorKind::Lost(Reason::Gone), "");
}

#[tokio::test]
async fn breaking() {
    let place = Place::new();
    let backend = place.open().await;
    let a = claim_for("x", LONG);
    grant(&backend, &a).await;
    let broken = break_x(&backend, BreakTarget::Token(a.token), BreakMode::RunOut).await.unwrap();
    assert!(matches!(broken, Broken::RunsOut(left) if left > ms(50_000)), "{broken:?}");
    break_x(&backend, BreakTarget::Any, BreakMode::Now).await.unwrap();
    assert_eq!(renew(&backend, &a).await, Renewal::not_held(Reason::Broken));
    refused(backend.try_acquire(&a).await, ErrorKind::Lost(Reason::Gone), "");
}

#[tokio::test]
async fn a_request_that_fails_spoils_nothing_for_those_beside_it() {
    let place = Place::new();
    let backend = place.open().await;
    let (a, b) = (claim_for("a", LONG), claim_for("b", LONG));
    grant(&backend, &a).await;
    let mut raw = place.raw().await;
    sql(&mut raw, "UPDATE lockwright_meta SET fence = 9007199254740991").await;

    let renew = [Renew::of(&a)];
    let batch = async { tokio::join!(backend.acquire(&b, Wait::No), backend.renew(&renew)) };
    let (refused, renewed) = in_one_transaction(&place, &backend, batch).await;
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(renewed.unwrap(), [Renewal::RENEWED]);
    sql(&mut raw, "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; ROLLBACK").await;
    assert!(backend.inspect(&b.name).await.unwrap().holders.is_empty());
}
