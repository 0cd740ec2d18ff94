//! Simulated runs of the workload, with faults that a seed determines. The backend must use no
//! clock but the given [`Clock`].

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{Clock, DistributedLock, Locks, Token, TokenSource};
use tokio::task::{AbortHandle, JoinSet, LocalSet};

use crate::factory::Connect;
use crate::faults::{Fate, Faulty, Op};
use crate::history::journal::{Entry, Event, Journal, Signal};
use crate::register::Register;

use super::{Plan, Random, Work, run};

const LIMIT: Duration = Duration::from_secs(3_600);

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The seed.
    pub seed: u64,
    /// The number of processes at a time.
    pub processes: u32,
    /// The number of locks.
    pub names: u32,
    /// The holds' TTL.
    pub ttl: Duration,
    /// The simulated time in which processes start new rounds.
    pub duration: Duration,
    /// The kinds of work.
    pub work: Vec<Work>,
    /// The faults.
    pub trouble: Trouble,
}

/// The faults of a run. Numbers are counts per 1,000 requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trouble {
    /// Refused requests.
    pub refused: u64,
    /// Lost requests or answers.
    pub lost: u64,
    /// Failed requests that reach the server later.
    pub late_requests: u64,
    /// Late answers.
    pub late_answers: u64,
    /// Requests processed again later.
    pub repeated: u64,
    /// Requests at which the backend panics.
    pub panics: u64,
    /// The kind of request that the faults above affect; `None` for all.
    pub only: Option<Op>,
    /// Cuts off processes for a while.
    pub cuts: bool,
    /// Kills and replaces processes.
    pub kills: bool,
    /// Suspends the machine.
    pub suspends: bool,
}

impl Trouble {
    /// Faults of all kinds.
    pub const ALL: Self = Self {
        refused: 10,
        lost: 30,
        late_requests: 20,
        late_answers: 20,
        repeated: 15,
        panics: 3,
        only: None,
        cuts: true,
        kills: true,
        suspends: true,
    };

    fn fate(self, op: Op, random: &mut Random, ttl: Duration) -> Fate {
        let mut dice = random.below(1_000);
        let late = random.time(Duration::ZERO, ttl * 3 / 2);
        if self.only.is_some_and(|only| only != op) {
            return Fate::Pass;
        }
        let mut is = |share: u64| {
            let hit = dice < share;
            dice = dice.wrapping_sub(share);
            hit
        };
        if is(self.refused) {
            Fate::UNAVAILABLE
        } else if is(self.lost) {
            if random.one_in(2) { Fate::LoseRequest } else { Fate::LoseAnswer }
        } else if is(self.late_requests) {
            Fate::DelayRequest(late)
        } else if is(self.late_answers) {
            Fate::DelayAnswer(late)
        } else if is(self.repeated) {
            Fate::Duplicate(late)
        } else if is(self.panics) {
            Fate::Panic
        } else {
            Fate::Pass
        }
    }
}

/// The backend, and its clients' connections.
#[derive(Debug, Clone)]
pub struct Target {
    /// Opens a process's connection.
    pub connect: Connect,
    /// The clients' clock, if it stops during a suspend.
    pub clients_clock: Option<Clock>,
    /// Wraps a client's connection, whose faults are already injected.
    pub at_the_client: fn(Faulty, &Clock) -> Arc<dyn DistributedLock>,
    /// True if clients report a loss before their next check.
    pub reports_losses: bool,
}

impl Target {
    /// Creates a target with correct clients.
    pub fn new(connect: Connect) -> Self {
        let at_the_client: fn(Faulty, &Clock) -> Arc<dyn DistributedLock> =
            |faulty, _| Arc::new(faulty);
        Self { connect, clients_clock: None, at_the_client, reports_losses: true }
    }
}

/// A run's result.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// The processes' shared journal.
    pub entries: Vec<Entry>,
    /// Names still held three TTLs after the run.
    pub left: Vec<String>,
    /// Failures, such as a grant after `close()`.
    pub failures: Vec<String>,
}

/// Simulates a run on the backend that `open` creates.
///
/// # Panics
/// If the run doesn't end, or the backend can't be opened.
pub fn simulate(simulation: &Simulation, open: impl AsyncFnOnce(&Clock) -> Target) -> Simulated {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let simulated = async {
        let clock = Clock::tokio();
        let target = open(&clock).await;
        let world = World {
            simulation: simulation.clone(),
            journal: Journal::in_memory("runner", clock.clone()),
            clock,
            target,
            store: Arc::default(),
            processes: Vec::new(),
            working: JoinSet::new(),
        };
        tokio::time::timeout(LIMIT, world.run()).await
    };
    match LocalSet::new().block_on(&runtime, simulated) {
        Ok(simulated) => simulated,
        Err(_) => panic!("seed {}: late: a task is stuck", simulation.seed),
    }
}

struct Process {
    name: String,
    is_cut: Arc<AtomicBool>,
    faulty: Faulty,
    is_killed: bool,
    task: AbortHandle,
}

struct World {
    simulation: Simulation,
    clock: Clock,
    target: Target,
    journal: Journal,
    store: Arc<Register>,
    processes: Vec<Process>,
    working: JoinSet<Result<(), String>>,
}

impl World {
    async fn run(mut self) -> Simulated {
        let until = self.clock.now() + self.simulation.duration;
        for _ in 0..self.simulation.processes {
            self.start(self.simulation.duration).await;
        }
        let mut random = Random::of(self.simulation.seed, u64::MAX);
        while self.clock.now() < until {
            let ttl = self.simulation.ttl;
            self.clock.sleep(random.time(ttl / 4, ttl * 2)).await;
            let left = until.saturating_since(self.clock.now());
            if !left.is_zero() {
                self.trouble(&mut random, left).await;
            }
        }
        self.finish().await
    }

