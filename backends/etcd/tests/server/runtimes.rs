use std::time::Duration;

use lockwright_core::{DistributedLock, ErrorKind, Event, ReleaseMode, Wait};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

use crate::common::{
    FOR_EVER, LIMIT, busy, claim_for, connect, events, fails_with, grant, one_server,
};

const SHORT: Duration = Duration::from_secs(2);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The first acquire starts tasks for the lease and the watch, which must outlive its runtime.
#[test]
fn ended_runtime_of_the_first_caller_stops_no_tasks() {
    let cluster = one_server();
    let main = runtime();
    let etcd = main.block_on(connect(&cluster.url()));
    // This runtime ends with the statement.
    runtime().block_on(async {
        let first = claim_for("first", SHORT);
        grant(&etcd, &first).await;
        busy(&etcd, &claim_for("first", SHORT), FOR_EVER).await;
        etcd.release(&first, ReleaseMode::Plain).await.unwrap();
    });
    main.block_on(async {
        let other = connect(&cluster.url()).await;
        let (holds, waits) = (claim_for("orders", LIMIT), claim_for("orders", SHORT));
        grant(&other, &holds).await;
        busy(&etcd, &waits, FOR_EVER).await;
        let place = crate::queue::queue(&cluster, "orders").await.remove(1).0;
        let mut told = events(&etcd);
        let begun = Instant::now();
        while begun.elapsed() < SHORT * 3 {
            sleep(SHORT / 8).await;
            // The waiter sends no requests, so only the lease's task keeps the waiter's place.
            let now = crate::queue::queue(&cluster, "orders").await;
            assert_eq!(now.get(1).map(|(key, _)| key), Some(&place), "it lost its place");
        }
        other.release(&holds, ReleaseMode::Plain).await.unwrap();
        let woken = timeout(LIMIT, told.recv()).await.expect("no wakeup");
        assert!(matches!(woken, Some(Event::Wake(name)) if name == waits.name));
    });
}

#[test]
fn a_client_whose_runtime_has_ended_says_so_and_does_nothing() {
    let cluster = one_server();
    let first = runtime();
    let etcd = first.block_on(async {
        let etcd = connect(&cluster.url()).await;
        let claim = claim_for("first", SHORT);
        grant(&etcd, &claim).await;
        etcd.release(&claim, ReleaseMode::Plain).await.unwrap();
        etcd
    });
    drop(first);
    runtime().block_on(async {
        for wait in [Wait::No, FOR_EVER] {
            let claim = claim_for("orders", SHORT);
            fails_with(etcd.acquire(&claim, wait).await, ErrorKind::Unavailable, "runtime");
        }
        assert!(crate::queue::queue(&cluster, "orders").await.is_empty(), "it left a ghost");
        drop(etcd);
    });
}
