//! A process that runs some schedules of one configuration, one after the other, on the same servers.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use lockwright::{BootInstant, Clock};
use lockwright_conformance::history::timeline;

use crate::configuration::Configuration;
use crate::evidence;
use crate::lanes::{self, DISK, FOLDER, UNTIL};
use crate::options::Options;
use crate::plan::Schedule;
use crate::schedule::{Lane, Ran};
use crate::servers::Result;
use crate::verdict::Outcome;

/// How often the servers of a lane are started again after a failure that no fault explains.
const STARTS: usize = 3;

/// How often the test command runs a schedule that shows nothing: on a busy machine a fault may be over before a
/// client notices it.
const RUNS: usize = 3;

/// Runs the seeds of a lane.
pub(crate) fn main(args: &[String]) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let [configuration, seeds, options @ ..] = args else {
        return Err("a lane needs seeds".into());
    };
    let options = Options::read(options)?;
    let configuration = *Configuration::named(configuration).first().ok_or("no such backend")?;
    let seeds = seeds.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let folder = PathBuf::from(std::env::var_os(FOLDER).ok_or("a lane has no folder")?);
    let is_limited = std::env::var_os(DISK).is_some_and(|disk| disk == "limited");
    let disk = is_limited.then(std::env::temp_dir);
    let until = std::env::var(UNTIL).ok().and_then(|until| until.parse().ok());
    let until = until.map(BootInstant::from_nanos);
    let mut lane = None;
    let mut starts = 0;
    let mut seeds: VecDeque<(u64, usize)> = seeds.into_iter().map(|seed| (seed, 1)).collect();
    while let Some((seed, run)) = seeds.pop_front() {
        if until.is_some_and(|until| Clock::boot().now() > until) {
            break;
        }
        if lane.is_none() {
            if starts == STARTS {
                return Err("the servers failed again and again".into());
            }
            starts += 1;
            lane = Some(Lane::start(configuration, &folder, disk.as_deref())?);
        }
        let Some(running) = lane.as_mut() else { continue };
        let schedule = running.draw(seed, &options.faults);
        println!("{schedule}");
        if let Some(fault) = running.cannot_make(&schedule) {
            println!("left out: this machine can't make the fault {fault}");
            continue;
        }
        match running.run(schedule.clone()) {
            Ok(ran) if shows_too_little(&ran) && options.selection && run < RUNS => {
                seeds.push_front((seed, run + 1));
            }
            Ok(ran) => tell(&ran, &options)?,
            Err(problem) => {
                eprintln!("{schedule}\n  the servers failed: {problem}");
                lane = None;
            }
        }
    }
    Ok(())
}

fn shows_too_little(ran: &Ran) -> bool {
    ran.verdict.outcome == Outcome::ShowedNothing
}

/// Prints the figures of a schedule, records them, and keeps what shows a violation.
fn tell(ran: &Ran, options: &Options) -> Result<()> {
    let Ran { schedule, verdict, entries } = ran;
    let configuration = schedule.configuration;
    println!("ran {} {configuration} {}", verdict.outcome, evidence::line(ran).replace('\t', " "));
    for violation in &verdict.checked.violations {
        println!("  {violation}");
    }
    for problem in &verdict.problems {
        println!("  {problem}");
    }
    if options.record {
        evidence::record(&evidence::folder(), configuration, ran)?;
    }
    let is_wrong = matches!(verdict.outcome, Outcome::Violation | Outcome::ShowedNothing);
    if is_wrong || options.keep {
        let folder = lanes::results();
        fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{configuration}-{}", schedule.seed));
        let lines = entries.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        fs::write(file.with_extension("jsonl"), lines.join("\n") + "\n")?;
        fs::write(file.with_extension("svg"), timeline(entries, &verdict.checked.violations))?;
        println!("  journal and timeline: {}.{{jsonl,svg}}", file.display());
        println!("  replay: {}", replay(schedule, options));
    }
    Ok(())
}

fn replay(schedule: &Schedule, options: &Options) -> String {
    let (configuration, seed) = (schedule.configuration, schedule.seed);
    let mut command = format!("cargo xtask chaos --backend {configuration} --seed {seed}");
    if options.faults.len() < crate::faults::Fault::ALL.len() {
        let names: Vec<_> = options.faults.iter().map(|fault| fault.name()).collect();
        command += &format!(" --faults {}", names.join(","));
    }
    command
}
