//! Two clients, many tasks and a backend in trouble, from a seed: whatever happens, one believer at a
//! time, growing fences, no turn and no claim lost, and nothing left in the end.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lockwright_core::{
    Attempt, Claim, Clock, Cursor, DistributedLock, Ended, Error, Events, Finding, Guard,
    Inspection, LockName, Locks, Owner, Page, Profile, Renew, Renewal, Result, Settle, Signal,
    Token, Wait, async_trait,
};
use lockwright_memory::Memory;
use tokio::time::{sleep, timeout};

use crate::support::{millis, secs, settle_down};

/// How many schedules are gone through: some seconds of them.
const SEEDS: u64 = 250;

/// Where each schedule's chances come from (xorshift64).
#[derive(Debug)]
struct Chance(Mutex<u64>);

impl Chance {
    fn from(seed: u64) -> Self {
        Self(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) % limit
    }

    fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Pass,
    AnswerLate,
    ArriveLate,
    AnswerLost,
    DoneAndSilent,
    Vanish,
    Refused,
    Panic,
    DoneAndPanic,
    Yield,
}

const TROUBLES: [Fate; 9] = [
    Fate::AnswerLate,
    Fate::ArriveLate,
    Fate::AnswerLost,
    Fate::DoneAndSilent,
    Fate::Vanish,
    Fate::Refused,
    Fate::Panic,
    Fate::DoneAndPanic,
    Fate::Yield,
];

#[derive(Debug, Clone)]
struct Troubled {
    memory: Memory,
    chance: Arc<Chance>,
    /// In how many of a hundred calls.
    trouble: u64,
    calm: Arc<AtomicBool>,
    profile: Arc<Profile>,
    answers_at_once: bool,
}

impl Troubled {
    fn fate(&self) -> Fate {
        if self.calm.load(Ordering::SeqCst) || self.chance.below(100) >= self.trouble {
            return Fate::Pass;
        }
        TROUBLES[self.chance.below(TROUBLES.len() as u64) as usize]
    }

    async fn meet<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let time = millis(self.chance.below(3_000));
        match self.fate() {
            Fate::Pass => call.await,
            Fate::AnswerLate => {
                let answer = call.await;
                sleep(time * 2).await;
                answer
            }
            Fate::ArriveLate => {
                sleep(time).await;
                call.await
            }
            Fate::AnswerLost => {
                let _ = call.await;
                Err(Error::indeterminate("the answer was lost"))
            }
            Fate::DoneAndSilent => {
                let _ = call.await;
                pending().await
            }
            Fate::Vanish => pending().await,
            Fate::Refused => Err(Error::unavailable("refused")),
            Fate::Panic => panic!("on purpose"),
            Fate::DoneAndPanic => {
                let _ = call.await;
                panic!("on purpose")
            }
            Fate::Yield => {
                tokio::task::yield_now().await;
                let answer = call.await;
                tokio::task::yield_now().await;
                answer
            }
        }
    }

    fn meet_at_once<T>(&self, call: impl FnOnce() -> Option<Result<T>>) -> Option<Result<T>> {
        if !self.answers_at_once {
            return None;
        }
        match self.fate() {
            Fate::AnswerLost => {
                call();
                Some(Err(Error::indeterminate("the answer was lost")))
            }
            Fate::Refused => Some(Err(Error::unavailable("refused"))),
            Fate::Panic => panic!("on purpose"),
            Fate::DoneAndPanic => {
                call();
                panic!("on purpose")
            }
            Fate::Yield | Fate::AnswerLate => None,
            _ => call(),
        }
    }
}

#[async_trait]
impl DistributedLock for Troubled {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.memory.attach(events);
    }

    fn acquire_at_once(&self, claim: &Claim) -> Option<Result<Attempt>> {
        self.meet_at_once(|| self.memory.acquire_at_once(claim))
    }

    fn release_at_once(&self, claim: &Claim, settle: Settle) -> Option<Result<Ended>> {
        self.meet_at_once(|| self.memory.release_at_once(claim, settle))
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<Attempt> {
        self.meet(self.memory.acquire(claim, wait)).await
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        self.meet(self.memory.renew(holds)).await
    }

    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        self.meet(self.memory.release(claim, settle)).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.memory.inspect(name).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        self.memory.list(prefix, from).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.memory.doctor().await
    }
}

