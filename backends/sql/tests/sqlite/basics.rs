use crate::support::*;

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
         SELECT name || i, token, identity, mode, fence, fences, ttl_ns, expires_ns, boot, updated,
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
