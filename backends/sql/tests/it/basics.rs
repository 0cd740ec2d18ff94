use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, Reason,
    ReleaseMode, ReleaseOutcome, Renew, Renewal, RenewalOutcome, Wait,
};

use crate::support::{
    LONG, Place, claim_for, grant, hold, in_one_transaction, is_busy, ms, name, sql,
};

#[tokio::test]
async fn acquire_renew_release() {
    let place = Place::new();
    let backend = place.open().await;
    let (a, b) = (claim_for("x", LONG), claim_for("x", LONG));

    let first = grant(&backend, &a).await;
    let AcquireOutcome::Busy(busy) = backend.acquire(&b, Wait::No).await.unwrap() else {
        panic!("both hold");
    };
    let holder = busy.holder.unwrap();
    assert_eq!(holder.token, Some(a.token));
    assert_eq!(holder.fence, Some(first.fence));
    assert_eq!(holder.identity.as_ref(), Some(&*a.identity));
    assert!(busy.retry_after.unwrap() <= LONG);

    let renewals = [&a, &b].map(Renew::of);
    let renewed = backend.renew(&renewals).await.unwrap();
    assert_eq!(renewed, [Renewal::RENEWED, Renewal::not_held(Reason::Gone)]);

    assert_eq!(backend.release(&b, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
    assert!(is_busy(&backend, &b).await, "the release of another took the hold");
    assert_eq!(backend.release(&a, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(backend.release(&a, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);

    let second = grant(&backend, &b).await;
    assert!(second.fence > first.fence);
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

    backend.release(&a, ReleaseMode::Plain).await.unwrap();
    let next = grant(&backend, &claim_for("x", LONG)).await;
    assert!(next.fence.get() >= first.fence.get() + 5, "it is inside the reserved block");
}

#[tokio::test]
async fn a_hold_that_ran_out_is_not_revived() {
    let place = Place::new();
    let backend = place.open().await;
    let a = claim_for("x", ms(60));
    grant(&backend, &a).await;
    let b = claim_for("x", LONG);
    while is_busy(&backend, &b).await {
        tokio::time::sleep(ms(5)).await;
    }
    let renewed = backend.renew(&[Renew::of(&a)]).await.unwrap();
    assert!(matches!(renewed[0].outcome, RenewalOutcome::NotHeld(_)), "{renewed:?}");
    assert!(is_busy(&backend, &a).await, "a repeat of the old claim took the new hold");

    let c = claim_for("y", ms(60));
    grant(&backend, &c).await;
    while !backend.inspect(&c.name).await.unwrap().holders.is_empty() {
        tokio::time::sleep(ms(5)).await;
    }
    let renewed = backend.renew(&[Renew::of(&c)]).await.unwrap();
    assert_eq!(renewed, [Renewal::not_held(Reason::Expired)]);
    assert_eq!(backend.release(&c, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
}

#[tokio::test]
async fn a_late_duplicate_is_refused() {
    let place = Place::new();
    let backend = place.open().await;
    let a = hold(&backend, "x").await;
    assert_eq!(
        backend.release(&a, ReleaseMode::Reconcile).await.unwrap(),
        ReleaseOutcome::Released
    );
    let error = backend.acquire(&a, Wait::No).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Reason::Gone));
    // The release of `b` overtakes its acquire.
    let b = claim_for("x", LONG);
    assert_eq!(backend.release(&b, ReleaseMode::Reconcile).await.unwrap(), ReleaseOutcome::NotHeld);
    grant(&backend, &claim_for("x", LONG)).await;
    let error = backend.acquire(&b, Wait::No).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Reason::Gone));
}

#[tokio::test]
async fn breaking() {
    let place = Place::new();
    let backend = place.open().await;
    let a = claim_for("x", LONG);
    let fence = grant(&backend, &a).await.fence;
    let x = &a.name;

    let other = BreakTarget::Token(claim_for("x", LONG).token);
    let broken = backend.break_lock(x, other, BreakMode::Now, "me", "why").await.unwrap();
    assert_eq!(broken, Broken::NotHeld);

    let seen = BreakTarget::Token(a.token);
    let broken = backend.break_lock(x, seen, BreakMode::RunOut, "me", "why").await.unwrap();
    assert!(matches!(broken, Broken::RunsOut(left) if left > ms(50_000)), "{broken:?}");
    let renewed = backend.renew(&[Renew::of(&a)]).await.unwrap();
    assert_eq!(renewed, [Renewal::not_held(Reason::Broken)]);
    assert!(is_busy(&backend, &claim_for("x", LONG)).await);
    let holder = &backend.inspect(x).await.unwrap().holders[0];
    assert_eq!(holder.broken.as_deref(), Some("me: why"));
    let AcquireOutcome::Granted(repeat) = backend.acquire(&a, Wait::No).await.unwrap() else {
        panic!("it is still its own");
    };
    assert_eq!(repeat.fence, fence);
    assert!(repeat.valid.is_some_and(|left| left <= LONG), "a broken hold was re-armed");

    let broken =
        backend.break_lock(x, BreakTarget::Any, BreakMode::Now, "me", "now").await.unwrap();
    assert!(matches!(broken, Broken::Freed(_)));
    let renewed = backend.renew(&[Renew::of(&a)]).await.unwrap();
    assert_eq!(renewed, [Renewal::not_held(Reason::Broken)]);
    let error = backend.acquire(&a, Wait::No).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Reason::Gone));
    assert!(grant(&backend, &claim_for("x", LONG)).await.fence > fence);
}

#[tokio::test]
async fn a_listing_has_each_name_once_and_only_its_prefix() {
    let place = Place::new();
    let backend = place.open().await;
    let mut expected = Vec::new();
    for i in 0..450 {
        let of = format!("p/{i}");
        grant(&backend, &claim_for(&of, LONG)).await;
        expected.push(of);
    }
    for of in ["o", "p", "p0", "P/1", "q"] {
        grant(&backend, &claim_for(of, LONG)).await;
    }
    expected.sort();
    let (mut found, mut from, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = backend.list("p/", from).await.unwrap();
        found.extend(page.names.iter().map(|n| n.name.as_str().to_owned()));
        pages += 1;
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    assert_eq!(found, expected);
    assert!(pages > 1);
    assert_eq!(backend.list("none", None).await.unwrap(), Default::default());
}

#[tokio::test]
async fn names_are_bytes() {
    let place = Place::new();
    let backend = place.open().await;
    for of in ["a", "A", "a/b", "ä", "a%", "a_", "' OR 1=1 --"] {
        grant(&backend, &claim_for(of, LONG)).await;
        assert!(is_busy(&backend, &claim_for(of, LONG)).await);
        assert_eq!(backend.inspect(&name(of)).await.unwrap().name.as_str(), of);
    }
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
