//! Other programs that take the same lock with the documented SQL.

use lockwright_core::{DistributedLock, ReleaseMode};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::support::{LONG, backend, claim, granted, is_busy, name, reader, server};

/// The expression from the documentation.
fn key(name: &str) -> String {
    let as_it_is =
        name.len() <= 64 && name.chars().all(|c| c.is_ascii() && !c.is_ascii_uppercase());
    let quoted = name.replace('\\', "\\\\");
    if as_it_is { format!("'{quoted}'") } else { format!("SHA2('{quoted}', 256)") }
}

async fn sql(connection: &mut MySqlConnection, sql: String) -> bool {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_others_exclude_both_ways() {
    let server = server();
    let backend = backend(&server, "session").await;
    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    let (long, longer) = ("x".repeat(64), "x".repeat(65));
    for of in
        ["orders/42", "Orders/42", "Straße", "鍵 🔒", "a\\b", "50%", "e\u{301}", &long, &longer]
    {
        let lock = format!("SELECT GET_LOCK({}, 0) = 1", key(of));
        let unlock = format!("SELECT RELEASE_LOCK({}) = 1", key(of));
        let mine = claim(of, LONG);
        granted(&backend, &mine).await;
        assert!(!sql(&mut other, lock.clone()).await, "{of}: the other got it beside us");
        backend.release(&mine, ReleaseMode::Plain).await.unwrap();

        assert!(sql(&mut other, lock).await, "{of}: the other didn't get what is free");
        assert!(is_busy(&backend, &claim(of, LONG)).await, "{of}: we got it beside the other");
        let inspection = backend.inspect(&name(of)).await.unwrap();
        assert_eq!(inspection.holders.len(), 1, "{of}");
        assert_eq!(inspection.holders[0].token, None, "{of}: the other has no token");
        assert!(sql(&mut other, unlock).await);
        let mine = claim(of, LONG);
        granted(&backend, &mine).await;
        backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_rows_of_others_exclude_both_ways() {
    let server = server();
    let backend = backend(&server, "row").await;
    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    let lock = "SELECT count(*) > 0 FROM (SELECT name FROM lockwright_row \
                WHERE name = 'orders/42' FOR UPDATE SKIP LOCKED) AS free";
    let mine = claim("orders/42", LONG);
    granted(&backend, &mine).await;
    assert!(!sql(&mut other, lock.to_owned()).await, "the other got it beside us");
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();

    sqlx::raw_sql("BEGIN").execute(&mut other).await.unwrap();
    assert!(sql(&mut other, lock.to_owned()).await, "the other didn't get what is free");
    assert!(is_busy(&backend, &claim("orders/42", LONG)).await, "we got it beside the other");
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    let mine = claim("orders/42", LONG);
    granted(&backend, &mine).await;
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_others_share_stand_beside_ours() {
    let server = server();
    let backend = backend(&server, "row").await;
    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    let lock = |how: &str| {
        format!(
            "SELECT count(*) > 0 FROM (SELECT name FROM lockwright_row \
             WHERE name = 'orders/42' {how} SKIP LOCKED) AS free"
        )
    };
    let (mine, writer) = (reader("orders/42", LONG), claim("orders/42", LONG));
    granted(&backend, &mine).await;
    assert!(!sql(&mut other, lock("FOR UPDATE")).await);
    sqlx::raw_sql("BEGIN").execute(&mut other).await.unwrap();
    assert!(sql(&mut other, lock("LOCK IN SHARE MODE")).await);
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    assert!(is_busy(&backend, &writer).await, "we write beside the other");
    let mine = reader("orders/42", LONG);
    granted(&backend, &mine).await;
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    granted(&backend, &writer).await;
    assert!(!sql(&mut other, lock("LOCK IN SHARE MODE")).await);
}
