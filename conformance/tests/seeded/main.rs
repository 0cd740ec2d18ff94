//! Tests of the history checker. Each gives a backend or client a known bug of lock services, which
//! the checker finds within 20 seeds. Without the bug, these seeds pass.
//!
//! Each test compares its result with the table in `docs/src/seeded-bugs.md`.
#![forbid(unsafe_code)]

mod bugs;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../fixtures/mod.rs"]
mod fixtures;

use std::path::Path;
use std::time::Duration;

use lockwright_conformance::Connect;
use lockwright_conformance::history::{self, Rules};
use lockwright_conformance::workload::Work;
use lockwright_conformance::workload::simulation::{Simulation, Target, Trouble, simulate};
use lockwright_core::Clock;
use lockwright_verification::Page;

const TTL: Duration = Duration::from_millis(400);

/// The number of schedules within which a bug must be found.
const SCHEDULES: u64 = 20;

struct Bug {
    name: &'static str,
    /// The faulty behaviour.
    how: &'static str,
    work: &'static [Work],
    processes: u32,
    names: u32,
    ttl: Duration,
    duration: Duration,
    trouble: Trouble,
    /// How long the correct backend may have no holder while a client waits.
    longest_wait: Option<Duration>,
    /// True if the correct backend has fences.
    fences: bool,
}

impl Bug {
    fn new(name: &'static str, how: &'static str) -> Self {
        let (work, trouble) = (&[Work::Mutex], Trouble::default());
        let (processes, names, longest_wait, fences) = (3, 2, None, true);
        let (ttl, duration) = (TTL, Duration::from_secs(2));
        Self { name, how, work, processes, names, ttl, duration, trouble, longest_wait, fences }
    }

    fn is_found(&self, broken: impl Fn(&Clock) -> Target, sound: impl Fn(&Clock) -> Target) {
        for seed in 1..=SCHEDULES {
            if let Some(said) = self.run(seed, &sound) {
                panic!("{}: without the bug, seed {seed} says: {said}", self.name);
            }
        }
        let found = (1..=SCHEDULES).find_map(|seed| Some((seed, self.run(seed, &broken)?)));
        let Some((seed, said)) = found else {
            panic!("{}: not found within {SCHEDULES} schedules", self.name);
        };
        println!("{}: seed {seed}: {said}", self.name);
        let kind = said.split(':').next().unwrap_or_default();
        let row = format!("| {} | {} | {seed} | {kind} |", self.name, self.how);
        println!("{row}");
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/seeded-bugs.md");
        Page::new(page).has(&row);
    }

    fn run(&self, seed: u64, open: impl Fn(&Clock) -> Target) -> Option<String> {
        let simulation = Simulation {
            seed,
            processes: self.processes,
            names: self.names,
            ttl: self.ttl,
            duration: self.duration,
            work: self.work.to_vec(),
            trouble: self.trouble,
        };
        let simulated = simulate(&simulation, async |clock| open(clock));
        assert_eq!(simulated.failures, [] as [String; 0], "{}: seed {seed}", self.name);
        let rules = Rules {
            fences: self.fences,
            longest_wait: self.longest_wait,
            excusing_faults: vec!["cut".to_owned()],
            loss_margin: self.ttl / 10,
            loss_allowance: (!self.trouble.suspends).then_some(Duration::from_millis(1)),
            must_show: false,
            ..Rules::default()
        };
        let checked = history::check(&simulated.entries, &rules);
        checked.violations.first().map(ToString::to_string)
    }
}

fn shared<B: lockwright_core::DistributedLock + Clone>(backend: B) -> Connect {
    lockwright_conformance::connector(move || std::future::ready(Ok(backend.clone())))
}
