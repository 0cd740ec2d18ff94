use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use lockwright::backend::backend_util::lock;
use lockwright::{BootInstant, Clock};

use crate::configuration::Configuration;
use crate::evidence;
use crate::options::Options;
use crate::page;
use crate::servers::{Result, is_alive};
use crate::verdict::Outcome;

/// Later schedules get new servers.
const SCHEDULES: usize = 20;

const SELECTION: [u64; 3] = [1, 2, 3];

struct Task {
    configuration: Configuration,
    seeds: Vec<u64>,
}

#[derive(Default)]
struct Counts {
    schedules: BTreeMap<String, usize>,
    problems: usize,
}

pub(crate) fn run(options: &Options, args: &[String]) -> ExitCode {
    remove_abandoned();
    let begun = Instant::now();
    let until = options.time.map(|time| Clock::boot().now() + time);
    let tasks = Mutex::new(tasks(options));
    let counts = Mutex::new(Counts::default());
    thread::scope(|scope| {
        for lane in 0..options.jobs {
            let (tasks, counts) = (&tasks, &counts);
            scope.spawn(move || {
                while options.time.is_none_or(|time| begun.elapsed() < time) {
                    let Some(task) = lock(tasks).pop_front() else { break };
                    if let Err(problem) = run_lane(lane, &task, args, until, counts) {
                        eprintln!("{}: {problem}", task.configuration);
                        lock(counts).problems += 1;
                    }
                }
            });
        }
    });
    let Counts { schedules, problems } = std::mem::take(&mut *lock(&counts));
    let count = |outcome: Outcome| schedules.get(&outcome.to_string()).copied().unwrap_or(0);
    let violations = count(Outcome::Violation);
    println!(
        "{} schedules in {:.0} s: {} kept everything, {} kept what is promised under their \
         faults, {} showed nothing, {violations} violations, {problems} lanes failed",
        schedules.values().sum::<usize>(),
        begun.elapsed().as_secs_f64(),
        count(Outcome::Kept),
        count(Outcome::NotPromised),
        count(Outcome::ShowedNothing),
    );
    if violations + problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tasks(options: &Options) -> VecDeque<Task> {
    let seeds: Vec<u64> = match (options.selection, options.time) {
        (true, _) => SELECTION.to_vec(),
        (false, None) => options.seeds.clone().collect(),
        (false, Some(_)) => (options.seeds.start..options.seeds.start + 100_000).collect(),
    };
    // A lane gets many seeds: starting its servers takes longer than a schedule.
    let per_lane = match options.configurations.len() {
        1 => seeds.len().div_ceil(options.jobs).clamp(1, SCHEDULES),
        _ => SCHEDULES,
    };
    let mut tasks = Vec::new();
    for configuration in options.configurations.iter().copied() {
        let known = if options.missing { recorded(configuration) } else { BTreeSet::new() };
        let seeds: Vec<u64> = seeds.iter().copied().filter(|seed| !known.contains(seed)).collect();
        for (turn, seeds) in seeds.chunks(per_lane).enumerate() {
            tasks.push((turn, Task { configuration, seeds: seeds.to_vec() }));
        }
    }
    tasks.sort_by_key(|(turn, _)| *turn);
    tasks.into_iter().map(|(_, task)| task).collect()
}

fn recorded(configuration: Configuration) -> BTreeSet<u64> {
    let path = evidence::folder_of_servers().join(format!("{configuration}.tsv"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let is_known = |line: &page::Schedule| {
        // A new result wouldn't replace a violation's line.
        let showed = line.outcome != Outcome::ShowedNothing;
        line.version == crate::schedule::version(configuration) && showed
    };
    let lines = text.lines().filter_map(page::schedule);
    lines.filter(is_known).map(|line| line.seed).collect()
}

fn run_lane(
    lane: usize,
    task: &Task,
    args: &[String],
    until: Option<BootInstant>,
    counts: &Mutex<Counts>,
) -> Result<()> {
    let folder = Folder::make(lane, task.configuration)?;
    let seeds: Vec<String> = task.seeds.iter().map(u64::to_string).collect();
    // The kernel kills the lane when this thread ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(std::env::current_exe()?);
    command.arg("lane").args([task.configuration.to_string(), seeds.join(",")]).args(args);
    command.env("LOCKWRIGHT_TESTBED_CACHE", std::env::temp_dir());
    command.env("TMPDIR", folder.data()).env(FOLDER, &folder.path);
    command.env(DISK, if folder.is_mounted { "limited" } else { "shared" });
    if let Some(until) = until {
        command.env(UNTIL, until.as_nanos().to_string());
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("a lane has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        let ran = line.strip_prefix("ran ").and_then(|line| line.split(' ').next());
        if let Some(outcome) = ran {
            *lock(counts).schedules.entry(outcome.to_owned()).or_default() += 1;
        }
        println!("{line}");
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("the lane ended with {status}").into()) }
}

pub(crate) const FOLDER: &str = "LOCKWRIGHT_CHAOS_FOLDER";
pub(crate) const DISK: &str = "LOCKWRIGHT_CHAOS_DISK";
/// The latest start of a schedule, in nanoseconds of the boot clock.
pub(crate) const UNTIL: &str = "LOCKWRIGHT_CHAOS_UNTIL";

struct Folder {
    path: PathBuf,
    is_mounted: bool,
}

const FOLDERS: &str = "lockwright-chaos-";

fn remove_abandoned() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some((pid, _)) = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOLDERS))
            .and_then(|name| name.split_once('-'))
        else {
            continue;
        };
        if pid.parse().is_ok_and(|pid: u32| !is_alive(pid)) {
            drop(Folder { path: entry.path(), is_mounted: true });
        }
    }
}

impl Folder {
    fn make(lane: usize, configuration: Configuration) -> Result<Self> {
        let name = format!("{FOLDERS}{}-{lane}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let data = path.join("data");
        std::fs::create_dir_all(&data)?;
        let size = format!("size={}m,mode=1777", configuration.data_size());
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "lockwright-chaos"]).arg(&data);
        let output = mount.stdin(Stdio::null()).output();
        let is_mounted = output.is_ok_and(|output| output.status.success());
        Ok(Self { path, is_mounted })
    }

    fn data(&self) -> PathBuf {
        self.path.join("data")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg("-l").arg(self.data()).output();
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

pub(crate) fn results() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let root = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    target.unwrap_or_else(root).join("chaos")
}
