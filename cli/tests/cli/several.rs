//! Tests of a run with several locks (`--and`), and with permits.

use crate::harness::{Sandbox, UNTIL_DONE, program};

#[test]
fn all_locks_are_held() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["c", "--and", "a", "--and", "b", "--", "sh", "-c", UNTIL_DONE]);
    for name in ["a", "b", "c"] {
        assert_eq!(sandbox.output(["run", "-n", name, "--", "true"]).code(), 1, "{name}");
    }
    sandbox.end(held);
    ["a", "b", "c"].iter().for_each(|name| sandbox.assert_free(name));
}

#[test]
fn command_has_a_line_for_each_name() {
    let sandbox = Sandbox::new();
    sandbox.assert_free("b");
    let script =
        "echo \"$LOCKWRIGHT_NAME\"; echo \"$LOCKWRIGHT_FENCE\"; echo \"$LOCKWRIGHT_FENCED\"";
    let nested = format!("{script}; \"$0\" run -n a -- sh -c '{script}'");
    let run = ["b", "--and", "a", "--", "sh", "-c", &nested, program()];
    let running = sandbox.start(&run);
    let (status, out) = running.finish();
    assert!(status.success());
    let lines: Vec<&str> = out.lines().collect();
    let [b, a, of_b, of_a, fenced_b, fenced_a, nested @ ..] = &lines[..] else { panic!("{out}") };
    assert_eq!((*b, *a), ("b", "a"));
    assert!(of_b > of_a, "b was held before: {out}");
    assert_eq!(*fenced_b, format!("\"{of_b}\";name=\"b\""));
    assert_eq!(*fenced_a, format!("\"{of_a}\";name=\"a\""));
    assert_eq!(nested, ["a", of_a, fenced_a]);
}

#[test]
fn inner_run_needs_all_names_of_the_outer_run() {
    let sandbox = Sandbox::new();
    let script = "\"$0\" run -n a --and b -- echo both; \"$0\" run -n a --and c -- echo ran";
    let finished = sandbox.output_of(&["b", "--and", "a", "--", "sh", "-c", script, program()]);
    assert_eq!(finished.exits(65).says("holds \"a\" but not \"c\"").stdout(), "both\n");
    sandbox.assert_free("c");
}

#[test]
fn busy_name_is_reported() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--label", "nightly", "b", "--", "sh", "-c", UNTIL_DONE]);
    for limit in ["-n", "-w0.5"] {
        let finished = sandbox.output_of(&[limit, "a", "--and", "b", "--", "true"]);
        finished.exits(1).says("did not get \"b\": held by nightly@");
        sandbox.assert_free("a");
    }
    sandbox.end(held);
}

#[test]
fn loss_of_one_lock_ends_the_command() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--ttl", "2s", "a", "--and", "b", "--", "sleep", "60"]);
    sandbox.output(["break", "--yes", "b"]).exits(0);
    assert_eq!(held.wait_for_event("lost")["name"], "b");
    assert_eq!(held.code(), 75);
    sandbox.wait_until_empty();
    sandbox.assert_free("a");
}

#[test]
fn permits_limit_the_runs() {
    let sandbox = Sandbox::new();
    let one = ["--semaphore", "3", "a", "--", "sh", "-c", UNTIL_DONE];
    let first = sandbox.hold(&one);
    let two = ["--semaphore=3", "--permits=2", "-n", "a", "--", "sh", "-c"];
    let script =
        "echo \"[$LOCKWRIGHT_FENCE]\"; \"$0\" run --semaphore 3 --permits 2 a -- echo inner";
    let nested = [&two[..], &[script, program()]].concat();
    assert_eq!(sandbox.output_of(&nested).exits(0).stdout(), "[]\ninner\n");
    let second = sandbox.hold(&one);
    assert_eq!(sandbox.output(["show", "--json", "a"]).json()["free_permits"], 1);
    sandbox.output(["show", "a"]).prints("free        1 permits");
    sandbox.output_of(&[&two[..], &["true"]].concat()).exits(1).says("did not get \"a\": held by");
    sandbox.output(["run", "--semaphore", "3", "-n", "a", "--", "true"]).exits(0);
    sandbox.end(first);
    assert_eq!(second.code(), 0);
    sandbox.assert_free("a");
}

#[test]
fn impossible_combinations_are_rejected() {
    let sandbox = Sandbox::new();
    for (subcommand, options) in [
        ("run", &["-s", "--and=b"][..]),
        ("run", &["-s", "--semaphore=2"]),
        ("run", &["-x", "--semaphore=2"]),
        ("run", &["--and=b", "--semaphore=2"]),
        ("run", &["--permits=2"]),
        ("run", &["--semaphore=2", "--permits=3"]),
        ("run", &["--and="]),
        ("elect", &["--semaphore=2"]),
    ] {
        let mut command = sandbox.command(program());
        command.arg(subcommand).args(options).args(["a", "--", "touch", "ran"]);
        assert_eq!(sandbox.finish(&mut command).code(), 64, "{subcommand} {options:?}");
    }
    assert!(!sandbox.path("ran").exists());
}
