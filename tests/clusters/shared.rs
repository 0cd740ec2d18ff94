use std::time::Duration;

use lockwright_conformance::history::{History, Hold};
use lockwright_conformance::test_helpers::claim;
use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, DistributedLock, ErrorKind, Event, Fence, Locks, Mode,
    ReleaseMode, Wait,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::faults::now;
use super::server_and_client;
use crate::common::{
    ALIENS, Backend, FOR_EVER, busy, cluster_and_client, connect, entries, events, fails, grant,
    granted_soon, next, put_alien, released, remove_alien,
};

pub(crate) const PERMIT: Mode = Mode::Permits { count: 1, of: 3 };

pub(crate) fn claim_as(mode: Mode) -> Claim {
    Claim { mode, ..claim("x") }
}

async fn granted(backend: &Backend, claim: &Claim) -> Fence {
    granted_soon(backend, claim, FOR_EVER).await.fence
}

/// Queued readers share a fence, whichever of them is granted first. ZooKeeper's readers may use
/// different servers, some of which lag behind.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_waited_share_a_fence() {
    let (cluster, one) = cluster_and_client().await;
    let other = connect(&cluster.url()).await;
    let mut highest = Fence::new(0);
    for last_first in [false, true] {
        let writer = claim_as(Mode::Exclusive);
        let fence = grant(&one, &writer).await.fence;
        assert!(fence > highest);
        let readers: Vec<Claim> = (0..4).map(|_| claim_as(Mode::Shared)).collect();
        for reader in &readers {
            assert!(busy(&other, reader, FOR_EVER).await.queued);
        }
        one.release(&writer, ReleaseMode::Plain).await.unwrap();
        let (gone, rest) = readers.split_first().unwrap();
        let first = if last_first { &rest[2] } else { &rest[0] };
        let shared = granted(&other, first).await;
        assert!(shared > fence, "{shared} after {fence}");
        // The fence comes from the first queued reader, `gone`, which leaves before its own grant.
        released(&other, gone, ReleaseMode::Plain).await;
        for reader in rest {
            assert_eq!(granted(&other, reader).await, shared);
        }
        // `rest[0]` is now the first reader, with the fence that came from `gone`.
        other.release(&rest[0], ReleaseMode::Plain).await.unwrap();
        let late = claim_as(Mode::Shared);
        assert_eq!(grant(&one, &late).await.fence, shared);
        if last_first {
            assert_eq!(granted(&one, &late).await, shared, "a repeat");
        }
        for reader in &rest[1..] {
            other.release(reader, ReleaseMode::Plain).await.unwrap();
        }
        let shown = one.inspect(&late.name).await.unwrap();
        assert_eq!(shown.holders.iter().map(|one| one.fence).collect::<Vec<_>>(), [Some(shared)]);
        // The readers that gave `late` the fence are gone, but the fence stays.
        let later = claim_as(Mode::Shared);
        assert_eq!(grant(&other, &later).await.fence, shared);
        one.release(&late, ReleaseMode::Plain).await.unwrap();
        let next = claim_as(Mode::Exclusive);
        busy(&one, &next, FOR_EVER).await;
        other.release(&later, ReleaseMode::Plain).await.unwrap();
        highest = granted(&one, &next).await;
        assert!(highest > shared, "{highest} after {shared}");
        one.release(&next, ReleaseMode::Plain).await.unwrap();
    }
    assert_eq!(entries(&cluster, "x").await, 0);
}