/// Who believes, by name.
#[derive(Default)]
struct Believers(Mutex<HashMap<&'static str, Believed>>);

#[derive(Default)]
struct Believed {
    highest_fence: u64,
    by: Vec<(Token, Signal)>,
}

impl Believers {
    fn join(&self, name: &'static str, guard: &Guard) {
        let mut names = self.0.lock().unwrap();
        let Believed { highest_fence, by } = names.entry(name).or_default();
        by.retain(|(_, signal)| signal.state().is_live());
        if guard.check().is_err() {
            return;
        }
        // Those of one owner share a hold.
        assert!(by.iter().all(|(token, _)| *token == guard.token()), "two believers");
        if by.is_empty() {
            assert!(guard.fence().get() > *highest_fence, "fences grow");
            *highest_fence = guard.fence().get();
        }
        by.push((guard.token(), guard.signal()));
    }
}

const NAMES: [&str; 2] = ["a", "b"];

struct World {
    clients: Vec<Locks>,
    owners: [Owner; 2],
    chance: Arc<Chance>,
    believers: Believers,
}

impl World {
    /// One request with options, patience and an end as chance has them.
    async fn one_hold(&self) {
        let chance = &self.chance;
        let name = NAMES[chance.below(2) as usize];
        let mut request = self.clients[chance.below(2) as usize].mutex(name);
        if chance.one_in(3) {
            request = request.reentrant(&self.owners[chance.below(2) as usize]);
        }
        if chance.one_in(4) {
            request = request.ttl(secs(3));
        }
        if chance.one_in(6) {
            request = request.fixed();
        }
        if chance.one_in(3) {
            request = request.wait_for(millis(chance.below(4_000)));
        }
        if chance.one_in(8) {
            request = request.retry(3, millis(200));
        }
        let dropped_after = if chance.one_in(3) { millis(chance.below(1_500)) } else { secs(60) };
        let guard = if chance.one_in(4) {
            let got = timeout(dropped_after, request.try_acquire()).await;
            got.ok().and_then(Result::ok).flatten()
        } else {
            timeout(dropped_after, request.acquire()).await.ok().and_then(Result::ok)
        };
        let Some(guard) = guard else { return sleep(millis(chance.below(50))).await };
        self.believers.join(name, &guard);
        if chance.one_in(2) {
            let longest = if chance.one_in(5) { 6_000 } else { 300 };
            sleep(millis(chance.below(longest))).await;
        }
        if chance.one_in(6) {
            let _ = timeout(millis(chance.below(100)), guard.renew()).await;
        }
        match chance.below(4) {
            0 => drop(guard),
            1 => drop(timeout(millis(chance.below(200)), guard.release()).await),
            _ => drop(guard.release().await),
        }
    }
}

async fn schedule(seed: u64) {
    let clock = Clock::tokio();
    let memory = Memory::with_clock(clock.clone());
    let chance = Arc::new(Chance::from(seed));
    let calm = Arc::new(AtomicBool::new(false));
    let client = |first: bool| {
        let mut profile = memory.profile().clone();
        profile.tombstones = !seed.is_multiple_of(3);
        let backend = Troubled {
            memory: memory.clone(),
            chance: Arc::clone(&chance),
            trouble: [0, 5, 30][(seed / 3 % 3) as usize],
            calm: Arc::clone(&calm),
            profile: Arc::new(profile),
            answers_at_once: first || seed.is_multiple_of(2),
        };
        Locks::builder(backend).ttl(secs(2)).clock(clock.clone()).build().unwrap()
    };
    let world = Arc::new(World {
        clients: vec![client(true), client(false)],
        owners: [Owner::new(), Owner::new()],
        chance: Arc::clone(&chance),
        believers: Believers::default(),
    });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let world = Arc::clone(&world);
        tasks.spawn(async move {
            for _ in 0..30 {
                world.one_hold().await;
            }
        });
    }
    let all = async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    };
    timeout(secs(100_000), all).await.expect("nobody waits for ever");

    calm.store(true, Ordering::SeqCst);
    world.believers.0.lock().unwrap().clear();
    sleep(secs(60)).await;
    settle_down().await;
    for locks in &world.clients {
        let counted = locks.metrics();
        assert_eq!((counted.held, counted.releasing), (0, 0), "{counted:?}");
        assert_eq!(counted.acquired, counted.released + counted.lost, "{counted:?}");
        for name in NAMES {
            let acquire = timeout(secs(30), locks.mutex(name).acquire());
            let guard = acquire.await.expect("the turn wasn't lost").unwrap();
            let first = guard.deadline();
            sleep(secs(5)).await;
            guard.check().unwrap();
            assert!(guard.deadline() > first, "it is renewed");
            guard.release().await.unwrap();
        }
        timeout(secs(60), locks.close()).await.expect("close comes to its end");
    }
    assert!(memory.is_empty(), "nothing is left on the server");
}

#[test]
fn whatever_happens_one_believes_and_nothing_is_lost() {
    for seed in 1..=SEEDS {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let outcome = std::panic::catch_unwind(|| runtime.block_on(schedule(seed)));
        assert!(outcome.is_ok(), "seed {seed}");
        runtime.block_on(settle_down());
        assert_eq!(runtime.metrics().num_alive_tasks(), 0, "tasks are left, seed {seed}");
    }
}
