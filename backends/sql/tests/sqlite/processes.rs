use std::fs;
use std::path::PathBuf;

use lockwright_sql::Sqlite;

use crate::support::*;

#[tokio::test]
#[ignore = "a part of other tests, played in a process of its own"]
async fn part() {
    let file = PathBuf::from(std::env::var_os(FOLDER).unwrap()).join("locks.db");
    match &*std::env::var(ROLE).unwrap() {
        "opener" => {
            print("ready");
            listen();
            let backend = Sqlite::open(&file).await.unwrap();
            let own = claim_for(&format!("p{}", std::process::id()), LONG);
            print(grant(&backend, &own).await.fence);
        }
        "writer" => {
            let backend = Sqlite::open(&file).await.unwrap();
            print("ready");
            for i in 0.. {
                let mine = claim_for(&format!("w{}", i % 10), ms(50));
                if matches!(backend.try_acquire(&mine).await.unwrap(), AcquireOutcome::Granted(_)) {
                    backend.release(&mine, ReleaseMode::Reconcile).await.unwrap();
                }
            }
        }
        "not-allowed-to-write" => crate::bad_input::as_another_user(&file).await,
        other => panic!("no such part: {other}"),
    }
}

#[tokio::test]
async fn a_hold_outlives_the_closing_of_the_file() {
    let place = Place::new();
    let backend = place.open().await;
    let mine = Claim { fences: 5, ..claim_for("x", LONG) };
    let fence = grant(&backend, &mine).await.fence;
    let boot = sqlx::query_scalar::<_, String>("SELECT boot FROM lockwright_lease");
    let boot = boot.fetch_one(&mut place.raw().await).await.unwrap();
    assert_eq!(boot, fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim());
    place.close(backend).await;

    let backend = place.open().await;
    let shown = busy(&backend, &claim_for("x", LONG), Wait::No).await.holder.unwrap();
    assert_eq!((shown.token, shown.fence), (Some(mine.token), Some(fence)));
    assert_eq!(shown.identity.as_ref(), Some(&*mine.identity));
    let again = grant(&backend, &mine).await;
    assert_eq!((again.fence, again.fences), (fence, 5), "a repeat after the restart");
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    place.close(backend).await;

    let backend = place.open().await;
    assert!(grant(&backend, &claim_for("x", LONG)).await.fence > fence);
}

#[tokio::test]
async fn a_hold_of_another_boot_is_over() {
    let place = Place::new();
    let backend = place.open().await;
    let old = claim_for("x", LONG);
    let fence = grant(&backend, &old).await.fence;
    // The backend's first sweep would delete the row that is changed below. This request waits for
    // the sweep's end.
    assert!(is_busy(&backend, &claim_for("x", LONG)).await);
    let mut raw = place.raw().await;
    sql(&mut raw, "UPDATE lockwright_lease SET boot = 'another', expires_ns = 9000000000000000000")
        .await;

    assert!(backend.inspect(&old.name).await.unwrap().holders.is_empty());
    assert!(backend.list("", None).await.unwrap().names.is_empty());
    assert_eq!(renew(&backend, &old).await, Renewal::not_held(Reason::Expired));
    let next = claim_for("x", LONG);
    assert!(grant(&backend, &next).await.fence > fence);
    assert!(is_busy(&backend, &old).await);
}

#[tokio::test]
async fn tables_are_made_once_by_eight_processes_at_once() {
    for _ in 0..5 {
        let place = Place::new();
        let mut openers: Vec<_> = (0..8).map(|_| start("opener", place.folder())).collect();
        for opener in &mut openers {
            assert_eq!(opener.next_line(), "ready");
        }
        for opener in &mut openers {
            opener.go_on();
        }
        let mut fences: Vec<u64> = Vec::new();
        for mut opener in openers {
            fences.push(opener.next_line().parse().unwrap());
            opener.finish();
        }
        fences.sort_unstable();
        fences.dedup();
        assert_eq!(fences.len(), 8, "fences repeat: {fences:?}");
    }
}

#[tokio::test]
async fn a_writer_killed_in_the_middle_leaves_a_sound_file() {
    let place = Place::new();
    let mut highest = 0;
    for round in 0..10 {
        let mut writers: Vec<_> = (0..2).map(|_| start("writer", place.folder())).collect();
        for writer in &mut writers {
            assert_eq!(writer.next_line(), "ready");
        }
        sleep(ms(20 + 7 * round)).await;
        for writer in &mut writers {
            writer.kill();
        }
        let backend = place.open().await;
        let fence = grant(&backend, &claim_for(&format!("r{round}"), LONG)).await.fence.get();
        assert!(fence > highest);
        highest = fence;
        assert_eq!(backend.doctor().await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_process_stopped_while_it_writes_makes_requests_fail_without_effect() {
    let place = Place::new();
    let backend = place.open().await;
    let held = hold(&backend, "held").await;
    let mut raw = place.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE").await;

    assert_eq!(backend.inspect(&held.name).await.unwrap().holders.len(), 1);
    let start = Instant::now();
    let mine = claim_for("x", LONG);
    refused(backend.try_acquire(&mine).await, ErrorKind::Unavailable, "another process");
    assert!(start.elapsed() < Duration::from_secs(10), "late: {:?}", start.elapsed());

    sql(&mut raw, "COMMIT").await;
    assert!(backend.inspect(&name("x")).await.unwrap().holders.is_empty(), "it had an effect");
    grant(&backend, &mine).await;
    assert_eq!(renew(&backend, &held).await, Renewal::RENEWED);
}

#[tokio::test]
async fn rows_of_the_dead_do_not_stay_for_ever() {
    let place = Place::new();
    let backend = place.open().await;
    for i in 0..50 {
        grant(&backend, &claim_for(&format!("orders/{i}"), LONG)).await;
        let none = claim_for(&format!("none/{i}"), LONG);
        backend.release(&none, ReleaseMode::Reconcile).await.unwrap();
    }
    place.close(backend).await;
    let mut raw = place.raw().await;
    sql(
        &mut raw,
        "UPDATE lockwright_lease SET expires_ns = 1, boot = 'another';
         UPDATE lockwright_tombstone SET boot = 'another'",
    )
    .await;
    let backend = place.open().await;
    let fence = grant(&backend, &claim_for("orders/7", LONG)).await.fence;
    let count = "SELECT (SELECT count(*) FROM lockwright_lease)
                      + (SELECT count(*) FROM lockwright_tombstone)";
    within(ms(5_000), "the rows to be swept", async || {
        let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut raw).await.unwrap();
        rows == 1
    })
    .await;
    assert!(grant(&backend, &claim_for("orders/8", LONG)).await.fence > fence);
}

#[tokio::test]
async fn a_file_that_was_replaced_is_noticed() {
    let place = Place::new();
    let backend = place.open().await;
    let mine = hold(&backend, "x").await;
    for file in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        fs::rename(place.folder().join(file), place.folder().join(format!("old-{file}"))).unwrap();
    }
    for _ in 0..2 {
        refused(backend.try_acquire(&claim_for("y", LONG)).await, ErrorKind::Unavailable, "");
        assert!(!place.file().exists(), "an empty file was put in its place");
    }
    let other = place.open().await;
    grant(&other, &claim_for("x", LONG)).await;
    assert_eq!(renew(&backend, &mine).await, Renewal::not_held(Reason::Gone));
}
