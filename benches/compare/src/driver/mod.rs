//! Measures subjects on servers.

mod backend_run;
mod cores;
mod holding;
mod pace;
mod profile;
mod progress;
mod subject;
mod table;
mod turns;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::machine;
use crate::results::{Cell, Exclusion, FORMAT, Kind, Missing, Profile, Results, Settings, Subject};
use crate::servers::{self, Watched};
use backend_run::BackendRun;
use pace::Pace;
use progress::Progress;
use worker::{Handshake, Program};

const SMOKE_LANES: usize = 4;

const SECONDS_OF_PROFILES: f64 = 12.0;

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The backends; empty for all.
    pub backends: Vec<String>,
    /// The workloads; empty for all.
    pub only: Vec<String>,
    /// The number of rounds.
    pub rounds: usize,
    /// True to check only that everything works.
    pub smoke: bool,
    /// Lockwright's programs: the baseline, the current build, perhaps an earlier one.
    pub ours: Vec<(Kind, Vec<String>)>,
    /// The command lines of the peers, the other lock libraries.
    pub peers: Vec<Vec<String>>,
    /// The peers that couldn't be built.
    pub missing: Vec<Missing>,
    /// The folder for the subjects' error output.
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

/// Runs all measurements. `so_far` gets the results after each backend.
///
/// # Errors
/// If Lockwright's own programs can't be started.
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
        subjects: Vec::new(),
        missing: plan.missing.clone(),
        exclusion: Vec::new(),
        cells: Vec::new(),
        profiles: Vec::new(),
    };
    let programs = meet(plan, &mut results.missing, &plan.logs)?;
    results.subjects = programs.iter().map(presented).collect();
    let wants =
        |workload: &str| plan.only.is_empty() || plan.only.iter().any(|only| only == workload);
    let backends = plan.wanted_backends();
    let seconds = |program: &Program| pace.seconds(program.kind, wants) + pace.beforehand();
    let subjects = backends
        .iter()
        .flat_map(|backend| programs.iter().filter(|program| program.is_for(backend)));
    let progress = Progress::of(subjects.map(seconds).sum());
    let run = Run { plan, pace: &pace, programs: &programs, progress: &progress };
    let lanes = if plan.smoke { SMOKE_LANES } else { 1 };
    let queue = Mutex::new(backends.iter().copied().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let mut found: BTreeMap<usize, Found> = BTreeMap::new();
    std::thread::scope(|scope| -> servers::Result<()> {
        let (sender, arriving) = channel();
        for _ in 0..lanes {
            let (sender, next, run) = (sender.clone(), &next, &run);
            scope.spawn(move || {
                while let Some((at, backend)) = next() {
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
                Err(error) => {
                    let name = format!("all on {}", backends[at]);
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

/// Measures only profiles. Returns them, and Lockwright's own programs with their notes.
pub fn profiles(plan: &Plan) -> servers::Result<(Vec<Profile>, Vec<Subject>)> {
    let pace = Pace::full(plan.rounds);
    std::fs::create_dir_all(&plan.logs)?;
    let programs = meet(plan, &mut Vec::new(), &plan.logs)?;
    let backends = plan.wanted_backends();
    let progress = Progress::of(backends.len() as f64 * SECONDS_OF_PROFILES);
    let mut profiles = Vec::new();
    for backend in backends {
        progress.say(&format!("{backend}: starting its servers"));
        let watched = Watched::start(backend)?;
        let mut run = BackendRun::new(backend, &watched, &pace, &programs, &plan.only, &progress);
        run.warm_up();
        let found = run.profile(&plan.logs);
        profiles.extend(found.map_err(|failure| format!("{backend}: {}", failure.text()))?);
        progress.done(SECONDS_OF_PROFILES);
    }
    Ok((profiles, programs.iter().map(presented).collect()))
}

struct Found {
    version: (String, String),
    exclusion: Vec<Exclusion>,
    cells: Vec<Cell>,
    profiles: Vec<Profile>,
}

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
        let version = watched.servers.version.clone();
        let mut run = BackendRun::new(backend, &watched, pace, programs, &plan.only, progress);
        let exclusion = run.check_exclusion();
        run.warm_up();
        run.measure_rounds();
        run.measure_growth();
        run.measure_waiting();
        run.measure_holds();
        let mut profiles = Vec::new();
        if !plan.smoke {
            match run.profile(&plan.logs) {
                Ok(seen) => profiles = seen,
                Err(failure) => {
                    progress.tell(&format!("{backend}: no profile: {}", failure.text()));
                }
            }
        }
        Ok(Found { version, exclusion, cells: run.table.cells(backend).collect(), profiles })
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
                    // A subject's name is a part of locks' names, so it has no space.
                    program.handshake.name += "-before";
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

fn presented(program: &Program) -> Subject {
    let Handshake { name, library, runtime, notes, .. } = program.handshake.clone();
    Subject { name, kind: program.kind, library, runtime, notes }
}
