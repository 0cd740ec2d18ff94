//! Starts servers and contestants, tells them what to do, and measures.
//!
//! | module | subject |
//! |---|---|
//! | `pace` | how long each measurement takes, and with how many |
//! | `player` | a contestant's program, and one running process of it |
//! | `team` | the processes of one contestant on one backend |
//! | `cores` | which core who runs on, and what they used of it |
//! | `turns` | what the turns of a contest say |
//! | `field` | what is measured on one backend: the rounds, exclusion, growth |
//! | `holding` | … and what holds and waiters cost while nothing happens |
//! | `table` | the cells as they fill up |
//! | `profile` | where ours spends the processor's time |
//! | `progress` | how far it is |

mod cores;
mod field;
mod holding;
mod pace;
mod player;
mod profile;
mod progress;
mod table;
mod team;
mod turns;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use crate::machine;
use crate::results::{
    Cell, Contestant, Exclusion, FORMAT, Kind, Missing, Profile, Results, Settings,
};
use crate::servers::{self, Watched};
use field::Field;
use pace::Pace;
use player::Program;
use progress::Progress;

/// How many backends are looked at beside each other where figures mean nothing.
const SMOKE_LANES: usize = 4;

/// How long the profiles of one backend are thought to take.
const SECONDS_OF_PROFILES: f64 = 12.0;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The backends; none for all.
    pub backends: Vec<String>,
    /// The workloads; none for all.
    pub only: Vec<String>,
    /// How often.
    pub rounds: usize,
    /// Whether it is only to see that everything works.
    pub smoke: bool,
    /// Lockwright's own programs: the floor, ours, and an earlier build of it if there is one.
    pub ours: Vec<(Kind, Vec<String>)>,
    /// The peers'.
    pub peers: Vec<Vec<String>>,
    /// Those that couldn't be built.
    pub missing: Vec<Missing>,
    /// Where what the contestants complain of is kept.
    pub logs: PathBuf,
}

impl Plan {
    fn wanted_backends(&self) -> Vec<&'static str> {
        let is_wanted = |name: &&str| {
            self.backends.is_empty() || self.backends.iter().any(|wanted| wanted == name)
        };
        servers::names().filter(is_wanted).collect()
    }
}

