//! Tests with used-up sequence numbers, which have 32 bits.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode, Wait};

use crate::common::{
    Cluster, FOR_EVER, busy, claim_for, connect, eventually, fails, grant, granted_soon, node_of,
    persistent, raw, renewed,
};

const LONG: Duration = Duration::from_secs(30);

/// Starts a server that has created `nodes` nodes below `/lockwright/x`.
async fn server_after(nodes: i32) -> Cluster {
    // The test changes a snapshot, so the server takes one every few transactions. A digest would
    // reveal the change.
    let options = Cluster::options().members(1).property("zookeeper.snapCount", "10");
    let mut server = options.property("zookeeper.digest.enabled", "false").start().unwrap();
    let raw = raw(&server.url()).await;
    raw.mkdir("/lockwright/x", &persistent()).await.unwrap();
    let settings = fs::read_to_string(server.members[0].settings()).unwrap();
    let data = settings.lines().find_map(|line| line.strip_prefix("dataDir=")).unwrap();
    let data = PathBuf::from(data).join("version-2");
    eventually(|| async {
        raw.set_data("/lockwright", b"", None).await.unwrap();
        (set_counts(&data, 0) > 0).then_some(())
    })
    .await;
    drop(raw);
    server.members[0].kill();
    assert!(set_counts(&data, nodes) > 0);
    server.members[0].restart(true).unwrap();
    server
}

/// Changes the node count of `/lockwright/x` in all complete snapshots. Returns their number.
fn set_counts(data: &Path, nodes: i32) -> usize {
    let files = fs::read_dir(data).unwrap().map(|file| file.unwrap().path());
    let snapshots = files.filter(|file| file.file_stem().is_some_and(|stem| stem == "snapshot"));
    let changed = snapshots.filter(|file| {
        let mut snapshot = fs::read(file).unwrap();
        let is_changed = set_count(&mut snapshot, "/lockwright/x", nodes);
        if is_changed {
            fs::write(file, snapshot).unwrap();
        }
        is_changed
    });
    changed.count()
}

/// Changes a node's count of created children. Returns false if the node is missing or the snapshot
/// is incomplete.
fn set_count(snapshot: &mut [u8], node: &str, count: i32) -> bool {
    // Each part of a snapshot ends with a checksum and a slash.
    let ends: Vec<usize> = (8..snapshot.len().saturating_sub(4))
        .filter(|end| snapshot[*end..].starts_with(b"\0\0\0\x01/"))
        .filter(|end| snapshot[*end - 8..*end] == adler32(&snapshot[..*end - 8]).to_be_bytes())
        .collect();
    if ends.is_empty() {
        return false;
    }
    let length = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap()) as usize;
    let path = [&u32::try_from(node.len()).unwrap().to_be_bytes(), node.as_bytes()].concat();
    let Some(at) = snapshot.windows(path.len()).position(|window| window == path) else {
        return false;
    };
    let data = at + path.len();
    let acl = data + 4 + length(&snapshot[data..data + 4]);
    // The ACL, two transaction ids, two times and the version precede the count.
    let found = acl + 8 + 4 * 8 + 4;
    snapshot[found..found + 4].copy_from_slice(&count.to_be_bytes());
    for end in ends {
        let sum = adler32(&snapshot[..end - 8]);
        snapshot[end - 8..end].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

fn adler32(bytes: &[u8]) -> u64 {
    let (mut a, mut b) = (1, 0);
    for byte in bytes {
        a = (a + u64::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

#[tokio::test(flavor = "multi_thread")]
async fn spent_numbers_block_grants_until_the_queue_is_empty() {
    let server = server_after(i32::MAX - 3).await;
    let (raw, ours) = (raw(&server.url()).await, connect(&server.url()).await);
    let others = [connect(&server.url()).await, connect(&server.url()).await];
    let [first, second, third] = [(); 3].map(|()| claim_for("x", LONG));
    let mut fence = grant(&ours, &first).await.fence;
    busy(&others[0], &second, FOR_EVER).await;
    busy(&others[1], &third, FOR_EVER).await;
    let nodes = raw.list_children("/lockwright/x").await.unwrap();
    assert!(nodes.contains(&format!("{}2147483646", node_of(&third))), "{nodes:?}");

    // After the last number, claims aren't queued, and earlier claims keep their order.
    let late = claim_for("x", LONG);
    for (holder, held, next, waiting) in
        [(&ours, &first, &others[0], &second), (&others[0], &second, &others[1], &third)]
    {
        for (zookeeper, wait) in [(&ours, FOR_EVER), (&others[0], Wait::No), (&others[1], FOR_EVER)]
        {
            let told = busy(zookeeper, &claim_for("x", LONG), wait).await;
            assert!(!told.queued, "{told:?}");
        }
        assert!(!busy(&ours, &late, FOR_EVER).await.queued);
        renewed(holder, held).await;
        holder.release(held, ReleaseMode::Plain).await.unwrap();
        let granted = granted_soon(next, waiting, FOR_EVER).await;
        assert!(granted.fence > fence, "{granted:?} after {fence:?}");
        fence = granted.fence;
    }
    let nodes = raw.list_children("/lockwright/x").await.unwrap();
    assert_eq!(nodes.len(), 1, "{nodes:?}");

    others[1].release(&third, ReleaseMode::Plain).await.unwrap();
    assert!(granted_soon(&ours, &late, FOR_EVER).await.fence > fence);
    let nodes = raw.list_children("/lockwright/x").await.unwrap();
    assert_eq!(nodes, [format!("{}0000000000", node_of(&late))]);
    assert!(busy(&others[0], &claim_for("x", LONG), FOR_EVER).await.queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_prevent_a_restart_of_numbers_are_reported() {
    let server = server_after(i32::MAX).await;
    let (raw, zookeeper) = (raw(&server.url()).await, connect(&server.url()).await);
    raw.create("/lockwright/x/other", b"", &persistent()).await.unwrap();
    fails(zookeeper.try_acquire(&claim_for("x", LONG)).await, ErrorKind::Conflict);
    assert_eq!(raw.list_children("/lockwright/x").await.unwrap(), ["other"]);
    raw.delete("/lockwright/x/other", None).await.unwrap();
    granted_soon(&zookeeper, &claim_for("x", LONG), Wait::No).await;
}
