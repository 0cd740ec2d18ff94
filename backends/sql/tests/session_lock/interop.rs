use lockwright_core::{DistributedLock, ReleaseMode};
use sqlx::{AssertSqlSafe, Connection as _};

use super::FOR_SHARE;
use super::server::{Connection, Server, backend, lock, run, unlock};
use crate::support::{LONG, claim_for, grant, hold, is_busy, name, reader};

pub(super) async fn sql(connection: &mut Connection, sql: String) -> bool {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_others_exclude_both_ways() {
    let server = Server::start().unwrap();
    let backend = backend(&server, "session").await;
    let mut other = Connection::connect(&server.url()).await.unwrap();
    let (long, longer) = ("x".repeat(64), "x".repeat(65));
    for of in
        ["orders/42", "Orders/42", "Straße", "鍵 🔒", "a\\b", "50%", "e\u{301}", &long, &longer]
    {
        let mine = claim_for(of, LONG);
        grant(&backend, &mine).await;
        assert!(!sql(&mut other, lock(of)).await, "{of}: the other got it beside us");
        backend.release(&mine, ReleaseMode::Plain).await.unwrap();

        assert!(sql(&mut other, lock(of)).await, "{of}: the other didn't get what is free");
        assert!(is_busy(&backend, &claim_for(of, LONG)).await, "{of}: we got it beside the other");
        let inspection = backend.inspect(&name(of)).await.unwrap();
        assert_eq!(inspection.holders.len(), 1, "{of}");
        assert_eq!(inspection.holders[0].token, None, "{of}: the other has no token");
        assert!(sql(&mut other, unlock(of)).await);
        let mine = claim_for(of, LONG);
        grant(&backend, &mine).await;
        backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_rows_of_others_exclude_both_ways() {
    let server = Server::start().unwrap();
    let backend = backend(&server, "row").await;
    let mut other = Connection::connect(&server.url()).await.unwrap();
    let lock = "SELECT count(*) > 0 FROM (SELECT name FROM lockwright_row \
                WHERE name = 'orders/42' FOR UPDATE SKIP LOCKED) AS free";
    let mine = hold(&backend, "orders/42").await;
    assert!(!sql(&mut other, lock.to_owned()).await, "the other got it beside us");
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();

    run(&mut other, "BEGIN").await;
    assert!(sql(&mut other, lock.to_owned()).await, "the other didn't get what is free");
    assert!(is_busy(&backend, &claim_for("orders/42", LONG)).await, "we got it beside the other");
    run(&mut other, "COMMIT").await;
    let mine = hold(&backend, "orders/42").await;
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_others_share_stand_beside_ours() {
    let server = Server::start().unwrap();
    let backend = backend(&server, "row").await;
    let mut other = Connection::connect(&server.url()).await.unwrap();
    let lock = |how: &str| {
        format!(
            "SELECT count(*) > 0 FROM (SELECT name FROM lockwright_row \
             WHERE name = 'orders/42' {how} SKIP LOCKED) AS free"
        )
    };
    let (mine, writer) = (reader("orders/42", LONG), claim_for("orders/42", LONG));
    grant(&backend, &mine).await;
    assert!(!sql(&mut other, lock("FOR UPDATE")).await);
    run(&mut other, "BEGIN").await;
    assert!(sql(&mut other, lock(FOR_SHARE)).await);
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    assert!(is_busy(&backend, &writer).await, "we write beside the other");
    let mine = reader("orders/42", LONG);
    grant(&backend, &mine).await;
    run(&mut other, "COMMIT").await;
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    grant(&backend, &writer).await;
    assert!(!sql(&mut other, lock(FOR_SHARE)).await);
}