/// Queued readers get the present reader's fence if the writer ahead of them gives up.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_gives_up_leaves_readers_their_fence() {
    let (_server, backend) = server_and_client().await;
    let (first, writer) = (claim_as(Mode::Shared), claim_as(Mode::Exclusive));
    let (second, third) = (claim_as(Mode::Shared), claim_as(Mode::Shared));
    let shared = grant(&backend, &first).await.fence;
    busy(&backend, &writer, FOR_EVER).await;
    for reader in [&second, &third] {
        busy(&backend, reader, FOR_EVER).await;
    }
    backend.release(&writer, ReleaseMode::Plain).await.unwrap();
    assert_eq!(granted(&backend, &third).await, shared);
    backend.release(&first, ReleaseMode::Plain).await.unwrap();
    assert_eq!(
        granted(&backend, &second).await,
        shared,
        "the second reader, granted after the first reader's release"
    );
    for reader in [&second, &third] {
        backend.release(reader, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_claim_leaves_nothing() {
    let (server, backend) = server_and_client().await;
    let permits = |count, of| Mode::Permits { count, of };
    let conflicts = async |mode, wait| {
        let answer = backend.acquire(&claim_as(mode), wait).await;
        assert_eq!(answer.err().map(|error| error.kind()), Some(ErrorKind::Conflict), "{mode}");
    };
    for held in [permits(2, 3), Mode::Shared, Mode::Exclusive] {
        let holds = claim_as(held);
        grant(&backend, &holds).await;
        for wait in [Wait::No, FOR_EVER] {
            for other in [Mode::Exclusive, Mode::Shared, permits(1, 3), permits(1, 4)] {
                if !other.is_of_the_kind_of(held) {
                    conflicts(other, wait).await;
                }
                assert_eq!(entries(&server, "x").await, 1, "{other} with {held} held");
            }
        }
        for other in [Mode::Exclusive, Mode::Shared, permits(2, 3)] {
            let is_beside = held == Mode::Shared && other == Mode::Shared;
            if other.is_of_the_kind_of(held) && !is_beside {
                busy(&backend, &claim_as(other), Wait::No).await;
                assert_eq!(entries(&server, "x").await, 1, "{other} with {held} held");
            }
        }
        backend.release(&holds, ReleaseMode::Plain).await.unwrap();
        assert_eq!(entries(&server, "x").await, 0);
    }
}

/// Claims of programs without Lockwright count as exclusive.
#[tokio::test(flavor = "multi_thread")]
async fn another_programs_claim_is_a_writers() {
    let (server, backend) = server_and_client().await;
    for kind in ALIENS {
        let reads = claim_as(Mode::Shared);
        grant(&backend, &reads).await;
        let theirs = put_alien(&server, kind).await;
        busy(&backend, &claim_as(Mode::Shared), Wait::No).await;
        backend.release(&reads, ReleaseMode::Plain).await.unwrap();
        let shown = backend.inspect(&reads.name).await.unwrap();
        assert!(matches!(&shown.holders[..], [one] if one.mode == Mode::Exclusive), "{shown:?}");
        busy(&backend, &claim_as(Mode::Shared), Wait::No).await;
        fails(backend.try_acquire(&claim_as(PERMIT)).await, ErrorKind::Conflict);
        remove_alien(&server, theirs).await;
        let again = claim_as(Mode::Shared);
        grant(&backend, &again).await;
        backend.release(&again, ReleaseMode::Plain).await.unwrap();
    }
}

/// Another program's claim holds the lock, and can be broken at once. Its end wakes waiters.
#[tokio::test(flavor = "multi_thread")]
async fn another_programs_claim_is_a_hold() {
    let (server, backend) = server_and_client().await;
    let mut told = events(&backend);
    let first = claim("x");
    grant(&backend, &first).await;
    released(&backend, &first, ReleaseMode::Plain).await;
    let broken =
        async |how| backend.break_lock(&first.name, BreakTarget::Any, how, "me", "why").await;
    for kind in ALIENS {
        let theirs = put_alien(&server, kind).await;
        let waits = claim("x");
        busy(&backend, &claim("x"), Wait::No).await;
        assert!(busy(&backend, &waits, FOR_EVER).await.queued);
        let shown = backend.inspect(&waits.name).await.unwrap();
        assert_eq!((shown.holders[0].token, shown.waiters), (None, Some(1)));
        fails(broken(BreakMode::RunOut).await, ErrorKind::Conflict);
        remove_alien(&server, theirs).await;
        assert_eq!(next(&mut told).await, Event::Wake(waits.name.clone()));
        granted(&backend, &waits).await;
        released(&backend, &waits, ReleaseMode::Plain).await;
    }
    let _theirs = put_alien(&server, ALIENS[0]).await;
    let freed = broken(BreakMode::Now).await.unwrap();
    assert_eq!(freed, Broken::Freed(Duration::MAX), "it never detects the loss");
    grant(&backend, &claim("x")).await;
}

/// A waiter is woken when the claim ahead of it ends, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_next_waiter_is_woken() {
    let (server, holder) = server_and_client().await;
    let held = claim("x");
    grant(&holder, &held).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let (backend, claim) = (connect(&server.url()).await, claim("x"));
        let told = events(&backend);
        for _ in 0..2 {
            assert!(busy(&backend, &claim, FOR_EVER).await.queued);
        }
        waiting.push((backend, claim, told));
    }
    let [(one, first, to_one), (two, second, to_two), (three, third, to_three)] = &mut waiting[..]
    else {
        unreachable!("there are three waiters");
    };
    let woken = Event::Wake(held.name.clone());
    released(&holder, &held, ReleaseMode::Plain).await;
    assert_eq!(next(to_one).await, woken);
    granted(one, first).await;
    // The middle waiter gives up, so the last waiter's predecessor is now the first.
    released(two, second, ReleaseMode::Plain).await;
    assert_eq!(next(to_three).await, woken);
    assert!(busy(three, third, FOR_EVER).await.queued);
    assert!(to_two.try_recv().is_err(), "the middle waiter was woken");
    released(one, first, ReleaseMode::Plain).await;
    assert_eq!(next(to_three).await, woken);
    granted(three, third).await;
    assert!(to_three.try_recv().is_err(), "the last waiter was woken early");
}

