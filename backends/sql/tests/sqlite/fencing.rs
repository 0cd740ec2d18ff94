//! Tests that writes with an outdated fence to the application's own file are rejected.

use lockwright_sql::sqlite::{FENCE_CHECK, check_fence, make_fence_table};
use sqlx::Executor;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

use crate::support::*;

async fn shop(place: &Place, patience: Duration) -> SqlitePool {
    let file = SqliteConnectOptions::new()
        .filename(place.folder().join("shop.db"))
        .busy_timeout(patience)
        .create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(8).connect_with(file).await.unwrap();
    make_fence_table(&mut pool.acquire().await.unwrap()).await.unwrap();
    pool
}

const PATIENT: Duration = Duration::from_secs(20);

const SUPERSEDED: ErrorKind = ErrorKind::Lost(Reason::Superseded);

async fn sell(pool: &SqlitePool, name: &str, by: u64) -> Result<(), Error> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    check_fence(&mut tx, &fenced(name, by)).await?;
    tx.commit().await.unwrap();
    Ok(())
}

#[tokio::test]
async fn fences_up_to_the_largest_are_accepted() {
    let place = Place::new();
    let pool = shop(&place, PATIENT).await;
    sell(&pool, "a", Fence::MAX.get()).await.unwrap();
    for too_large in [Fence::MAX.get() + 1, u64::MAX] {
        refused(sell(&pool, "a", too_large).await, ErrorKind::InvalidInput, "");
    }
    refused(sell(&pool, "a", 9).await, SUPERSEDED, "the fence 9007199254740991 was accepted");
    for name in ["A", "ord'ers"] {
        sell(&pool, name, 1).await.unwrap();
    }
}

#[tokio::test]
async fn check_by_its_sql_finds_a_stale_fence() {
    let place = Place::new();
    let pool = shop(&place, PATIENT).await;
    for (fence, highest) in [(5, 5), (4, 5), (6, 6)] {
        let check = sqlx::query_scalar(FENCE_CHECK).bind("a").bind(fence);
        let found: i64 = check.fetch_one(&pool).await.unwrap();
        assert_eq!(found, highest);
    }
    refused(sell(&pool, "a", 5).await, SUPERSEDED, "");
}

#[tokio::test]
async fn rolled_back_write_refuses_no_later_write() {
    let place = Place::new();
    let pool = shop(&place, PATIENT).await;
    let mut tx = pool.begin().await.unwrap();
    check_fence(&mut tx, &fenced("a", 9)).await.unwrap();
    tx.rollback().await.unwrap();
    sell(&pool, "a", 5).await.unwrap();
}

#[tokio::test]
async fn a_file_without_the_table_says_what_to_do() {
    let place = Place::new();
    let pool = shop(&place, PATIENT).await;
    pool.execute("DROP TABLE lockwright_fence").await.unwrap();
    refused(sell(&pool, "a", 5).await, ErrorKind::InvalidConfig, "make_fence_table");
    for _ in 0..2 {
        make_fence_table(&mut pool.acquire().await.unwrap()).await.unwrap();
        sell(&pool, "a", 5).await.unwrap();
    }
    refused(sell(&pool, "a", 4).await, SUPERSEDED, "");
}

#[tokio::test]
async fn another_transaction_in_the_way_is_reported() {
    let place = Place::new();
    let pool = shop(&place, ms(50)).await;
    let mut first = pool.begin().await.unwrap();
    check_fence(&mut first, &fenced("a", 5)).await.unwrap();
    let mut second = pool.begin().await.unwrap();
    let answer = check_fence(&mut second, &fenced("a", 6)).await;
    refused(answer, ErrorKind::Unavailable, "BEGIN IMMEDIATE");
    first.commit().await.unwrap();
    check_fence(&mut second, &fenced("a", 6)).await.unwrap();
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_reported() {
    let place = Place::new();
    drop(shop(&place, PATIENT).await);
    let file = SqliteConnectOptions::new().filename(place.folder().join("shop.db")).read_only(true);
    let pool = SqlitePool::connect_with(file).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    refused(check_fence(&mut tx, &fenced("a", 6)).await, ErrorKind::Denied, "");
}
