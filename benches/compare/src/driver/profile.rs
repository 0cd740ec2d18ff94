use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::backend_run::BackendRun;
use super::subject::Contest;
use super::worker::Failure;
use crate::results::{Kind, Profile, Regime};

/// With one core, a profile has the shares of subjects and servers.
const REGIME: Regime = Regime::OneCore;

/// The samples' frequency. It divides no common timer frequency, so samples don't coincide with
/// timers.
const FREQUENCY: &str = "2997";

const SETTLING: Duration = Duration::from_millis(500);

const LEAST: f64 = 0.01;

const LINES: usize = 12;

impl BackendRun<'_> {
    pub(super) fn profile(&mut self, folder: &Path) -> Result<Vec<Profile>, Failure> {
        let mut profiles = Vec::new();
        for workload in ["pairs", "hand-over"] {
            if !self.wants(workload) || (workload == "hand-over" && self.is_in_one_process()) {
                continue;
            }
            let Some(subject) =
                self.subjects.iter_mut().find(|subject| subject.program.kind == Kind::Ours)
            else {
                continue;
            };
            self.progress.say(&format!("{}, {workload}: a profile", self.backend));
            let processes = if workload == "pairs" { 1 } else { self.pace.processes };
            subject.spawn(processes)?;
            let sampler = Sampler::start(folder.join("perf.data"))?;
            let name = format!("bench/{}/profile/{workload}", self.backend);
            let time = self.pace.contest * 2;
            if workload == "pairs" {
                subject.pairs(REGIME, &name, time)?;
            } else {
                let contest = Contest { processes, tasks: 1, time, section: Duration::ZERO };
                subject.contest(REGIME, &name, &contest)?;
            }
            profiles.push(Profile {
                backend: self.backend.to_owned(),
                workload: workload.to_owned(),
                regime: REGIME,
                subject: subject.program.handshake.name.clone(),
                by: format!("perf, {FREQUENCY} samples a second of their core"),
                shares: sampler.end()?,
            });
        }
        Ok(profiles)
    }
}

/// Samples a core instead of processes, because servers start and end processes.
struct Sampler {
    recording: Child,
    data: PathBuf,
}

impl Sampler {
    fn start(data: PathBuf) -> Result<Self, Failure> {
        let _ = std::fs::remove_file(&data);
        let mut command = Command::new("perf");
        let core = REGIME.core_of_subjects().to_string();
        command.args(["record", "-q", "-e", "cpu-clock", "-F", FREQUENCY, "-a", "-C", &core, "-o"]);
        command.arg(&data);
        let started =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let recording = started
            .map_err(|error| Failure::Failed(format!("perf (linux-perf on Debian): {error}")))?;
        std::thread::sleep(SETTLING);
        Ok(Self { recording, data })
    }

    fn end(mut self) -> Result<Vec<(String, f64)>, Failure> {
        let failed = |error: std::io::Error| Failure::Failed(format!("perf: {error}"));
        if let Some(pid) = i32::try_from(self.recording.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        self.recording.wait().map_err(failed)?;
        let mut report = Command::new("perf");
        report.args(["report", "--stdio", "-q", "-F", "overhead,comm,sym", "-g", "none", "-i"]);
        report.arg(&self.data);
        let output = report.stdin(Stdio::null()).stderr(Stdio::null()).output().map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let shares = text.lines().filter_map(share).filter(|(_, share)| *share >= LEAST);
        let shares: Vec<_> = shares.take(LINES).collect();
        if shares.is_empty() {
            let why = "perf saw nothing: is it allowed to? (kernel.perf_event_paranoid)";
            return Err(Failure::Failed(why.to_owned()));
        }
        Ok(shares)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        let _ = self.recording.kill();
        let _ = self.recording.wait();
    }
}

/// Parses `    12.34%  redis-server  [k] tcp_sendmsg`.
fn share(line: &str) -> Option<(String, f64)> {
    let (percent, rest) = line.trim().split_once('%')?;
    let (who, symbol) = rest.trim().split_once("  ")?;
    let (side, symbol) = symbol.trim().split_once(' ')?;
    let kernel = if side == "[k]" { "kernel: " } else { "" };
    let symbol = symbol.trim().split("  ").next()?;
    // Removes the hash, as in `f::h0123456789abcdef`.
    let symbol = symbol.split("::h0").next().unwrap_or(symbol);
    let what = match who.trim() {
        "swapper" => "idle".to_owned(),
        who => format!("{who}: {kernel}{symbol}"),
    };
    Some((what, percent.trim().parse::<f64>().ok()? / 100.0))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_line_says_who_and_what_and_how_much() {
        for (line, what, hundredths) in [
            ("    12.34%  redis-server     [.] lookupKey  ", "redis-server: lookupKey", 1234.0),
            ("     0.50%  bench-ours  [k] tcp_sendmsg", "bench-ours: kernel: tcp_sendmsg", 50.0),
            ("  61.20%  swapper  [k] native_safe_halt    -      -", "idle", 6120.0),
            ("     1.96%  bench-ours  [.] a::B<c>::d    -      -", "bench-ours: a::B<c>::d", 196.0),
        ] {
            let (found, share) = share(line).unwrap();
            assert_eq!((found.as_str(), (share * 1e4).round()), (what, hundredths));
        }
        assert_eq!(share("# Samples: 5"), None);
    }
}
