use lockwright_core::{DistributedLock, ErrorKind, Mode, ReleaseMode, Wait};

use crate::clusters::shared::claim_as;
use crate::common::{FOR_EVER, busy, ephemeral, fails, grant, queue, raw, server_and_client};

const PERMIT: Mode = Mode::Permits { count: 1, of: 3 };

/// A Curator client gets the lock ahead of a waiter for permits. The waiter's request fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_becomes_another_programs_lock_is_left() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    let (held, waits) = (claim_as(PERMIT), claim_as(PERMIT));
    grant(&zookeeper, &held).await;
    raw.create("/lockwright/x/_c_theirs-lock-", b"", &ephemeral()).await.unwrap();
    busy(&zookeeper, &waits, FOR_EVER).await;
    zookeeper.release(&held, ReleaseMode::Plain).await.unwrap();
    let answer = zookeeper.acquire(&waits, FOR_EVER).await;
    fails(answer, ErrorKind::Conflict);
    assert_eq!(queue(&raw, "x").await.len(), 1);
}

/// Nodes of Curator's mutex and of its read locks count as writers.
#[tokio::test(flavor = "multi_thread")]
async fn another_programs_node_is_a_writers() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    for kind in ["lock-", "__READ__"] {
        let reads = claim_as(Mode::Shared);
        grant(&zookeeper, &reads).await;
        let theirs = format!("/lockwright/x/_c_7b0a1f2e-1111-4222-8333-444455556666-{kind}");
        let (_, sequence) = raw.create(&theirs, b"", &ephemeral()).await.unwrap();
        busy(&zookeeper, &claim_as(Mode::Shared), Wait::No).await;
        zookeeper.release(&reads, ReleaseMode::Plain).await.unwrap();
        let shown = zookeeper.inspect(&reads.name).await.unwrap();
        assert!(matches!(&shown.holders[..], [one] if one.mode == Mode::Exclusive), "{shown:?}");
        busy(&zookeeper, &claim_as(Mode::Shared), Wait::No).await;
        let permit = zookeeper.try_acquire(&claim_as(PERMIT)).await;
        fails(permit, ErrorKind::Conflict);
        raw.delete(&format!("{theirs}{sequence}"), None).await.unwrap();
        let again = claim_as(Mode::Shared);
        grant(&zookeeper, &again).await;
        zookeeper.release(&again, ReleaseMode::Plain).await.unwrap();
    }
}