    async fn start(&mut self, duration: Duration) {
        let Simulation { seed, ttl, trouble, .. } = self.simulation;
        let number = self.processes.len() as u32;
        let backend = self.target.connect.connect().await.expect("the backend opens");
        let faulty = Faulty::new(backend, self.clock.clone());
        let is_cut = Arc::<AtomicBool>::default();
        let cut = Arc::clone(&is_cut);
        let mut fates = Random::of(!seed, number.into());
        faulty.decide(move |op| {
            if op == Op::Inspect {
                return Fate::Pass;
            }
            // Draw a fate even for a cut-off process, so that later fates don't depend on the cut.
            let fate = trouble.fate(op, &mut fates, ttl);
            if cut.load(Ordering::SeqCst) { Fate::Hang } else { fate }
        });
        let name = format!("process {number}");
        let plan = Plan {
            seed,
            process: number,
            names: (0..self.simulation.names).map(|name| format!("name {name}")).collect(),
            ttl,
            duration,
            work: self.simulation.work.clone(),
            watches: self.target.reports_losses,
        };
        let journal = self.journal.of(&name);
        let (clock, store) = (self.clock.clone(), Arc::clone(&self.store));
        let clients_clock = self.target.clients_clock.as_ref().unwrap_or(&self.clock).clone();
        let backend = (self.target.at_the_client)(faulty.clone(), &self.clock);
        let work = async move {
            let clients = AtomicU32::new(0);
            let open = async || {
                let tokens = tokens(seed, number, clients.fetch_add(1, Ordering::SeqCst));
                Locks::builder(Arc::clone(&backend))
                    .ttl(ttl)
                    .clock(clients_clock.clone())
                    .jitter_seed(seed ^ u64::from(number))
                    .tokens(tokens)
                    .build()
            };
            let done = run(&plan, open, &clock, &journal, store).await;
            done.map_err(|failure| failure.to_string())
        };
        let task = self.working.spawn_local(work);
        self.processes.push(Process { name, is_cut, faulty, is_killed: false, task });
    }

    async fn trouble(&mut self, random: &mut Random, left: Duration) {
        let Simulation { ttl, trouble, .. } = self.simulation;
        let time = random.time(ttl / 4, ttl * 3 / 2);
        let alive: Vec<usize> =
            (0..self.processes.len()).filter(|at| !self.processes[*at].is_killed).collect();
        let one = *random.one_of(&alive);
        match random.below(3) {
            0 if trouble.cuts => self.cut(one, time.min(left)).await,
            1 if trouble.kills => {
                self.kill(one);
                self.clock.sleep(time.min(left)).await;
                self.start(left.saturating_sub(time)).await;
            }
            2 if trouble.suspends => self.suspend(time),
            _ => {}
        }
    }

    async fn cut(&self, at: usize, time: Duration) {
        let process = &self.processes[at];
        let set = |cut| {
            process.is_cut.store(cut, Ordering::SeqCst);
            process.faulty.drop_wakes(cut);
            let (fault, target) = ("cut".to_owned(), process.name.clone());
            let effect = Some("its requests hang".to_owned());
            self.journal.write(Event::Fault { fault, target, begins: cut, effect });
        };
        set(true);
        self.clock.sleep(time).await;
        set(false);
    }

    fn kill(&mut self, at: usize) {
        let process = &mut self.processes[at];
        process.is_cut.store(true, Ordering::SeqCst);
        process.is_killed = true;
        let target = process.name.clone();
        self.journal.write(Event::Signalled { target, signal: Signal::Killed });
        process.task.abort();
    }

    /// Suspends the machine: the clock jumps without a timer firing.
    fn suspend(&self, time: Duration) {
        let signal = |signal: Signal| {
            for Process { name, .. } in &self.processes {
                self.journal.write(Event::Signalled { target: name.clone(), signal });
            }
        };
        signal(Signal::Stopped);
        self.clock.jump(time);
        signal(Signal::Continued);
    }

    async fn finish(mut self) -> Simulated {
        let mut failures = Vec::new();
        while let Some(done) = self.working.join_next().await {
            match done {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => failures.push(failure),
                Err(error) if error.is_cancelled() => {}
                Err(error) => failures.push(error.to_string()),
            }
        }
        let (mut entries, mut killed) = (self.journal.entries(), Vec::new());
        entries.retain(|entry| {
            if let Event::Signalled { target, signal: Signal::Killed } = &entry.event {
                killed.push(target.clone());
            }
            !killed.contains(&entry.process)
        });
        Simulated { entries, left: self.left().await, failures }
    }

    async fn left(&self) -> Vec<String> {
        for process in &self.processes {
            process.faulty.settled().await;
        }
        let backend = self.target.connect.connect().await.expect("the backend opens");
        let give_up = self.clock.now() + self.simulation.ttl * 3;
        loop {
            let page = backend.list("", None).await.expect("the backend lists its names");
            if page.names.is_empty() || self.clock.now() >= give_up {
                return page.names.iter().map(|seen| seen.name.to_string()).collect();
            }
            self.clock.sleep(self.simulation.ttl / 10).await;
        }
    }
}

fn tokens(seed: u64, process: u32, client: u32) -> TokenSource {
    let part = u64::from(process) << 32 | u64::from(client);
    let random = Mutex::new(Random::of(seed ^ 0x746f_6b65_6e73, part));
    TokenSource::from_fn(move || {
        let mut random = lock(&random);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random.next().to_le_bytes());
        bytes[8..].copy_from_slice(&random.next().to_le_bytes());
        Token::from_bytes(bytes)
    })
}
