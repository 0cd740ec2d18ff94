//! Migration of a fleet from Redis to etcd, without two concurrent holders.
//!
//! ```text
//! cargo run --example migrate --features redis,etcd    # starts the servers
//! ```
//!
//! Processes of the old version (Redis) and of the new (etcd) don't exclude each other. So the
//! whole fleet first switches to an intermediate version, which holds both locks. The fences of two
//! backends aren't comparable, so each has its own register.
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockwright::fencing::{Fenced, Gate, Inside};
use lockwright::{Fence, LockName, Locks};
use lockwright_testbed::{Etcd, Redis};
use support::{Result, released};
use tokio::task::JoinSet;

const NAME: &str = "example/nightly-job";
const TURNS: u32 = 20;

#[derive(Clone, Copy)]
enum Version {
    Old,
    Between,
    New,
}

const STEPS: [(&str, [Version; 4]); 5] = {
    use Version::{Between, New, Old};
    [
        ("all old", [Old; 4]),
        ("some hold both", [Old, Old, Between, Between]),
        ("all hold both", [Between; 4]),
        ("some are new", [Between, Between, New, New]),
        ("all new", [New; 4]),
    ]
};

#[derive(Clone, Default)]
struct Registers {
    old: Gate,
    new: Gate,
}

impl Registers {
    async fn enter(&self, old: Option<Fence>, new: Option<Fence>) -> Result<Vec<Inside>> {
        let lock = LockName::new(NAME)?;
        let mut inside = Vec::new();
        for (register, fence) in [(&self.old, old), (&self.new, new)] {
            if let Some(fence) = fence {
                let fenced = Fenced { name: lock.clone(), fence };
                inside.push(register.enter(&lock, &fenced).await?);
            }
        }
        Ok(inside)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let start = || Ok::<_, lockwright_testbed::Error>((Redis::start()?, Etcd::start()?));
    let (redis, etcd) = tokio::task::spawn_blocking(start).await??;
    let (old, new) = (redis.url(), etcd.url());

    let versions = [Version::Old, Version::Old, Version::New, Version::New];
    let overlaps = together(versions, &old, &new, &Registers::default()).await?;
    println!("old and new version: {overlaps} overlaps of two holders");
    if overlaps == 0 {
        return Err("they didn't overlap, so this run showed nothing".into());
    }
    let late = fence_of_the_old(&old).await?;
    let registers = Registers::default();
    for (step, versions) in STEPS {
        let overlaps = together(versions, &old, &new, &registers).await?;
        println!("{step}: {overlaps} overlaps of two holders");
        if overlaps > 0 {
            return Err("two holders overlapped".into());
        }
    }
    match registers.enter(Some(late), None).await {
        Err(error) => println!("what the old version sends late: {error}"),
        Ok(_) => return Err("a late write of the old version was let in".into()),
    }
    println!("moved without a gap");
    Ok(())
}

async fn fence_of_the_old(old: &str) -> Result<Fence> {
    let old = lockwright::connect(old).await?;
    let guard = old.mutex(NAME).acquire().await?;
    let fence = guard.fence();
    released(guard.release().await)?;
    old.close().await;
    Ok(fence)
}

async fn together(
    versions: [Version; 4],
    old: &str,
    new: &str,
    registers: &Registers,
) -> Result<u32> {
    let (inside, overlaps) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut members = JoinSet::new();
    for version in versions {
        let (old, new) = (lockwright::connect(old).await?, lockwright::connect(new).await?);
        let (inside, overlaps) = (Arc::clone(&inside), Arc::clone(&overlaps));
        let registers = registers.clone();
        members.spawn(async move {
            for _ in 0..TURNS {
                let turn = async {
                    if inside.fetch_add(1, Ordering::SeqCst) > 0 {
                        overlaps.fetch_add(1, Ordering::SeqCst);
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                };
                under_the_lock(version, &old, &new, &registers, turn).await?;
            }
            old.close().await;
            new.close().await;
            Result::<()>::Ok(())
        });
    }
    members.join_all().await.into_iter().collect::<Result<()>>()?;
    Ok(overlaps.load(Ordering::SeqCst))
}

async fn under_the_lock(
    version: Version,
    old: &Locks,
    new: &Locks,
    registers: &Registers,
    turn: impl Future<Output = ()>,
) -> Result<()> {
    match version {
        Version::Old => {
            let guard = old.mutex(NAME).acquire().await?;
            let inside = registers.enter(Some(guard.fence()), None).await?;
            turn.await;
            drop(inside);
            released(guard.release().await)
        }
        Version::Between => {
            let both = old.multi([NAME]).and(new, [NAME]).acquire().await?;
            // The fences are in the order of the clients: Redis, etcd.
            let fences: Vec<Fence> = both.fences(NAME).collect();
            let inside = registers.enter(fences.first().copied(), fences.get(1).copied()).await?;
            turn.await;
            drop(inside);
            released(both.release().await)
        }
        Version::New => {
            let guard = new.mutex(NAME).acquire().await?;
            let inside = registers.enter(None, Some(guard.fence())).await?;
            turn.await;
            drop(inside);
            released(guard.release().await)
        }
    }
}
