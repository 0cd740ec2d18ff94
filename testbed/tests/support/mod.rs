//! Inspection of processes.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use lockwright_testbed::wait;

pub(crate) fn runs(pid: u32) -> bool {
    // A zombie has ended; its parent hasn't waited for it yet.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit(')').next().map(|rest| !rest.trim_start().starts_with('Z')))
        .unwrap_or(false)
}

pub(crate) fn assert_gone(pid: u32) {
    assert!(wait::until(wait::LIMIT, || (!runs(pid)).then_some(())).is_some(), "{pid} lives on");
}

/// Runs the test `helper` in a child process until it calls [`tell_and_wait`], kills it, and
/// asserts that its servers end.
pub(crate) fn assert_gone_with_the_process_of(helper: &str) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", helper, "--nocapture"])
        .env("TESTBED_HELPER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("server ")?.1.to_owned()))
        .expect("the helper tells its server's id");
    let pids: Vec<u32> = told.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let folder = std::fs::read_link(format!("/proc/{}/cwd", pids[0])).unwrap();
    assert!(pids.iter().all(|pid| runs(*pid)));
    process.kill().unwrap();
    process.wait().unwrap();
    pids.iter().copied().for_each(assert_gone);
    // The killed process leaves only its temporary folder, which can be large.
    let mut parts = folder.ancestors();
    let temporary = parts.find(|part| part.parent() == Some(&std::env::temp_dir()));
    std::fs::remove_dir_all(temporary.expect("it is a temporary folder")).unwrap();
}

/// Prints the servers' process ids and waits to be killed.
pub(crate) fn tell_and_wait(pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    println!("server {}", pids.join(" "));
    std::thread::sleep(Duration::from_secs(60));
}

/// Returns whether [`assert_gone_with_the_process_of`] started this process.
pub(crate) fn is_helper() -> bool {
    std::env::var_os("TESTBED_HELPER").is_some()
}
