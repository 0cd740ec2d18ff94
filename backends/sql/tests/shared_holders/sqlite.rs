use sqlx::Executor;

use self::place::Place;
use crate::rules::{self, Two};
use crate::support::*;

#[path = "../support/sqlite.rs"]
#[allow(dead_code, reason = "the tests of SQLite use the rest")]
mod place;

async fn start() -> (Place, Two) {
    let place = Place::new();
    let two = two(&place).await;
    (place, two)
}

async fn two(place: &Place) -> Two {
    Two::new(place.open().await, place.open().await)
}

rules::all!(start);

#[tokio::test]
async fn expired_rows_are_swept() {
    let (place, Two(one, _)) = start().await;
    rules::leave_behind(&*one).await;
    one.sweep(Duration::ZERO).await.unwrap();
    let left = sqlx::query("SELECT * FROM lockwright_shared_holder")
        .fetch_all(&mut place.raw().await)
        .await
        .unwrap();
    assert!(left.is_empty(), "{} rows are left", left.len());
}

#[tokio::test]
async fn a_file_of_the_first_layout_is_completed() {
    let place = Place::new();
    drop(place.open().await);
    let mut raw = place.raw().await;
    raw.execute("DROP TABLE lockwright_shared_holder").await.unwrap();
    let two = two(&place).await;
    assert!(two.0.doctor().await.unwrap().is_empty());
    rules::a_writer_that_waits_comes_next(two).await;
}
