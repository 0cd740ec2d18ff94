use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, DistributedLock, Event, Events, ReleaseMode, Wait,
};
use lockwright_sql::Sqlite;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::support::*;

fn wakes(backend: &Sqlite) -> UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    backend.attach(Events::to(move |event| match event {
        Event::Wake(name) => send.send(name.as_str().to_owned()).is_ok(),
        _ => true,
    }));
    receive
}

fn far() -> Wait {
    in_time(LONG)
}

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_release_elsewhere_wakes_who_waits_for_it() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let mut woken = wakes(&here);
    let mut raw = place.raw().await;
    for round in 0..20 {
        let held = hold(&there, "x").await;
        let mine = claim_for("x", LONG);
        busy(&here, &mine, far()).await;
        if round % 5 == 4 {
            // A checkpoint truncates the log, which must not affect the wake-up.
            sql(&mut raw, "PRAGMA wal_checkpoint(TRUNCATE)").await;
        }
        if round % 2 == 0 {
            there.release(&held, ReleaseMode::Plain).await.unwrap();
        } else {
            there.break_lock(&held.name, BreakTarget::Any, BreakMode::Now, "", "").await.unwrap();
        }
        let name = tokio::time::timeout(SOON, woken.recv()).await.expect("a wake-up got lost");
        assert_eq!(name.as_deref(), Some("x"));
        grant(&here, &mine).await;
        here.release(&mine, ReleaseMode::Plain).await.unwrap();
        while woken.try_recv().is_ok() {}
    }
}

#[tokio::test]
async fn a_release_is_heard_through_a_symbolic_link() {
    let place = Place::new();
    let there = place.open().await;
    let link = place.folder().join("link.db");
    std::os::unix::fs::symlink(place.file(), &link).unwrap();
    let here = Sqlite::open(&link).await.unwrap();
    let (mut woken_here, mut woken_there) = (wakes(&here), wakes(&there));
    for (holder, waiter, woken) in
        [(&there, &here, &mut woken_here), (&here, &there, &mut woken_there)]
    {
        let held = hold(holder, "x").await;
        busy(waiter, &claim_for("x", LONG), far()).await;
        holder.release(&held, ReleaseMode::Plain).await.unwrap();
        tokio::time::timeout(SOON, woken.recv()).await.expect("a wake-up got lost");
        while woken.try_recv().is_ok() {}
    }
}

#[tokio::test]
async fn held_name_wakes_no_waiter() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let mut woken = wakes(&here);
    let (x, y) = (claim_for("x", LONG), claim_for("y", LONG));
    for held in [&x, &y] {
        grant(&there, held).await;
        let waiting = claim_for(held.name.as_str(), LONG);
        busy(&here, &waiting, far()).await;
    }
    for i in 0..50 {
        let other = claim_for(&format!("other{i}"), LONG);
        grant(&there, &other).await;
        there.release(&other, ReleaseMode::Plain).await.unwrap();
    }
    for held in [&y, &x] {
        there.release(held, ReleaseMode::Plain).await.unwrap();
        let first = tokio::time::timeout(SOON, woken.recv()).await.expect("a wake-up got lost");
        assert_eq!(first.as_deref(), Some(held.name.as_str()));
    }
    assert!(woken.try_recv().is_err());
}

#[tokio::test]
async fn a_release_in_the_same_transaction_is_not_lost() {
    let place = Place::new();
    let backend = place.open().await;
    let mut woken = wakes(&backend);
    let held = hold(&backend, "x").await;
    let mine = claim_for("x", LONG);
    // Only wake-ups after the answer count, so the earlier ones are discarded.
    let asking = async {
        let attempt = backend.acquire(&mine, far()).await.unwrap();
        while woken.try_recv().is_ok() {}
        attempt
    };
    let batch = async { tokio::join!(asking, backend.release(&held, ReleaseMode::Plain)) };
    let (attempt, _) = in_one_transaction(&place, &backend, batch).await;
    if matches!(attempt, AcquireOutcome::Busy(_)) {
        tokio::time::timeout(SOON, woken.recv()).await.expect("a wake-up got lost");
    }
}

#[tokio::test]
async fn a_release_wakes_the_other_clients_of_the_same_backend() {
    let place = Place::new();
    let backend = place.open().await;
    let (mut one, mut two) = (wakes(&backend), wakes(&backend));
    acquire_and_release(&backend, "x").await;
    assert_eq!(one.try_recv().unwrap(), "x");
    assert_eq!(two.try_recv().unwrap(), "x");
}

#[tokio::test]
async fn a_release_during_the_attempt_is_not_lost() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let mut woken = wakes(&here);
    for _ in 0..100 {
        let held = hold(&there, "x").await;
        let mine = claim_for("x", LONG);
        let asking = async {
            let attempt = here.acquire(&mine, far()).await;
            while woken.try_recv().is_ok() {}
            attempt
        };
        let (attempt, _) = tokio::join!(asking, there.release(&held, ReleaseMode::Plain));
        if matches!(attempt.unwrap(), AcquireOutcome::Busy(_)) {
            tokio::time::timeout(SOON, woken.recv()).await.expect("a wake-up got lost");
            grant(&here, &mine).await;
        }
        here.release(&mine, ReleaseMode::Plain).await.unwrap();
        while woken.try_recv().is_ok() {}
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
    let short = in_time(ms(300));
    busy(&backend, &claim_for("x", LONG), short).await;
    assert!(watched());
    within(SOON, "the watch to end", async || !watched()).await;
}
