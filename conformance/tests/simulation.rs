//! The client over the memory backend, on a clock that nobody waits for: many tasks, few names, and
//! a network that loses, delays and repeats what a seed chooses, while futures are dropped and the
//! machine is suspended. Believed holds never overlap, fences grow, nobody is stuck, nothing is left.
//!
//! The seed decides about faults and about what the tasks do. The client's own jitter isn't drawn
//! from it, so that a seed which failed may have to be run more than once.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use lockwright_conformance::Faulty;
use lockwright_conformance::faults::Fate;
use lockwright_conformance::history::{History, Hold, Violation};
use lockwright_core::{BootInstant, Clock, DistributedLock, Locks, Mode, Owner, Settle};
use lockwright_memory::Memory;

const TTL: Duration = Duration::from_secs(10);
const CLIENTS: u64 = 3;
const TASKS: u64 = 3;
const ROUNDS: usize = 6;
const NAMES: u64 = 2;

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Up to `most`.
    fn time(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.below(most.as_millis() as u64 + 1))
    }

    fn fate(&mut self) -> Fate {
        match self.below(100) {
            0..5 => Fate::LoseRequest,
            5..10 => Fate::LoseAnswer,
            10..15 => Fate::DelayRequest(self.time(TTL * 3 / 2)),
            15..22 => Fate::DelayAnswer(self.time(TTL * 3 / 2)),
            22..27 => Fate::Duplicate(self.time(TTL * 2)),
            27..29 => Fate::Hang,
            29..30 => Fate::Panic,
            30..32 => Fate::Refuse,
            _ => Fate::Pass,
        }
    }
}

/// What came of one run.
struct Outcome {
    violations: Vec<Violation>,
    holds: usize,
    contended: usize,
    lost: u64,
    settled: u64,
}

/// Runs one seed. With `forgetful`, the server now and then forgets a hold: the run must notice.
fn run(seed: u64, forgetful: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        // Simulated: the machine isn't asked to wait.
        match tokio::time::timeout(Duration::from_secs(3_600), simulate(seed, forgetful)).await {
            Ok(outcome) => outcome,
            Err(_) => panic!("seed {seed}: somebody is stuck"),
        }
    })
}

async fn simulate(seed: u64, forgetful: bool) -> Outcome {
    let clock = Clock::tokio();
    let memory = Memory::with_clock(clock.clone());
    let history = History::default();
    let mut working = tokio::task::JoinSet::new();
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let faulty = Faulty::new(Arc::new(memory.clone()), clock.clone());
        let mut random = Random(seed << 16 | client << 8);
        faulty.decide(move |_| random.fate());
        let locks =
            Locks::builder(faulty.clone()).ttl(TTL).clock(clock.clone()).build().expect("a client");
        for task in 0..TASKS {
            let random = Random(seed << 16 | client << 8 | (task + 1));
            let who = format!("client {client} task {task}");
            let (locks, history, clock) = (locks.clone(), history.clone(), clock.clone());
            working.spawn(async move { work(random, &who, &locks, &history, &clock).await });
        }
        clients.push((locks, faulty));
    }
    let world = tokio::spawn(world(Random(!seed), clock.clone(), memory.clone(), forgetful));
    while let Some(done) = working.join_next().await {
        if let Err(error) = done {
            panic!("seed {seed}: {error}");
        }
    }
    world.abort();
    let (mut lost, mut settled) = (0, 0);
    for (locks, faulty) in &clients {
        faulty.mend();
        locks.close().await;
        while faulty.is_under_way() {
            clock.sleep(TTL / 10).await;
        }
        lost += locks.metrics().lost;
        settled += locks.metrics().settled;
    }
    nothing_left(seed, &memory, &clock).await;
    Outcome {
        violations: history.check(true),
        holds: history.holds().len(),
        contended: history.contended(),
        lost,
        settled,
    }
}

/// Suspends of the machine, and a server that forgets.
async fn world(mut random: Random, clock: Clock, memory: Memory, forgetful: bool) {
    loop {
        tokio::time::sleep(random.time(TTL * 2)).await;
        if random.below(4) == 0 {
            clock.jump(random.time(TTL * 3 / 2));
        }
        if forgetful {
            for number in 0..NAMES {
                let name = format!("name {number}").parse_name();
                let seen = memory.inspect(&name).await.expect("memory answers");
                if let Some(token) = seen.holders.first().and_then(|holder| holder.token) {
                    forget(&memory, &name, token).await;
                }
            }
        }
    }
}

