use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use lockwright_testbed::descendants::has_ended;
use lockwright_testbed::{Program, Redis};

use crate::assert_gone;

const HELPER: &str = "TESTBED_HELPER";

/// Runs in a helper process that the next test starts and kills.
#[test]
fn helper_that_starts_a_server_and_waits() {
    if std::env::var_os(HELPER).is_none() {
        return;
    }
    // The server outlives this short-lived thread, but not the process.
    let server = std::thread::spawn(|| Redis::start().unwrap()).join().unwrap();
    assert_eq!(server.command::<String>(&["PING"]).unwrap(), "PONG");
    println!("server {}", server.pid());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn server_is_gone_when_the_test_process_is_killed() {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::helper_that_starts_a_server_and_waits", "--nocapture"])
        .env(HELPER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let pid = lines.find_map(|line| line.split_once("server ")?.1.parse().ok());
    let pid = pid.expect("the helper tells its server's id");
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert!(!has_ended(pid));
    process.kill().unwrap();
    process.wait().unwrap();
    assert_gone(pid);
    // The killed process left its folder behind.
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_missing_binary_names_its_package() {
    let missing = Program::new("no-such-server", "some-package").locate().unwrap_err();
    assert!(missing.to_string().contains("package some-package"), "{missing}");
}

#[test]
fn a_program_is_run_to_its_end_and_no_longer_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let shell = |script: &str| Program::new("sh", "dash").args(["-c", script]);
    // The text exceeds a pipe's buffer.
    let long = "x".repeat(300_000);
    assert_eq!(shell("cat").run(folder.path(), &long).unwrap(), long);
    let failed = shell("echo out; echo err >&2; exit 3").run(folder.path(), &long).unwrap_err();
    let said = failed.to_string();
    assert!(["exit status: 3", "out\n", "err\n"].iter().all(|it| said.contains(it)), "{said}");
    let hangs = shell("echo $$; exec sleep 1000").within(Duration::from_millis(500));
    let hung = hangs.run(folder.path(), &long).unwrap_err().to_string();
    assert!(hung.contains("did not end within 500ms"), "{hung}");
    assert_gone(hung.lines().last().unwrap().parse().unwrap());
}
