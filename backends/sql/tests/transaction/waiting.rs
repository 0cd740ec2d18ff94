use lockwright_sql::transaction::{Outcome, Wait};
use sqlx::{Connection as _, Executor};
use tokio::time::timeout;

use super::server::*;
use super::shop::{begin_locked, sell, shop, shop_on, stock};
use super::{
    DEFAULT_LIMIT, LOCAL_LIMIT, SESSION_LIMIT, SET_LEVEL, limit, nothing_is_locked,
    server_that_detects_late, waiting,
};
use crate::expect::{BRIEFLY, PATIENCE, busy, locked, refused};
use crate::support::*;

/// The waiter must not read from a snapshot taken before the wait.
#[tokio::test]
async fn a_waiter_gets_it_with_the_commit_and_sees_what_was_done() {
    let (server, pool) = shop().await;
    for set_level in SET_LEVEL {
        for wait in [Wait::NoLimit, Wait::For(PATIENCE)] {
            let mut holder = pool.begin().await.unwrap();
            locked(lock_in_transaction(&mut holder, "a", Wait::For(PATIENCE)).await);
            let before = stock(&mut holder).await;
            let mut waiter = Connection::connect(&server.url()).await.unwrap();
            waiter.execute(*set_level).await.unwrap();
            let waiter = tokio::spawn(async move {
                let mut waiter = waiter.begin().await.unwrap();
                locked(lock_in_transaction(&mut waiter, "a", wait).await);
                let left = stock(&mut waiter).await;
                waiter.commit().await.unwrap();
                left
            });
            waiting(&server, 1).await;
            sell(&mut holder).await;
            holder.commit().await.unwrap();
            assert_eq!(waiter.await.unwrap(), before - 1, "{set_level} {wait:?}");
        }
    }
}

#[tokio::test]
async fn a_wait_is_as_long_as_was_asked_for() {
    let (_server, pool) = shop().await;
    let _holder = begin_locked(&pool, "a").await;
    let mut tx = pool.begin().await.unwrap();
    for limit in [0, 300, 1_300, 5_500].map(ms) {
        let began = Instant::now();
        busy(lock_in_transaction(&mut tx, "a", Wait::For(limit)).await);
        let took = began.elapsed();
        assert!(took >= limit && took < limit + ms(2_000), "late: {limit:?}: {took:?}");
    }
}

/// The wait must not change the transaction's work, its savepoints, or any lock limit.
#[tokio::test]
async fn after_each_outcome_the_transaction_is_as_it_was() {
    let (server, pool) = shop().await;
    for (case, wait) in [
        ("taken", Wait::No),
        ("taken", BRIEFLY),
        ("free", Wait::NoLimit),
        ("released", Wait::NoLimit),
    ] {
        let mut holder = pool.begin().await.unwrap();
        if case != "free" {
            locked(lock_in_transaction(&mut holder, "a", Wait::For(PATIENCE)).await);
        }
        let mut holder = Some(holder);
        let mut connection = Connection::connect(&server.url()).await.unwrap();
        connection.execute(SESSION_LIMIT.0).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        tx.execute(LOCAL_LIMIT.0).await.unwrap();
        tx.execute("SAVEPOINT lockwright").await.unwrap();
        // `sell` reads with a lock, so it takes no snapshot before the wait.
        sell(&mut tx).await;

        let began = Instant::now();
        let (answer, ()) = tokio::join!(lock_in_transaction(&mut tx, "a", wait), async {
            if case == "released" {
                waiting(&server, 1).await;
                holder.take().unwrap().commit().await.unwrap();
            }
        });
        assert_eq!(answer.unwrap().is_locked(), case != "taken");
        if let Some(holder) = holder {
            holder.rollback().await.unwrap();
        }
        if let Wait::For(limit) = wait {
            assert!(began.elapsed() >= limit, "{:?}", began.elapsed());
        }

        assert_eq!(limit(&mut tx).await, LOCAL_LIMIT.1, "{case} {wait:?}");
        let after = stock(&mut tx).await;
        tx.execute("ROLLBACK TO SAVEPOINT lockwright").await.unwrap();
        assert_eq!(stock(&mut tx).await, after + 1, "it was the user's own savepoint");
        sell(&mut tx).await;
        tx.commit().await.unwrap();
        assert_eq!(limit(&mut connection).await, SESSION_LIMIT.1, "{case} {wait:?}");
        assert_eq!(stock(&mut connection).await, after, "what it did was committed");
    }
}

#[tokio::test]
async fn a_deadlock_is_an_error_of_one() {
    let (_server, pool) = shop().await;
    let (loser, winner) = deadlock(&pool).await;
    refused(loser, ErrorKind::Unavailable, "a deadlock");
    locked(winner);
}

/// PostgreSQL detects this test's deadlock after six seconds, MySQL never. So a statement must wait
/// beyond the usual limit of five seconds.
#[tokio::test]
async fn a_deadlock_ends_without_early_detection() {
    let (_server, pool) = shop_on(server_that_detects_late()).await;
    let (loser, _) = timeout(PATIENCE, deadlock(&pool)).await.expect("late: the deadlock ends");
    refused(loser, ErrorKind::Unavailable, "deadlock");
}

async fn deadlock(pool: &Pool) -> (Result<Outcome, Error>, Result<Outcome, Error>) {
    let (mut one, mut two) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    locked(lock_in_transaction(&mut one, "a", Wait::NoLimit).await);
    locked(lock_in_transaction(&mut two, "b", Wait::NoLimit).await);
    // One transaction gets the error and rolls back, and the other gets its lock.
    let cross = async |mut tx: sqlx::Transaction<'static, Database>, name: &str| {
        let answer = lock_in_transaction(&mut tx, name, Wait::NoLimit).await;
        let _ = stock(&mut tx).await;
        tx.rollback().await.unwrap();
        answer
    };
    let (one, two) = tokio::join!(cross(one, "b"), cross(two, "a"));
    if one.is_err() { (one, two) } else { (two, one) }
}

#[tokio::test]
async fn of_a_dropped_wait_nothing_holds_the_lock_later() {
    let (server, pool) = shop().await;
    let holder = begin_locked(&pool, "a").await;
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(limit(&mut tx).await, DEFAULT_LIMIT);
    let wait = tokio::spawn(async move { lock_in_transaction(&mut tx, "a", Wait::NoLimit).await });
    waiting(&server, 1).await;
    wait.abort();
    assert!(wait.await.unwrap_err().is_cancelled());
    // The aborted task's transaction is dropped, so it doesn't block `next`.
    holder.commit().await.unwrap();
    let mut next = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut next, "a", Wait::For(PATIENCE)).await);
    next.commit().await.unwrap();
    nothing_is_locked(&server).await;
    for _ in 0..10 {
        assert_eq!(limit(&mut pool.acquire().await.unwrap()).await, DEFAULT_LIMIT);
    }
}
