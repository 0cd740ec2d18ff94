use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lockwright_conformance::history::journal::{self, Event};
use lockwright_conformance::register::Register;
use lockwright_conformance::workload::{self, Work};
use serde::{Deserialize, Serialize};

use crate::client;
use crate::configuration::Configuration;
use crate::options::Options;
use crate::servers::{self, Result};

const JOB: &str = "LOCKWRIGHT_CHAOS_SOAK";

const TIME: Duration = Duration::from_secs(600);

const PLAN: Duration = Duration::from_secs(4);

/// The growth is measured from a fifth of the duration on, when caches are full.
const SETTLED_AFTER: u32 = 5;

/// Bytes of memory: allocators keep freed pages.
const GROWTH: u64 = 8 << 20;

#[derive(Serialize, Deserialize)]
struct Job {
    clients: [client::Job; 4],
    folder: PathBuf,
    time: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    memory: u64,
    descriptors: u64,
    threads: u64,
}

pub(crate) fn run(options: &Options) -> ExitCode {
    let time = options.time.unwrap_or(TIME);
    let mut is_sound = true;
    println!("| | grants | memory | descriptors | threads | left on the servers |");
    println!("|---|---|---|---|---|---|");
    for configuration in &options.configurations {
        match soak(*configuration, time) {
            Ok(sound) => is_sound &= sound,
            Err(problem) => {
                eprintln!("{configuration}: {problem}");
                is_sound = false;
            }
        }
    }
    if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn soak(configuration: Configuration, time: Duration) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let mut servers = servers::start(configuration, folder.path())?;
    servers.prepare(false)?;
    let profile = servers::profile(&servers.direct_url())?;
    let ttl = configuration.ttl().max(*profile.ttl.start());
    let register = Register::default().serve()?.to_string();
    let clients = [0, 1, 2, 3].map(|process| {
        let (seed, names, work, watches) = (0, Vec::new(), Work::all_for(&profile), true);
        client::Job {
            plan: workload::Plan { seed, process, names, ttl, duration: PLAN, work, watches },
            url: servers.direct_url(),
            name: format!("soaker-{process}"),
            journal: folder.path().join(format!("journal-{process}")),
            register: register.clone(),
        }
    });
    let job = Job { clients, folder: folder.path().to_owned(), time };
    let mut child = Command::new(std::env::current_exe()?)
        .arg("soaker")
        .env(JOB, serde_json::to_string(&job)?)
        .spawn()?;
    let measured = watch(&mut child, time, &folder.path().join("idle"));
    let status = child.wait()?;
    let (first, last) = measured?;
    if !status.success() {
        return Err(format!("the process that works failed: {status}").into());
    }
    let grants = fs::read_to_string(folder.path().join("grants"))?;
    let left = left(&mut *servers, ttl)?;
    let grew = last.memory > first.memory + GROWTH
        || last.descriptors > first.descriptors
        || last.threads > first.threads;
    println!(
        "| {configuration} | {grants} | {} to {} MB | {} to {} | {} to {} | {} |",
        first.memory >> 20,
        last.memory >> 20,
        first.descriptors,
        last.descriptors,
        first.threads,
        last.threads,
        if left.is_empty() { "nothing".to_owned() } else { left.join(", ") }
    );
    Ok(!grew && left.is_empty() && grants != "0")
}

fn left(servers: &mut dyn servers::Servers, ttl: Duration) -> Result<Vec<String>> {
    let until = Instant::now() + ttl * 2 + Duration::from_secs(5);
    loop {
        let left = servers.leaks("soak-")?;
        if left.is_empty() || Instant::now() > until {
            return Ok(left);
        }
        sleep(Duration::from_millis(100));
    }
}

/// Measures the worker between plans, when it has created the file `idle` and waits for its
/// removal.
fn watch(child: &mut Child, time: Duration, idle: &Path) -> Result<(Measured, Measured)> {
    let begun = Instant::now();
    let mut first: Option<Measured> = None;
    let mut last = Measured::default();
    while child.try_wait()?.is_none() {
        if idle.exists() {
            last = measure(child.id())?;
            if begun.elapsed() > time / SETTLED_AFTER {
                first.get_or_insert(last);
            }
            fs::remove_file(idle)?;
        }
        sleep(Duration::from_millis(20));
    }
    Ok((first.ok_or("the process was never idle")?, last))
}

fn measure(pid: u32) -> Result<Measured> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
    };
    Ok(Measured {
        memory: number("VmRSS:").ok_or("no VmRSS")? * 1024,
        threads: number("Threads:").ok_or("no Threads")?,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64,
    })
}

pub(crate) fn work() -> Result<()> {
    let mut job: Job = serde_json::from_str(&std::env::var(JOB)?)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let begun = Instant::now();
    let mut grants = 0;
    for number in 0.. {
        if begun.elapsed() >= job.time {
            break;
        }
        for client in &mut job.clients {
            client.plan.seed = number;
            client.plan.names = (0..4).map(|name| format!("soak-{number}-{name}")).collect();
        }
        let [a, b, c, d] = &job.clients;
        let round = async { tokio::try_join!(granted(a), granted(b), granted(c), granted(d)) };
        let (a, b, c, d) = runtime.block_on(round)?;
        grants += a + b + c + d;
        let idle = job.folder.join("idle");
        fs::write(&idle, "")?;
        while idle.exists() {
            sleep(Duration::from_millis(5));
        }
    }
    Ok(fs::write(job.folder.join("grants"), grants.to_string())?)
}

async fn granted(client: &client::Job) -> Result<usize> {
    client.work(&client.journal()?).await?;
    let entries = journal::read(&client.journal)?;
    fs::remove_file(&client.journal)?;
    Ok(entries.iter().filter(|entry| matches!(entry.event, Event::Granted { .. })).count())
}
