use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use lockwright::{BootInstant, Clock};
use lockwright_conformance::history::timeline;

use crate::configuration::Configuration;
use crate::evidence;
use crate::lane::{Lane, Ran};
use crate::lanes::{self, DISK, FOLDER, UNTIL};
use crate::options::Options;
use crate::promises::Promises;
use crate::schedule::Schedule;
use crate::servers::Result;
use crate::verdict::Outcome;

/// Servers are replaced after a failure.
const STARTS: usize = 3;

/// The most runs of a schedule that `ShowedNothing`: a busy client may miss a fault.
const RUNS: usize = 3;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let [configuration, seeds, options @ ..] = args else {
        return Err("a lane needs seeds".into());
    };
    let seeds = seeds.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let until = std::env::var(UNTIL).ok().and_then(|until| until.parse().ok());
    let is_limited = std::env::var_os(DISK).is_some_and(|disk| disk == "limited");
    let mut job = Job {
        configuration: *Configuration::named(configuration).first().ok_or("no such backend")?,
        options: Options::read(options)?,
        folder: PathBuf::from(std::env::var_os(FOLDER).ok_or("a lane has no folder")?),
        disk: is_limited.then(std::env::temp_dir),
        lane: None,
        starts: 0,
    };
    let until = until.map(BootInstant::from_nanos);
    for seed in seeds {
        if until.is_some_and(|until| Clock::boot().now() > until) {
            break;
        }
        let mut runs = 1;
        while job.run(seed, runs == RUNS)?.is_continue() {
            runs += 1;
        }
    }
    Ok(())
}

fn hold_to_record(now: &Promises, configuration: Configuration, options: &Options) -> Result<()> {
    let folder = evidence::folder_of_servers();
    if options.record {
        fs::create_dir_all(&folder)?;
        return now.record(&folder, configuration);
    }
    if options.selection && Promises::read(&folder, configuration)? != *now {
        let record = format!("cargo xtask chaos --backend {configuration} --record");
        return Err(format!("{configuration} promises other than recorded; run {record}").into());
    }
    Ok(())
}

struct Job {
    configuration: Configuration,
    options: Options,
    folder: PathBuf,
    disk: Option<PathBuf>,
    lane: Option<Lane>,
    starts: usize,
}

impl Job {
    fn run(&mut self, seed: u64, is_last: bool) -> Result<ControlFlow<()>> {
        let lane = match &mut self.lane {
            Some(lane) => lane,
            None if self.starts == STARTS => return Err("the servers failed repeatedly".into()),
            None => {
                self.starts += 1;
                let disk = self.disk.as_deref();
                self.lane.insert(Lane::start(self.configuration, &self.folder, disk)?)
            }
        };
        hold_to_record(&lane.promises(), self.configuration, &self.options)?;
        let schedule = lane.draw(seed, &self.options.faults);
        println!("{schedule}");
        if let Some(fault) = lane.cannot_make(&schedule) {
            println!("left out: this machine can't make the fault {fault}");
            return Ok(ControlFlow::Break(()));
        }
        match lane.run(schedule.clone()) {
            Ok(ran) if shows_too_little(&ran) && self.options.selection && !is_last => {
                return Ok(ControlFlow::Continue(()));
            }
            Ok(ran) => report(&ran, &self.options)?,
            Err(problem) => {
                let (configuration, seed) = (schedule.configuration, schedule.seed);
                println!(
                    "ran {} {configuration} {seed}: the servers failed: {problem}",
                    Outcome::Violation
                );
                println!("  replay: {}", replay(&schedule, &self.options));
                self.lane = None;
            }
        }
        Ok(ControlFlow::Break(()))
    }
}

fn shows_too_little(ran: &Ran) -> bool {
    ran.verdict.outcome == Outcome::ShowedNothing
}

fn report(ran: &Ran, options: &Options) -> Result<()> {
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
        evidence::record(&evidence::folder_of_servers(), configuration, ran)?;
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
        let names: Vec<_> = options.faults.iter().map(|fault| fault.to_string()).collect();
        command += &format!(" --faults {}", names.join(","));
    }
    command
}
