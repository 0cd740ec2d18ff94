//! Tests of the options that `run` shares with flock(1).

use std::time::{Duration, Instant};

use crate::harness::{Sandbox, UNTIL_DONE, program};

const HELD: [&str; 5] = ["a", "--", "sh", "-c", UNTIL_DONE];

#[test]
fn nonblock_exits_with_1_at_once() {
    let sandbox = Sandbox::new();
    let _held = sandbox.hold(&HELD);
    for flag in ["-n", "--nonblock", "--nb"] {
        let start = Instant::now();
        let finished = sandbox.output(["run", flag, "a", "--", "sh", "-c", "echo ran"]);
        assert_eq!((finished.code(), finished.stdout().as_str()), (1, ""));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    assert_eq!(sandbox.output(["run", "-w", "0", "a", "--", "true"]).code(), 1);
}

#[test]
fn a_timeout_exits_with_1_when_it_has_passed() {
    let sandbox = Sandbox::new();
    let _held = sandbox.hold(&HELD);
    for (flag, limit) in [("-w", "0.5"), ("--timeout", "500ms"), ("--wait", ".5")] {
        let start = Instant::now();
        let finished = sandbox.output(["run", flag, limit, "a", "--", "sh", "-c", "echo ran"]);
        assert_eq!((finished.code(), finished.stdout().as_str()), (1, ""), "{}", finished.stderr());
        let took = start.elapsed();
        let expected = Duration::from_millis(500)..Duration::from_secs(5);
        assert!(expected.contains(&took), "late: {took:?}");
    }
}

#[test]
fn holder_is_reported_on_giving_up() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--label", "nightly", "a", "--", "sh", "-c", UNTIL_DONE]);
    for (options, event) in [(&["-n"][..], "busy"), (&["-w", "0.5"], "timed_out")] {
        let args = [options, &["a", "--", "true"]].concat();
        sandbox
            .output_of(&args)
            .exits(1)
            .says("did not get \"a\": held by nightly@")
            .says(" s left unless renewed); `lockwright show \"a\"` shows more\n");
        let given_up = sandbox.start(&args);
        let holder = given_up.wait_for_event(event)["holders"][0].clone();
        assert_eq!(holder["identity"]["pid"], held.pid(), "{holder}");
        assert!(holder["remaining_ms"].is_u64(), "{holder}");
        assert_eq!(given_up.code(), 1);
    }
    assert_eq!(sandbox.output_of(&["-q", "-n", "a", "--", "true"]).exits(1).stderr(), "");
}

#[test]
fn client_does_not_wait_for_itself() {
    let redis = lockwright_testbed::redis::Redis::start().unwrap();
    for sandbox in [Sandbox::new(), Sandbox::at(&redis.url())] {
        for _ in 0..20 {
            let running = sandbox.start(&["a", "--", "true"]);
            running.wait_for_event("released");
            assert!(running.event("waiting").is_none(), "{:?}", running.events());
            assert_eq!(running.code(), 0);
        }
    }
}

#[test]
fn the_conflict_exit_code_can_be_another() {
    let sandbox = Sandbox::new();
    let _held = sandbox.hold(&HELD);
    assert_eq!(sandbox.output(["run", "-n", "-E", "42", "a", "--", "true"]).code(), 42);
    // The wait is 3 s, because a busy disk may delay the first answer.
    let waited = ["run", "-w", "3", "--conflict-exit-code", "0", "a", "--", "false"];
    assert_eq!(sandbox.output(waited).code(), 0);
    sandbox.output(["run", "-n", "-E", "256", "a", "--", "true"]).exits(64);
}

#[test]
fn shared_locks_go_together_and_exclude_exclusive_ones() {
    let sandbox = Sandbox::new();
    if sandbox.output(["doctor", "--json"]).json()["profile"]["modes"]["shared"] == false {
        sandbox.output(["run", "-s", "a", "--", "true"]).exits(78).says("shared");
        return;
    }
    let reader = sandbox.hold(&["-s", "a", "--", "sh", "-c", UNTIL_DONE]);
    sandbox.output(["run", "--shared", "-n", "a", "--", "true"]).exits(0);
    for exclusive in ["-x", "-e", "--exclusive"] {
        assert_eq!(sandbox.output(["run", exclusive, "-n", "a", "--", "true"]).code(), 1);
    }
    sandbox.end(reader);
    assert_eq!(sandbox.output(["run", "-x", "-n", "a", "--", "true"]).code(), 0);
}

#[test]
fn a_command_can_be_a_line_for_the_shell() {
    let sandbox = Sandbox::new();
    let finished = sandbox.output(["run", "a", "-c", "echo \"$LOCKWRIGHT_NAME\" && exit 5"]);
    assert_eq!((finished.code(), finished.stdout().as_str()), (5, "a\n"));
    assert_eq!(sandbox.output(["run", "a", "-c", "true", "--", "false"]).code(), 64);
}

#[test]
fn options_of_the_command_are_the_commands() {
    let sandbox = Sandbox::new();
    for separator in [&["--"][..], &[]] {
        let mut args = vec!["run", "a"];
        args.extend(separator);
        args.extend(["echo", "-n", "--json", "--", "-w"]);
        let finished = sandbox.finish(sandbox.command(program()).args(args));
        assert_eq!((&*finished.stdout(), &*finished.stderr()), ("--json -- -w", ""));
    }
}

#[test]
fn hold_ends_the_command_when_its_time_is_over() {
    let sandbox = Sandbox::new();
    for (limit, says) in [("--fixed", "not renewed within"), ("--max-hold=2s", "longest time")] {
        let held = sandbox.start(&[limit, "--ttl", "2s", "a", "--", "sleep", "60"]);
        let error = held.wait_for_error(75);
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        let is_fixed = held.events().iter().all(|event| event["event"] != "renewed");
        assert_eq!(is_fixed, limit == "--fixed");
        assert_eq!(held.code(), 75);
        sandbox.wait_until_empty();
    }
    sandbox.assert_free("a");
}
