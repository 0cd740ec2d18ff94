//! Other programs that take the same lock with the documented SQL.

use lockwright_core::{DistributedLock, Mode, ReleaseMode};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::support::{LONG, backend, claim, granted, is_busy, name, reader, server};

/// The expression from the documentation.
fn key(name: &str) -> String {
    format!(
        "('x' || substr(encode(sha256(convert_to('{name}', 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint"
    )
}

async fn sql(connection: &mut PgConnection, sql: String) -> bool {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn advisory_locks_of_others_exclude_both_ways() {
    let server = server();
    let backend = backend(&server, "session").await;
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    for of in ["orders/42", "Straße", "鍵 🔒", "a\\b", "50%", "e\u{301}"] {
        let lock = format!("SELECT pg_try_advisory_lock({})", key(of));
        let unlock = format!("SELECT pg_advisory_unlock({})", key(of));
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
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
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
async fn shared_locks_of_others_stand_beside_ours() {
    let server = server();
    let backend = backend(&server, "session").await;
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    let key = key("orders/42");
    let (mine, writer) = (reader("orders/42", LONG), claim("orders/42", LONG));
    granted(&backend, &mine).await;
    assert!(!sql(&mut other, format!("SELECT pg_try_advisory_lock({key})")).await);
    assert!(sql(&mut other, format!("SELECT pg_try_advisory_lock_shared({key})")).await);
    let shown = backend.inspect(&mine.name).await.unwrap().holders;
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown.iter().all(|holder| holder.mode == Mode::Shared), "{shown:?}");
    assert!(shown.iter().any(|holder| holder.token.is_none()), "{shown:?}");
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    assert!(is_busy(&backend, &writer).await, "we write beside the other");
    let mine = reader("orders/42", LONG);
    granted(&backend, &mine).await;
    assert!(sql(&mut other, format!("SELECT pg_advisory_unlock_shared({key})")).await);
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    granted(&backend, &writer).await;
    assert!(!sql(&mut other, format!("SELECT pg_try_advisory_lock_shared({key})")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_others_share_stand_beside_ours() {
    let server = server();
    let backend = backend(&server, "row").await;
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    let lock = |how: &str| {
        format!(
            "SELECT count(*) > 0 FROM (SELECT name FROM lockwright_row \
             WHERE name = 'orders/42' FOR {how} SKIP LOCKED) AS free"
        )
    };
    let (mine, writer) = (reader("orders/42", LONG), claim("orders/42", LONG));
    granted(&backend, &mine).await;
    assert!(!sql(&mut other, lock("UPDATE")).await);
    sqlx::raw_sql("BEGIN").execute(&mut other).await.unwrap();
    assert!(sql(&mut other, lock("SHARE")).await);
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    assert!(is_busy(&backend, &writer).await, "we write beside the other");
    let mine = reader("orders/42", LONG);
    granted(&backend, &mine).await;
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    granted(&backend, &writer).await;
    assert!(!sql(&mut other, lock("SHARE")).await);
}

/// More readers than fit on a page, between single holders.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_many_read_is_listed_whole() {
    const OTHERS: usize = 230;

    let server =
        lockwright_testbed::Postgres::options().set("max_connections", "300").start().unwrap();
    let backend = backend(&server, "session").await;
    for held in [claim("a", LONG), reader("b", LONG), claim("c", LONG)] {
        granted(&backend, &held).await;
    }
    let mut others = Vec::new();
    for _ in 0..OTHERS {
        let mut other = PgConnection::connect(&server.url()).await.unwrap();
        assert!(sql(&mut other, format!("SELECT pg_try_advisory_lock_shared({})", key("b"))).await);
        others.push(other);
    }
    let (mut listed, mut from) = (Vec::new(), None);
    loop {
        let page = backend.list("", from).await.unwrap();
        let names = page.names.iter();
        listed.extend(names.map(|one| (one.name.as_str().to_owned(), one.holders.len())));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    let expected = [("a", 1), ("b", OTHERS + 1), ("c", 1)];
    assert_eq!(listed, expected.map(|(name, holders)| (name.to_owned(), holders)));
}
