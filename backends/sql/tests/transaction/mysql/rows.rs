use lockwright_sql::transaction::Wait;

use super::server::*;
use super::shop::{begin_locked, sell_at_once, shop, stock};
use super::{DEFAULT_LIMIT, limit, waiting};
use crate::expect::refused;
use crate::support::*;

#[tokio::test]
async fn many_that_meet_a_new_name_get_it_one_after_the_other() {
    let (_server, pool) = shop().await;
    pool.execute("UPDATE stock SET number = 60").await.unwrap();
    for round in 0..3 {
        sell_at_once(&pool, 20, &format!("new/{round}")).await;
    }
    assert_eq!(stock(&mut pool.acquire().await.unwrap()).await, 0);
}

#[tokio::test]
async fn when_a_new_name_is_rolled_back_a_waiter_may_have_to_begin_again() {
    let (server, pool) = shop().await;
    let first = begin_locked(&pool, "new").await;
    let mut waiters = JoinSet::new();
    for _ in 0..3 {
        let mut tx = pool.begin().await.unwrap();
        waiters.spawn(async move {
            let answer = lock_in_transaction(&mut tx, "new", Wait::NoLimit).await;
            tx.commit().await.unwrap();
            answer
        });
    }
    waiting(&server, 3).await;
    first.rollback().await.unwrap();
    let answers = waiters.join_all().await;
    assert!(answers.iter().any(Result::is_ok));
    for error in answers.into_iter().filter(Result::is_err) {
        refused(error, ErrorKind::Unavailable, "begin it again");
    }
    begin_locked(&pool, "new").await;
}

#[tokio::test]
async fn the_statement_of_a_dropped_wait_ends_though_the_holder_stays() {
    let (server, pool) = shop().await;
    let _holder = begin_locked(&pool, "a").await;
    let mut connection = Connection::connect(&server.url()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let wait = lock_in_transaction(&mut tx, "a", Wait::NoLimit);
    assert!(timeout(ms(300), wait).await.is_err());
    waiting(&server, 1).await;
    let began = Instant::now();
    drop(tx);
    // A ping succeeds only after the dropped wait has ended.
    while connection.ping().await.is_err() {}
    assert!(began.elapsed() < ms(7_000), "late: {:?}", began.elapsed());
    waiting(&server, 0).await;
    assert_eq!(limit(&mut connection).await, DEFAULT_LIMIT);
}
