use std::fs::{read_dir, read_to_string};
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::results::Regime;

const SERVERS: usize = 0;
const OTHER: usize = 1;

impl Regime {
    /// Pins servers and subjects, but not this process: its new children would inherit the core,
    /// and adapt to a machine with one core.
    pub(crate) fn pin(self, servers: &[u32], subjects: &[u32]) {
        pin(servers, SERVERS);
        pin(subjects, if self == Self::OneCore { SERVERS } else { OTHER });
    }
}

/// Threads that start later inherit the core.
fn pin(processes: &[u32], core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    for thread in processes.iter().flat_map(|process| threads(*process)) {
        if let Some(thread) = Pid::from_raw(thread) {
            let _ = sched_setaffinity(Some(thread), &set);
        }
    }
}

fn threads(process: u32) -> impl Iterator<Item = i32> {
    let entries = read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

pub(super) fn used(processes: &[u32]) -> Duration {
    // Threads' times are exact, but only ticks include ended threads.
    let used_by = |process: &u32| used_by_threads(*process).max(used_in_ticks(*process));
    Duration::from_nanos(processes.iter().map(used_by).sum())
}

fn used_by_threads(process: u32) -> u64 {
    let spent = |thread| {
        let stat = read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads(process).filter_map(spent).sum()
}

fn used_in_ticks(process: u32) -> u64 {
    let ticks = || -> Option<u64> {
        let stat = read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The process's name may contain spaces.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    };
    ticks().unwrap_or(0) * (1_000_000_000 / clock_ticks_per_second())
}

pub(super) fn memory(processes: &[u32]) -> u64 {
    let memory_of = |process: &u32| -> Option<u64> {
        let rollup = read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    processes.iter().filter_map(memory_of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_ended_threads_counts() {
        let us = [std::process::id()];
        let before = used(&us);
        let busy = Duration::from_millis(200);
        let work = move || {
            let begun = used_by_threads(std::process::id());
            while used_by_threads(std::process::id()) < begun + busy.as_nanos() as u64 {}
        };
        std::thread::spawn(work).join().unwrap();
        assert!(used(&us) - before >= busy * 9 / 10, "{before:?}, {:?}", used(&us));
    }

    #[test]
    fn memory_that_is_touched_is_seen() {
        let us = [std::process::id()];
        let before = memory(&us);
        let touched = vec![1_u8; 32 << 20];
        assert!(memory(&us) >= before + (24 << 20), "{before}, {}", memory(&us));
        drop(touched);
    }
}
