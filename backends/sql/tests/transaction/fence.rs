use lockwright_sql::transaction::Wait;

use super::server::*;
use super::shop::{sell, shop, stock};
use super::{CREATE_SCHEMA, SHORT_LIMIT, TABLES, fence_by_sql, waiting};
use crate::expect::{locked, refused, superseded};
use crate::support::*;

#[tokio::test]
async fn refused_write_leaves_the_transaction_usable() {
    let (_server, pool) = shop().await;
    let mut tx = pool.begin().await.unwrap();
    check_fence(&mut tx, &fenced("orders/42", Fence::MAX.get())).await.unwrap();
    sell(&mut tx).await;
    superseded(check_fence(&mut tx, &fenced("orders/42", 8)).await);
    for number in [Fence::MAX.get() + 1, u64::MAX] {
        let too_large = check_fence(&mut tx, &fenced("orders/42", number)).await;
        refused(too_large, ErrorKind::InvalidInput, &Fence::MAX.to_string());
    }
    for name in ["Orders/42", "orders/4", "ord'ers"] {
        check_fence(&mut tx, &fenced(name, 1)).await.unwrap();
    }
    assert_eq!(stock(&mut tx).await, 6, "it can be used");
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn check_by_its_sql_finds_a_stale_fence() {
    let (_server, pool) = shop().await;
    for (fence, highest) in [(5, 5), (4, 5), (5, 5), (6, 6)] {
        let mut tx = pool.begin().await.unwrap();
        assert_eq!(fence_by_sql(&mut tx, "a", fence).await, highest);
        tx.commit().await.unwrap();
    }
    let mut tx = pool.begin().await.unwrap();
    superseded(check_fence(&mut tx, &fenced("a", 5)).await);
}

#[tokio::test]
async fn without_its_table_it_says_what_to_do() {
    let server = Server::start().unwrap();
    let pool = Pool::connect(&server.url()).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let answer = check_fence(&mut tx, &fenced("a", 5)).await;
    refused(answer, ErrorKind::InvalidConfig, "lockwright schema");
    tx.execute("SELECT 1").await.expect("it can be used");
    tx.rollback().await.unwrap();

    // A connecting backend and the printed schema both create the table.
    drop(Backend::connect(&server.url()).await.unwrap());
    let mut tx = pool.begin().await.unwrap();
    check_fence(&mut tx, &fenced("a", 5)).await.unwrap();
    let printed = Config::new(&server.url()).unwrap().schema();
    assert!(printed.contains(&InTransaction::new().schema()), "{printed}");
}

#[tokio::test]
async fn rolled_back_write_refuses_no_later_write() {
    let (_server, pool) = shop().await;
    let mut tx = pool.begin().await.unwrap();
    check_fence(&mut tx, &fenced("a", 9)).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    check_fence(&mut tx, &fenced("a", 5)).await.unwrap();
}

#[tokio::test]
async fn the_later_of_two_waits_for_the_earlier_and_sees_its_work() {
    let (server, pool) = shop().await;
    for (first, second) in [(5, 6), (9, 7)] {
        let mut holder = pool.begin().await.unwrap();
        check_fence(&mut holder, &fenced("a", first)).await.unwrap();
        let before = stock(&mut holder).await;
        sell(&mut holder).await;
        let mut tx = pool.begin().await.unwrap();
        let later = tokio::spawn(async move {
            let answer = check_fence(&mut tx, &fenced("a", second)).await;
            (answer, stock(&mut tx).await)
        });
        waiting(&server, 1).await;
        holder.commit().await.unwrap();
        let (answer, left) = later.await.unwrap();
        assert_eq!(left, before - 1);
        if second > first {
            answer.unwrap();
        } else {
            superseded(answer);
        }
    }
}

#[tokio::test]
async fn the_users_limit_ends_the_wait_for_another_one() {
    let (_server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    check_fence(&mut holder, &fenced("a", 5)).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    tx.execute(SHORT_LIMIT.0).await.unwrap();
    let late = check_fence(&mut tx, &fenced("a", 6)).await;
    refused(late, ErrorKind::Unavailable, SHORT_LIMIT.1);
    assert_eq!(stock(&mut tx).await, 7, "it can be used");
}

#[tokio::test]
async fn tables_of_other_names_are_made_by_many_at_once() {
    let (server, _pool) = shop().await;
    server.sql(CREATE_SCHEMA).unwrap();
    let ours = InTransaction::new().table("mine").unwrap().schema_name("app").unwrap();
    refused(InTransaction::new().table("x;y"), ErrorKind::InvalidConfig, "small letters");
    let mut making = JoinSet::new();
    for _ in 0..10 {
        let (ours, url) = (ours.clone(), server.url());
        making.spawn(async move {
            let mut connection = Connection::connect(&url).await.unwrap();
            ours.make_tables(&mut connection).await.unwrap();
            let mut tx = connection.begin().await.unwrap();
            ours.check_fence(&mut tx, &fenced("a", 5)).await.unwrap();
            tx.commit().await.unwrap();
        });
    }
    making.join_all().await;
    assert_eq!(server.sql("SELECT fence FROM app.mine_fence WHERE name = 'a'").unwrap(), "5");
}

#[tokio::test]
async fn long_unused_rows_are_swept_unless_in_use() {
    let (server, pool) = shop().await;
    let mut tx = pool.begin().await.unwrap();
    for number in 0..2_001 {
        check_fence(&mut tx, &fenced(&format!("{number}"), 5)).await.unwrap();
    }
    tx.commit().await.unwrap();
    for name in ["b", "c"] {
        let mut tx = pool.begin().await.unwrap();
        locked(lock_in_transaction(&mut tx, name, Wait::No).await);
        tx.commit().await.unwrap();
    }
    for (table, column) in TABLES {
        let old = format!("UPDATE lockwright_{table} SET {column} = {column} - INTERVAL '1' DAY");
        server.sql(&old).unwrap();
    }
    let mut tx = pool.begin().await.unwrap();
    check_fence(&mut tx, &fenced("7", 5)).await.unwrap();
    locked(lock_in_transaction(&mut tx, "c", Wait::No).await);
    let mut connection = pool.acquire().await.unwrap();
    let ours = InTransaction::new();
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    assert_eq!(ours.sweep(&mut connection, days(2)).await.unwrap(), 0);
    let mut swept = 0;
    loop {
        match ours.sweep(&mut connection, days(1) - Duration::from_secs(60)).await.unwrap() {
            0 => break,
            number => swept += number,
        }
    }
    assert_eq!(swept, 1_999 + TABLES.len() as u64);
    tx.commit().await.unwrap();
    assert_eq!(server.sql("SELECT name FROM lockwright_fence").unwrap(), "7");
    if SCHEME == "mysql" {
        assert_eq!(server.sql("SELECT name FROM lockwright_turn").unwrap(), "c");
    }
}
