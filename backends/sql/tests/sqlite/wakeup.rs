use lockwright_sql::Sqlite;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::*;

const SOON: Duration = Duration::from_secs(5);

async fn woken(events: &mut UnboundedReceiver<Event>, of: &str) {
    let event = timeout(SOON, events.recv()).await.expect("a wake-up got lost");
    assert_eq!(event, Some(Event::Wake(name(of))));
}

fn forget(events: &mut UnboundedReceiver<Event>) {
    while events.try_recv().is_ok() {}
}

fn far() -> Wait {
    in_time(LONG)
}

#[tokio::test]
async fn a_checkpoint_of_the_log_loses_no_wake_up() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let mut events = events(&here);
    let mut raw = place.raw().await;
    for _ in 0..4 {
        let held = hold(&there, "x").await;
        busy(&here, &claim_for("x", LONG), far()).await;
        sql(&mut raw, "PRAGMA wal_checkpoint(TRUNCATE)").await;
        release(&there, &held).await;
        woken(&mut events, "x").await;
        forget(&mut events);
    }
}

#[tokio::test]
async fn a_release_is_heard_through_a_symbolic_link() {
    let place = Place::new();
    let there = place.open().await;
    let link = place.folder().join("link.db");
    std::os::unix::fs::symlink(place.file(), &link).unwrap();
    let here = Sqlite::open(&link).await.unwrap();
    for (holder, waiter) in [(&there, &here), (&here, &there)] {
        let mut events = events(waiter);
        let held = hold(holder, "x").await;
        busy(waiter, &claim_for("x", LONG), far()).await;
        release(holder, &held).await;
        woken(&mut events, "x").await;
    }
}

#[tokio::test]
async fn held_name_wakes_no_waiter() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let mut events = events(&here);
    let (x, y) = (hold(&there, "x").await, hold(&there, "y").await);
    for of in ["x", "y"] {
        busy(&here, &claim_for(of, LONG), far()).await;
    }
    for i in 0..50 {
        acquire_and_release(&there, &format!("other{i}")).await;
    }
    for held in [&y, &x] {
        release(&there, held).await;
        woken(&mut events, held.name.as_str()).await;
    }
    assert!(events.try_recv().is_err());
}

/// Even if its size is larger than the remaining holders' sizes.
#[tokio::test]
async fn waiter_is_woken_if_the_permits_fit_its_own_size() {
    let permit_of = |of| Claim { mode: Mode::Permits { count: 1, of }, ..claim_for("x", LONG) };
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let mut events = events(&here);
    let (first, second) = (permit_of(1), permit_of(2));
    grant(&there, &first).await;
    grant(&there, &second).await;
    busy(&here, &permit_of(1), far()).await;
    busy(&here, &permit_of(2), far()).await;
    release(&there, &second).await;
    woken(&mut events, "x").await;
    assert!(events.try_recv().is_err());
    release(&there, &first).await;
}

#[tokio::test]
async fn a_release_in_the_same_transaction_is_not_lost() {
    let place = Place::new();
    let backend = place.open().await;
    let mut events = events(&backend);
    let held = hold(&backend, "x").await;
    let mine = claim_for("x", LONG);
    // Only wake-ups after the answer count, so forget the earlier ones.
    let asking = async {
        let attempt = backend.acquire(&mine, far()).await.unwrap();
        forget(&mut events);
        attempt
    };
    let batch = async { tokio::join!(asking, release(&backend, &held)) };
    let (attempt, ()) = in_one_transaction(&place, &backend, batch).await;
    if matches!(attempt, AcquireOutcome::Busy(_)) {
        woken(&mut events, "x").await;
    }
}

#[tokio::test]
async fn a_release_during_the_attempt_is_not_lost() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let mut events = events(&here);
    for _ in 0..100 {
        let held = hold(&there, "x").await;
        let mine = claim_for("x", LONG);
        let asking = async {
            let attempt = here.acquire(&mine, far()).await.unwrap();
            forget(&mut events);
            attempt
        };
        let (attempt, ()) = tokio::join!(asking, release(&there, &held));
        if matches!(attempt, AcquireOutcome::Busy(_)) {
            woken(&mut events, "x").await;
            grant(&here, &mine).await;
        }
        release(&here, &mine).await;
        forget(&mut events);
    }
}

#[tokio::test]
async fn the_log_is_watched_only_while_somebody_waits() {
    let place = Place::new();
    let backend = place.open().await;
    let log = std::fs::metadata(place.folder().join("locks.db-wal")).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&log);
    let watched = move || {
        let needle = format!("ino:{inode:x} ");
        std::fs::read_dir("/proc/self/fdinfo")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
            .any(|info| info.lines().any(|l| l.starts_with("inotify") && l.contains(&needle)))
    };
    hold(&backend, "x").await;
    assert!(!watched());
    busy(&backend, &claim_for("x", LONG), in_time(ms(300))).await;
    assert!(watched());
    within(SOON, "the watch to end", async || !watched()).await;
}