/// Measures all of it. `so_far` gets what there is after each backend, so that little is lost when
/// something ends it.
///
/// # Errors
/// When our own programs can't be started. A peer that fails is a line of the report, and so are servers.
pub fn run(
    plan: &Plan,
    mut so_far: impl FnMut(&Results) -> servers::Result<()>,
) -> servers::Result<Results> {
    let begun = Instant::now();
    let pace = if plan.smoke { Pace::smoke() } else { Pace::full(plan.rounds) };
    std::fs::create_dir_all(&plan.logs)?;
    let mut results = Results {
        format: FORMAT,
        made: machine::date(),
        seconds: 0.0,
        settings: Settings { rounds: pace.rounds, smoke: plan.smoke },
        machine: machine::machine(),
        versions: machine::versions(),
        contestants: Vec::new(),
        missing: plan.missing.clone(),
        exclusion: Vec::new(),
        cells: Vec::new(),
        profiles: Vec::new(),
    };
    let programs = meet(plan, &mut results.missing, &plan.logs)?;
    results.contestants = programs.iter().map(presented).collect();
    let wants =
        |workload: &str| plan.only.is_empty() || plan.only.iter().any(|only| only == workload);
    let backends = plan.wanted_backends();
    let takes_part = |program: &&Program, backend: &str| {
        program.greeting.backends.iter().any(|known| known == backend)
    };
    let seconds = |program: &Program| pace.seconds(program.kind, wants) + pace.beforehand();
    let teams = backends
        .iter()
        .flat_map(|backend| programs.iter().filter(|program| takes_part(program, backend)));
    let progress = Progress::of(teams.map(seconds).sum());
    let run = Run { plan, pace: &pace, programs: &programs, progress: &progress };
    // What is measured wants the machine to itself; what is only to be seen working doesn't.
    let lanes = if plan.smoke { SMOKE_LANES } else { 1 };
    let next = AtomicUsize::new(0);
    let mut found: BTreeMap<usize, Found> = BTreeMap::new();
    std::thread::scope(|scope| -> servers::Result<()> {
        let (sender, arriving) = channel();
        for _ in 0..lanes {
            let (sender, next, run, backends) = (sender.clone(), &next, &run, &backends);
            scope.spawn(move || {
                while let Some((at, backend)) = {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    backends.get(at).map(|backend| (at, *backend))
                } {
                    // Nobody listens any more when another one has failed.
                    if sender.send((at, run.measure(backend))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (at, outcome) in arriving {
            match outcome {
                Ok(outcome) => drop(found.insert(at, outcome)),
                // Two hours of others' figures aren't lost for it.
                Err(error) => {
                    let name = format!("everybody on {}", backends[at]);
                    let reason = error.to_string();
                    progress.tell(&format!("{name}: {reason}"));
                    results.missing.push(Missing { name, reason });
                }
            }
            fill(&mut results, found.values());
            results.seconds = begun.elapsed().as_secs_f64();
            so_far(&results)?;
        }
        Ok(())
    })?;
    progress.tell(&format!("measured in {:.0} s", begun.elapsed().as_secs_f64()));
    Ok(results)
}

/// Takes only the profiles, for the results of an earlier run, and asks who took part what must be known of
/// them.
///
/// # Errors
/// When servers or our own programs can't be started, or the sampler can't.
pub fn profiles(plan: &Plan) -> servers::Result<(Vec<Profile>, Vec<Contestant>)> {
    let pace = Pace::full(plan.rounds);
    std::fs::create_dir_all(&plan.logs)?;
    let programs = meet(plan, &mut Vec::new(), &plan.logs)?;
    let backends = plan.wanted_backends();
    let progress = Progress::of(backends.len() as f64 * SECONDS_OF_PROFILES);
    let mut profiles = Vec::new();
    for backend in backends {
        progress.say(&format!("{backend}: starting its servers"));
        let watched = Watched::start(backend)?;
        let mut field = Field::new(backend, &watched, &pace, &programs, &plan.only, &progress);
        field.warm_up();
        let found = field.profile(&plan.logs);
        profiles.extend(found.map_err(|failure| format!("{backend}: {}", failure.text()))?);
        progress.done(SECONDS_OF_PROFILES);
    }
    Ok((profiles, programs.iter().map(presented).collect()))
}

/// What was found on one backend.
struct Found {
    version: (String, String),
    exclusion: Vec<Exclusion>,
    cells: Vec<Cell>,
    profiles: Vec<Profile>,
}

/// What all backends are measured by.
struct Run<'a> {
    plan: &'a Plan,
    pace: &'a Pace,
    programs: &'a [Program],
    progress: &'a Progress,
}

impl Run<'_> {
    fn measure(&self, backend: &str) -> servers::Result<Found> {
        let Self { plan, pace, programs, progress } = self;
        progress.say(&format!("{backend}: starting its servers"));
        let watched = Watched::start(backend)?;
        let version = watched.servers().version()?;
        let mut field = Field::new(backend, &watched, pace, programs, &plan.only, progress);
        let exclusion = field.check_exclusion();
        field.warm_up();
        field.measure_rounds();
        field.measure_growth();
        field.measure_waiting();
        field.measure_holds();
        let mut profiles = Vec::new();
        if !plan.smoke {
            match field.profile(&plan.logs) {
                Ok(seen) => profiles = seen,
                Err(failure) => {
                    progress.tell(&format!("{backend}: no profile: {}", failure.text()));
                }
            }
        }
        Ok(Found { version, exclusion, cells: field.table.cells(backend).collect(), profiles })
    }
}

fn fill<'a>(results: &mut Results, found: impl Iterator<Item = &'a Found>) {
    (results.exclusion, results.cells, results.profiles) = Default::default();
    for found in found {
        let (server, version) = found.version.clone();
        results.versions.insert(server, version);
        results.exclusion.extend(found.exclusion.iter().cloned());
        results.cells.extend(found.cells.iter().cloned());
        results.profiles.extend(found.profiles.iter().cloned());
    }
}

fn meet(plan: &Plan, missing: &mut Vec<Missing>, logs: &Path) -> servers::Result<Vec<Program>> {
    let ours = plan.ours.iter().map(|(kind, command)| (*kind, command));
    let all: Vec<_> = ours.chain(plan.peers.iter().map(|command| (Kind::Peer, command))).collect();
    // At the same time: some virtual machines take a while until they greet.
    let met: Vec<_> = std::thread::scope(|scope| {
        let meet = |(kind, command): &(Kind, &Vec<String>)| {
            let (kind, command) = (*kind, (*command).clone());
            scope.spawn(move || Program::meet(command, kind, logs))
        };
        let meeting: Vec<_> = all.iter().map(meet).collect();
        meeting.into_iter().map(|thread| thread.join().expect("meeting doesn't panic")).collect()
    });
    let mut programs = Vec::new();
    for ((kind, command), met) in all.into_iter().zip(met) {
        match met {
            Ok(mut program) => {
                if kind == Kind::Before {
                    // It says of itself what ours does. Names of locks are made of it, without a space.
                    program.greeting.name += "-before";
                }
                programs.push(program);
            }
            Err(failure) if kind == Kind::Peer => {
                let reason = failure.text().to_owned();
                missing.push(Missing { name: command.join(" "), reason });
            }
            Err(failure) => return Err(failure.text().into()),
        }
    }
    Ok(programs)
}

fn presented(program: &Program) -> Contestant {
    let greeting = program.greeting.clone();
    Contestant {
        name: greeting.name,
        kind: program.kind,
        library: greeting.library,
        runtime: greeting.runtime,
        notes: greeting.notes,
    }
}
