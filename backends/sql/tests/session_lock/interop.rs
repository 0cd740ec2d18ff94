use super::FOR_SHARE;
use super::server::*;
use crate::support::*;

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
    let lock = |how: &str| {
        format!(
            "SELECT count(*) > 0 FROM (SELECT name FROM lockwright_row \
             WHERE name = 'orders/42' {how} SKIP LOCKED) AS free"
        )
    };
    readers_of_others_stand_beside_ours("row", lock("FOR UPDATE"), lock(FOR_SHARE), "COMMIT").await;
}

/// `exclusively` and `shared` are SQL by which another program locks `orders/42`. `end` is SQL that
/// ends the program's shared lock and transaction.
pub(super) async fn readers_of_others_stand_beside_ours(
    mode: &str,
    exclusively: String,
    shared: String,
    end: &str,
) {
    let server = Server::start().unwrap();
    let backend = backend(&server, mode).await;
    let mut other = Connection::connect(&server.url()).await.unwrap();
    let (mine, writer) = (reader("orders/42", LONG), claim_for("orders/42", LONG));
    grant(&backend, &mine).await;
    assert!(!sql(&mut other, exclusively.clone()).await, "the other got it beside us");
    run(&mut other, "BEGIN").await;
    assert!(sql(&mut other, shared.clone()).await, "the other can't read beside us");
    release(&backend, &mine).await;
    assert!(is_busy(&backend, &writer).await, "we write beside the other");
    let mine = reader("orders/42", LONG);
    grant(&backend, &mine).await;
    run(&mut other, end).await;
    release(&backend, &mine).await;
    grant(&backend, &writer).await;
    assert!(!sql(&mut other, shared).await, "the other reads beside our writer");
    release(&backend, &writer).await;

    run(&mut other, "BEGIN").await;
    assert!(sql(&mut other, exclusively).await, "the other didn't get what is free");
    for mine in [&mine, &writer] {
        assert!(is_busy(&backend, mine).await, "we got it beside the other");
    }
}