/// Another program gets the lock ahead of a waiter for permits. The waiter's request fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_becomes_another_programs_lock_is_left() {
    let (server, backend) = server_and_client().await;
    let (held, waits) = (claim_as(PERMIT), claim_as(PERMIT));
    grant(&backend, &held).await;
    let _theirs = put_alien(&server, ALIENS[0]).await;
    busy(&backend, &waits, FOR_EVER).await;
    backend.release(&held, ReleaseMode::Plain).await.unwrap();
    fails(backend.acquire(&waits, FOR_EVER).await, ErrorKind::Conflict);
    assert_eq!(entries(&server, "x").await, 1);
}

/// Many tasks on two clients: writers are exclusive, concurrent readers share a fence, permits are
/// limited, and their ids are unique.
#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_are_kept_in_order() {
    let (cluster, backend) = cluster_and_client().await;
    let locks = |backend| Locks::builder(backend).ttl(Duration::from_secs(20)).build().unwrap();
    let clients = [locks(backend), locks(connect(&cluster.url()).await)];
    let history = History::default();
    let mut tasks = JoinSet::new();
    for at in 0..12_usize {
        let (locks, history) = (clients[at % clients.len()].clone(), history.clone());
        tasks.spawn(async move {
            for turn in 0..8 {
                let asked = now();
                let hold = |name: &str, mode, token, fence, granted| Hold {
                    who: format!("task {at}"),
                    name: name.to_owned(),
                    mode,
                    token,
                    fence,
                    asked,
                    granted,
                    until: now(),
                };
                if (at + turn) % 4 == 1 {
                    let count = u32::try_from(turn).unwrap() % 3 + 1;
                    let request = locks.semaphore("permits", 5).permits(count);
                    let permit = request.acquire().await.unwrap();
                    let granted = now();
                    sleep(Duration::from_millis(5)).await;
                    let id = Fence::new(permit.id());
                    history.add(hold("permits", permit.mode(), permit.token(), id, granted));
                    permit.release().await.unwrap();
                    continue;
                }
                let writes = (at + turn) % 4 == 0;
                let request = if writes { locks.write("rw") } else { locks.read("rw") };
                let guard = request.acquire().await.unwrap();
                let granted = now();
                sleep(Duration::from_millis(5)).await;
                history.add(hold("rw", guard.mode(), guard.token(), guard.fence(), granted));
                guard.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(history.check(true), []);
    let holds = history.holds();
    let readers: Vec<&Hold> = holds.iter().filter(|hold| hold.mode == Mode::Shared).collect();
    let mut concurrent = readers.windows(2).filter(|pair| pair[1].granted < pair[0].until);
    assert!(concurrent.clone().count() > 0, "inconclusive: no readers held at the same time");
    assert!(concurrent.all(|pair| pair[0].fence == pair[1].fence), "{readers:#?}");
    for name in ["rw", "permits"] {
        assert_eq!(entries(&cluster, name).await, 0);
    }
}
