//! Looking at processes.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use lockwright_testbed::wait;

pub(crate) fn runs(pid: u32) -> bool {
    // A zombie is over: it only waits for somebody to ask how it ended.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit(')').next().map(|rest| !rest.trim_start().starts_with('Z')))
        .unwrap_or(false)
}

pub(crate) fn assert_gone(pid: u32) {
    assert!(wait::until(wait::LIMIT, || (!runs(pid)).then_some(())).is_some(), "{pid} lives on");
}

/// Runs the test `helper` of this binary in a process of its own, until it has printed a line
/// `server PID...`; kills that process, and returns the ids.
pub(crate) fn kill_the_process_of(helper: &str) -> Vec<u32> {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", helper, "--nocapture"])
        .env("TESTBED_HELPER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pids: Vec<u32> = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| {
            line.split_once("server ")?.1.split_whitespace().map(|pid| pid.parse().ok()).collect()
        })
        .expect("the helper tells its server's id");
    assert!(pids.iter().all(|pid| runs(*pid)));
    process.kill().unwrap();
    process.wait().unwrap();
    pids
}

/// Whether this process is one that [`kill_the_process_of`] started.
pub(crate) fn is_helper() -> bool {
    std::env::var_os("TESTBED_HELPER").is_some()
}
