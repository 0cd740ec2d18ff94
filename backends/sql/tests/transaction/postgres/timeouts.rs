use lockwright_sql::transaction::Wait;

use super::server::*;
use super::shop::{begin_locked, sell, shop, stock};
use super::{advisory, limit, waiting};
use crate::expect::{PATIENCE, locked, refused};
use crate::support::*;

#[tokio::test]
async fn a_short_lock_timeout_of_the_user_does_not_end_a_wait() {
    let (server, pool) = shop().await;
    let holder = begin_locked(&pool, "a").await;
    let mut tx = pool.begin().await.unwrap();
    tx.execute("SET LOCAL lock_timeout = '50ms'").await.unwrap();
    let began = Instant::now();
    let (answer, ()) = tokio::join!(lock_in_transaction(&mut tx, "a", Wait::NoLimit), async {
        waiting(&server, 1).await;
        sleep(ms(300)).await;
        holder.rollback().await.unwrap();
    });
    locked(answer);
    assert!(began.elapsed() > ms(300));
    assert_eq!(limit(&mut tx).await, "50ms");
}

#[tokio::test]
async fn the_users_statement_timeout_is_an_error_that_leaves_the_transaction_usable() {
    let (_server, pool) = shop().await;
    let _holder = begin_locked(&pool, "a").await;
    let mut tx = pool.begin().await.unwrap();
    sell(&mut tx).await;
    tx.execute("SET LOCAL statement_timeout = '200ms'").await.unwrap();
    let answer = lock_in_transaction(&mut tx, "a", Wait::NoLimit).await;
    refused(answer, ErrorKind::Unavailable, "statement_timeout");
    assert_eq!(stock(&mut tx).await, 6);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn the_statement_of_a_dropped_wait_ends_though_the_holder_stays() {
    let (server, pool) = shop().await;
    let _holder = begin_locked(&pool, "a").await;
    let mut tx = pool.begin().await.unwrap();
    let wait = lock_in_transaction(&mut tx, "a", Wait::NoLimit);
    assert!(timeout(ms(300), wait).await.is_err());
    assert_eq!(advisory(&server, false), 1, "it goes on in the server");
    let began = Instant::now();
    // This call only receives the error of the dropped wait. The connection's next use sends the
    // rollback.
    let error = tx.rollback().await.unwrap_err();
    assert!(error.to_string().contains("lock timeout"), "{error}");
    assert!(began.elapsed() < ms(6_000), "late: {:?}", began.elapsed());
    assert_eq!(advisory(&server, false), 0);
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE usename = 'lockwright' AND state LIKE '%aborted%'";
    within(PATIENCE, "it was rolled back", async || count(&server, open) == 0).await;
}
