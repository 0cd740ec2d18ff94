mod backend_run;
mod cores;
mod holding;
mod pace;
mod progress;
mod subject;
mod table;
mod turns;
mod worker;

use std::path::PathBuf;
use std::time::Instant;

use crate::machine;
use crate::results::{FORMAT, Kind, Missing, Results, Settings, Subject};
use crate::servers::{self, Servers};
use backend_run::BackendRun;
use pace::Pace;
use progress::Progress;
use worker::{Handshake, Program};

#[derive(Debug, Clone)]
pub struct Plan {
    /// Empty for all.
    pub backends: Vec<String>,
    /// Workloads; empty for all.
    pub only: Vec<String>,
    pub rounds: usize,
    /// Measures for a moment, only to check that everything works.
    pub smoke: bool,
    pub ours: Vec<(Kind, Vec<String>)>,
    pub peers: Vec<Vec<String>>,
    pub missing: Vec<Missing>,
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

/// `so_far` gets the results after each backend.
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
    };
    let programs = meet(plan, &mut results.missing)?;
    results.subjects = programs.iter().map(presented).collect();
    let backends = plan.wanted_backends();
    let progress = Progress::of(backends.len());
    for backend in backends {
        if let Err(error) = measure(plan, backend, &pace, &programs, &progress, &mut results) {
            let (name, reason) = (format!("all on {backend}"), error.to_string());
            progress.tell(&format!("{name}: {reason}"));
            results.missing.push(Missing { name, reason });
        }
        progress.done_with_backend();
        results.seconds = begun.elapsed().as_secs_f64();
        so_far(&results)?;
    }
    progress.tell(&format!("measured in {:.0} s", begun.elapsed().as_secs_f64()));
    Ok(results)
}

fn measure(
    plan: &Plan,
    backend: &str,
    pace: &Pace,
    programs: &[Program],
    progress: &Progress,
    results: &mut Results,
) -> servers::Result<()> {
    progress.say(&format!("{backend}: starting its servers"));
    let servers = Servers::start(backend)?;
    let (server, version) = servers.version.clone();
    results.versions.insert(server, version);
    let mut run = BackendRun::new(backend, &servers, pace, programs, &plan.only, progress);
    results.exclusion.extend(run.check_exclusion());
    run.warm_up();
    run.measure_rounds();
    run.measure_growth();
    run.measure_waiting();
    run.measure_holds();
    results.cells.extend(run.table.cells(backend));
    Ok(())
}

fn meet(plan: &Plan, missing: &mut Vec<Missing>) -> servers::Result<Vec<Program>> {
    let ours = plan.ours.iter().map(|(kind, command)| (*kind, command));
    let mut programs = Vec::new();
    for (kind, command) in ours.chain(plan.peers.iter().map(|command| (Kind::Peer, command))) {
        match Program::meet(command.clone(), kind, &plan.logs) {
            Ok(mut program) => {
                if kind == Kind::Before {
                    // Without a space: locks' names contain this name.
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
