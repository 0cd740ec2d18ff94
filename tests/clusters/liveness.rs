use std::time::Duration;

use lockwright_core::{DistributedLock, Guard, Locks};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::clusters::{locks, one_server, server_and_proxy};
use crate::common::{
    Backend, Cluster, LIMIT, assert_few_sessions, claim_for, connect, eventually, grant, is_clean,
    name,
};

const TTL: Duration = Duration::from_secs(2);

/// Time for the server to end an expired lease, for a waiter's slow poll, and for a busy machine.
const MORE: Duration = Duration::from_secs(4);

/// A simulated process, which runs only during `block_on`.
struct Process {
    runtime: Runtime,
    locks: Locks,
}

impl Process {
    fn start(server: &Cluster) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let locks = runtime.block_on(locks(server.url()));
        Self { runtime, locks }
    }

    fn acquire(&self) -> Guard {
        let asking = async { timeout(LIMIT, self.locks.mutex("x").ttl(TTL).acquire()).await };
        let answer = self.runtime.block_on(asking).expect("the lock is granted in time");
        answer.expect("the servers answer")
    }
}

#[test]
fn live_waiter_holds_after_the_dead_ones() {
    let server = one_server();
    for are_killed in [true, false] {
        for dead in [0, 3] {
            let took = wait_behind_the_dead(&server, dead, are_killed);
            eprintln!("behind {dead} waiters, killed: {are_killed}: {took:?}");
            assert!(
                took <= TTL + MORE,
                "late: {took:?} behind {dead} waiters, killed: {are_killed}"
            );
        }
    }
}

/// Kills the clients ahead of a live waiter if `are_killed`, else suspends them. Returns how long
/// the live waiter waited.
fn wait_behind_the_dead(server: &Cluster, dead_waiters: usize, are_killed: bool) -> Duration {
    let holder = Process::start(server);
    let held = holder.acquire();
    let waiters: Vec<Process> = (0..dead_waiters).map(|_| Process::start(server)).collect();
    let live = Process::start(server);
    let mut waits: Vec<_> =
        waiters.iter().map(|waiter| Box::pin(waiter.locks.mutex("x").ttl(TTL).acquire())).collect();
    for (waiter, wait) in waiters.iter().zip(&mut waits) {
        let queued = async { timeout(TTL / 8, wait).await.map(drop) };
        waiter.runtime.block_on(queued).expect_err("it is held");
        // The holder renews only while its runtime runs.
        holder.runtime.block_on(async { sleep(TTL / 8).await });
    }
    held.check().expect("it is held");
    let begun = Instant::now();
    if are_killed {
        // Without their runtimes, the clients send no release, as if killed.
        waiters.into_iter().for_each(|waiter| waiter.runtime.shutdown_background());
        holder.runtime.shutdown_background();
    }
    let next = live.acquire();
    let took = begun.elapsed();
    live.runtime.block_on(next.release()).expect("it is held");
    drop((held, waits));
    took
}

/// A guard is lost before the next grant if its runtime has ended or doesn't run.
#[test]
fn guard_without_a_runtime_is_lost() {
    let server = one_server();
    for ends in [true, false] {
        let (holder, other) = (Process::start(&server), Process::start(&server));
        let held = holder.acquire();
        if ends {
            holder.runtime.shutdown_background();
        }
        let next = other.acquire();
        held.check().expect_err("the lost hold is still valid");
        other.runtime.block_on(next.release()).expect("it is held");
    }
}

/// A closed client leaves the queue, even if its connection went silent just before.
#[tokio::test(flavor = "multi_thread")]
async fn closed_client_is_granted_nothing() {
    let (server, proxy, url) = server_and_proxy();
    let other = locks(server.url()).await;
    for is_silent in [false, true] {
        let (ours, held) = (locks(&url).await, other.mutex("x").acquire().await.unwrap());
        let waiting = tokio::spawn(ours.mutex("x").acquire());
        let look = || async { other.inspect("x").await.unwrap() };
        eventually(|| async { (look().await.waiters == Some(1)).then_some(()) }).await;
        if is_silent {
            proxy.silence_present();
        }
        timeout(LIMIT, ours.close()).await.expect("closing completes");
        held.release().await.unwrap();
        let refused = timeout(LIMIT, waiting).await.expect("the waiter ends in time").unwrap();
        refused.expect_err("a closed client was granted the lock");
        eventually(|| async { look().await.holders.is_empty().then_some(()) }).await;
    }
}

/// Requests to a frozen server time out. The keys or nodes that they create after the thaw expire.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_requests_leave_nothing_on_the_server() {
    let server = one_server();
    let locks = locks(server.url()).await;
    locks.mutex("warm").ttl(TTL).acquire().await.unwrap().release().await.unwrap();
    server.members[0].freeze();
    let mut burst = JoinSet::new();
    for at in 0..1_000 {
        let request = locks.mutex(format!("burst/{at}")).ttl(TTL).wait_for(TTL).acquire();
        burst.spawn(async move { request.await.map(drop) });
    }
    let begun = Instant::now();
    while let Some(refused) = burst.join_next().await {
        refused.unwrap().expect_err("no server answers");
    }
    let gave_up = begun.elapsed();
    assert!(gave_up < LIMIT, "{gave_up:?}");
    server.members[0].thaw();
    eventually(|| async { is_clean(&server).then_some(()) }).await;
    // A burst of answered requests needs only one additional lease or session.
    let mut burst = JoinSet::new();
    for at in 0..1_000 {
        let request = locks.mutex(format!("burst/{at}")).ttl(LIMIT).acquire();
        burst.spawn(async move { request.await.unwrap() });
    }
    let held = burst.join_all().await;
    assert_few_sessions(&server);
    drop(held);
}

/// The server dies, and the waiting claims expire. The error must report the dead server, without
/// the text `expiry`.
pub(crate) async fn waiter_gets_an_error(ttl: Duration, limit: Duration, expiry: &str) {
    let mut server = one_server();
    let holder = connect(&server.url()).await;
    grant(&holder, &claim_for("orders", ttl * 6)).await;
    let mut waiting = JoinSet::new();
    for limit in [None, Some(limit)] {
        let backend = Backend::connect(&server.url()).await.unwrap();
        let locks = Locks::builder(backend).ttl(ttl).build().unwrap();
        waiting.spawn(async move {
            let request = locks.mutex("orders");
            match limit {
                None => request.acquire().await,
                Some(limit) => request.wait_for(limit).acquire().await,
            }
            .unwrap_err()
        });
    }
    eventually(|| async {
        let found = holder.inspect(&name("orders")).await.ok()?;
        (found.waiters == Some(2)).then_some(())
    })
    .await;
    server.members[0].kill();
    for told in waiting.join_all().await {
        let told = format!("{told:?}");
        assert!(told.contains("refuses connections"), "{told}");
        assert!(!told.contains(expiry), "{told}");
    }
}
