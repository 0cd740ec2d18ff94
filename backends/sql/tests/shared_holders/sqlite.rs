use self::place::Place;
use crate::rules::{self, Two};
use crate::support::*;

#[path = "../support/sqlite.rs"]
#[allow(dead_code, reason = "the tests of SQLite use the rest")]
mod place;

async fn start() -> (Place, Two) {
    let place = Place::new();
    let two = Two::new(place.open().await, place.open().await);
    (place, two)
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
