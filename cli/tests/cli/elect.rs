use std::fs;

use lockwright_testbed::redis::Redis;
use rustix::process::Signal;

use crate::harness::{Running, Sandbox, wait_until};

/// Writes its fence, and runs until its signal or [`Sandbox::end`].
const LEAD: &str = "echo $LOCKWRIGHT_FENCE >>fences; while [ ! -e done ]; do sleep 0.02; done";

fn fences(sandbox: &Sandbox) -> Vec<u64> {
    let text = fs::read_to_string(sandbox.path("fences")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn lead(sandbox: &Sandbox, script: &str) -> Running {
    let running = sandbox.start_as("elect", &["--ttl", "3s", "a", "-c", script]);
    wait_until("it leads", || fences(sandbox).len() == 1);
    running
}

fn break_now(sandbox: &Sandbox) {
    sandbox.output(["break", "--now", "--yes", "a"]).exits(0);
}

#[test]
fn command_that_ends_by_itself_ends_the_election() {
    let sandbox = Sandbox::new();
    for code in [0, 1, 7] {
        sandbox.output(["elect", "a", "-c", &format!("exit {code}")]).exits(code);
    }
    sandbox.output(["elect", "a", "--", "/no/such/command"]).exits(127);
}

#[test]
fn command_runs_again_with_a_larger_fence_after_each_loss() {
    let sandbox = Sandbox::new();
    let running = lead(&sandbox, LEAD);
    for terms in 2..=3 {
        break_now(&sandbox);
        wait_until("it leads again", || fences(&sandbox).len() == terms);
    }
    let retries = running.events().into_iter().filter(|event| event["event"] == "retrying");
    assert!(retries.map(|event| event["pause_ms"].as_u64()).all(|pause| pause <= Some(1_000)));
    sandbox.end(running);
    assert!(fences(&sandbox).is_sorted_by(|one, next| one < next), "{:?}", fences(&sandbox));
    sandbox.assert_free("a");
}

#[test]
fn signal_ends_the_election() {
    let sandbox = Sandbox::new();
    let running = lead(&sandbox, LEAD);
    running.signal(Signal::TERM);
    assert_eq!(running.code(), 143);
}

#[test]
fn signal_ends_the_election_at_the_loss_if_the_command_ignores_it() {
    let sandbox = Sandbox::new();
    let running = lead(&sandbox, &format!("trap 'touch ignored' TERM; {LEAD}"));
    running.signal(Signal::TERM);
    wait_until("the signal arrives", || sandbox.path("ignored").exists());
    break_now(&sandbox);
    assert_eq!(running.code(), 143);
    assert_eq!(fences(&sandbox).len(), 1);
}

#[test]
fn unreachable_server_is_retried_on_redis() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let running = lead(&sandbox, LEAD);
    redis.freeze();
    wait_until("a longer pause", || {
        running.event("retrying").is_some_and(|event| event["pause_ms"].as_u64() >= Some(2_000))
    });
    redis.thaw();
    wait_until("it leads again", || fences(&sandbox).len() == 2);
    sandbox.end(running);
    sandbox.output(["--url", "redis://127.0.0.1:1/", "elect", "a", "--", "true"]).exits(69);
    sandbox.output(["elect", "-s", "a", "--", "true"]).exits(64);
}
