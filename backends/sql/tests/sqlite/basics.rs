use crate::support::*;

#[tokio::test]
async fn answers_name_the_holder_and_the_reason() {
    let place = Place::new();
    let backend = place.open().await;
    let a = Claim { fences: 5, ..claim_for("x", ms(500)) };
    let (b, cancelled) = (claim_for("x", LONG), claim_for("x", LONG));
    let first = grant(&backend, &a).await;
    let busy = busy(&backend, &b, Wait::No).await;
    let holder = busy.holder.unwrap();
    assert_eq!(holder.token, Some(a.token));
    assert_eq!(holder.fence, Some(first.fence));
    assert_eq!(holder.identity.as_ref(), Some(&*a.identity));
    assert!(busy.retry_after.unwrap() <= a.ttl);
    let again = grant(&backend, &a).await;
    assert_eq!((again.fence, again.fences), (first.fence, 5));

    assert_eq!(renew(&backend, &b).await, Renewal::not_held(Reason::Gone));
    backend.release(&cancelled, ReleaseMode::Reconcile).await.unwrap();
    refused(backend.try_acquire(&cancelled).await, ErrorKind::Lost(Reason::Gone), "");
    within(LIMIT, "the hold to expire", async || !is_busy(&backend, &b).await).await;
    release(&backend, &b).await;
    grant(&backend, &Claim { ttl: ms(50), ..a.clone() }).await;
    sleep(ms(60)).await;
    assert_eq!(renew(&backend, &a).await, Renewal::not_held(Reason::Expired));
    let ended = backend.release(&a, ReleaseMode::Plain).await.unwrap();
    assert_eq!(ended, ReleaseOutcome::NotHeld);
}

#[tokio::test]
async fn time_of_the_grant_is_shown() {
    let place = Place::new();
    let backend = place.open().await;
    let (x, reader) = (hold(&backend, "x").await, reader("y", LONG));
    grant(&backend, &reader).await;
    sql(
        &mut place.raw().await,
        "UPDATE lockwright_lease SET granted_ns = granted_ns - 10000000000;
         UPDATE lockwright_shared_holder SET granted_ns = granted_ns - 10000000000",
    )
    .await;
    for held in [x, reader] {
        assert_eq!(renew(&backend, &held).await, Renewal::RENEWED);
        let since = backend.inspect(&held.name).await.unwrap().holders[0].since.unwrap();
        assert!((10..70).contains(&since.elapsed().unwrap().as_secs()), "{since:?}");
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

#[tokio::test]
async fn page_is_full_despite_a_name_without_holders() {
    let place = Place::new();
    let backend = place.open().await;
    hold(&backend, "n").await;
    sql(
        &mut place.raw().await,
        "WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number LIMIT 250)
         INSERT INTO lockwright_lease
         SELECT name || i, token, identity, mode, fence, fences, ttl_ns, expires_ns, boot, granted_ns,
                broken
         FROM lockwright_lease, number;
         UPDATE lockwright_lease SET token = 'readers', mode = 'shared' WHERE name = 'n'",
    )
    .await;
    let first = backend.list("", None).await.unwrap();
    let rest = backend.list("", first.next).await.unwrap();
    assert_eq!((first.names.len(), rest.names.len()), (200, 50));
    assert!(backend.inspect(&name("n")).await.unwrap().holders.is_empty());
}