async fn forget(memory: &Memory, name: &lockwright_core::LockName, token: lockwright_core::Token) {
    let claim = lockwright_core::Claim {
        name: name.clone(),
        mode: Mode::Exclusive,
        token,
        identity: Arc::new(lockwright_core::Identity::of_this_process(None)),
        ttl: TTL,
        fences: 1,
        upkeep: lockwright_core::Upkeep::Renewed,
    };
    let _ = memory.release(&claim, Settle::Answered).await;
}

trait ParseName {
    fn parse_name(&self) -> lockwright_core::LockName;
}

impl ParseName for String {
    fn parse_name(&self) -> lockwright_core::LockName {
        lockwright_core::LockName::new(self).expect("a good name")
    }
}

async fn work(mut random: Random, who: &str, locks: &Locks, history: &History, clock: &Clock) {
    for _ in 0..ROUNDS {
        let name = format!("name {}", random.below(NAMES));
        let owner = Owner::new();
        let mut request = locks.mutex(&name).wait_for(random.time(TTL * 6));
        if random.below(4) == 0 {
            request = request.fixed();
        }
        if random.below(4) == 0 {
            request = request.reentrant(&owner);
        }
        if random.below(6) == 0 {
            request = request.max_hold(random.time(TTL));
        }
        let invoked = clock.now();
        let asking = async {
            if random.below(4) == 0 {
                request.try_acquire().await
            } else {
                request.acquire().await.map(Some)
            }
        };
        // Some are dropped while they wait.
        let patience = if who.ends_with('0') { TTL * 2 } else { TTL * 20 };
        let Ok(Ok(Some(guard))) = tokio::time::timeout(patience, asking).await else {
            clock.sleep(random.time(TTL)).await;
            continue;
        };
        let granted = clock.now();
        let until = granted + random.time(TTL * 2);
        let mut ended = granted;
        while guard.check().is_ok() {
            // It believes now, and goes on doing so for as long as it has seen.
            ended = clock.now().min(guard.deadline());
            if clock.now() >= until {
                break;
            }
            clock.sleep(random.time(TTL / 10)).await;
        }
        history.add(belief(who, &name, &guard, invoked, granted, ended));
        match random.below(3) {
            0 => drop(guard),
            1 => drop(tokio::time::timeout(random.time(TTL / 10), guard.release()).await),
            _ => drop(guard.release().await),
        }
        clock.sleep(random.time(TTL / 10)).await;
    }
}

fn belief(
    who: &str,
    name: &str,
    guard: &lockwright_core::Guard,
    invoked: BootInstant,
    granted: BootInstant,
    ended: BootInstant,
) -> Hold {
    Hold {
        who: who.to_owned(),
        name: name.to_owned(),
        mode: Mode::Exclusive,
        token: guard.token(),
        fence: guard.fence(),
        asked: invoked,
        granted,
        until: ended,
    }
}

async fn nothing_left(seed: u64, memory: &Memory, clock: &Clock) {
    let give_up = clock.now() + TTL * 3;
    loop {
        let page = memory.list("", None).await.expect("memory answers");
        if page.names.is_empty() {
            break;
        }
        assert!(clock.now() < give_up, "seed {seed}: still held at the end: {:?}", page.names);
        clock.sleep(TTL / 10).await;
    }
    let locks = Locks::builder(memory.clone()).ttl(TTL).clock(clock.clone()).build().expect("one");
    for number in 0..NAMES {
        let name = format!("name {number}");
        let guard = locks.mutex(&name).wait_for(TTL * 3).acquire().await;
        let guard = guard.unwrap_or_else(|error| panic!("seed {seed}: {name} is stuck: {error}"));
        guard.release().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn whatever_the_network_does_two_never_believe_at_once() {
    let (mut holds, mut contended, mut lost, mut settled) = (0, 0, 0, 0);
    for seed in seeds() {
        let outcome = run(seed, false);
        if let Some(violation) = outcome.violations.first() {
            panic!("seed {seed}: {violation}");
        }
        holds += outcome.holds;
        contended += outcome.contended;
        lost += outcome.lost;
        settled += outcome.settled;
    }
    println!("{holds} holds, {contended} contended, {lost} lost, {settled} settled");
    // Or else it showed nothing.
    assert!(contended > holds / 4, "{contended} of {holds} holds were contended");
    assert!(lost > 0 && settled > 0, "{lost} were lost, {settled} settled");
}

#[test]
fn a_server_that_forgets_is_noticed() {
    let noticed = (0..20).filter(|seed| !run(*seed, true).violations.is_empty()).count();
    assert!(noticed > 0, "the checker saw nothing wrong with a server that forgets its holds");
}

/// Two hundred, or from `LOCKWRIGHT_SEED` on as many as `LOCKWRIGHT_SEEDS` says.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("LOCKWRIGHT_SEED") {
        Some(first) => first..first + number("LOCKWRIGHT_SEEDS").unwrap_or(1),
        None => 0..200,
    }
}
