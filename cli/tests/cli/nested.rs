//! Tests of a run inside the command of an outer run for the same name.

use std::fs;

use rustix::process::Signal;

use crate::harness::{Finished, Sandbox, program, wait_until};

/// Returns arguments of `run` for a shell script whose `$0` is the tested program.
fn nested<'a>(script: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = more.to_vec();
    args.extend(["a", "--", "sh", "-c", script, program()]);
    args
}

/// Runs the program with `holds` in the variable that an outer run sets.
fn with_holds<const N: usize>(sandbox: &Sandbox, holds: &str, args: [&str; N]) -> Finished {
    sandbox.finish(sandbox.lockwright(args).env("LOCKWRIGHT_HOLDS", holds))
}

#[test]
fn the_inner_run_has_the_outer_hold() {
    let sandbox = Sandbox::new();
    let script = "echo outer $LOCKWRIGHT_FENCE $LOCKWRIGHT_OWNER; \
                  \"$0\" run -n a -- sh -c 'echo inner $LOCKWRIGHT_FENCE $LOCKWRIGHT_OWNER; exit 7'; \
                  echo code $?; \"$0\" show --json a";
    let running = sandbox.start(&nested(script, &[]));
    let granted = running.wait_for_event("granted");
    let (status, out) = running.finish();
    assert!(status.success());
    let lines: Vec<&str> = out.lines().collect();
    let outer = lines[0].strip_prefix("outer ").unwrap();
    assert_eq!(lines[1].strip_prefix("inner "), Some(outer));
    assert!(outer.starts_with(&format!("{} ", granted["fence"])), "{outer}");
    assert_eq!(lines[2], "code 7");
    let shown: serde_json::Value = serde_json::from_str(&lines[3..].join("\n")).unwrap();
    assert_eq!(shown["holders"][0]["fence"], granted["fence"], "the inner end released nothing");
    sandbox.wait_until_empty();
    sandbox.assert_free("a");
}

#[test]
fn the_inner_run_says_what_it_has() {
    let sandbox = Sandbox::new();
    let script = "\"$0\" run --json a -- true 2>nested";
    let running = sandbox.start(&nested(script, &["--label", "nightly"]));
    let granted = running.wait_for_event("granted");
    assert_eq!(running.code(), 0);
    let said = fs::read_to_string(sandbox.path("nested")).unwrap();
    let said: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!((&said["event"], &said["nested"]), (&"granted".into(), &true.into()));
    for same in ["name", "fence", "owner", "mode"] {
        assert_eq!(said[same], granted[same], "{same}");
    }
}

#[test]
fn with_another_lock_in_between_it_is_the_outer_one_too() {
    let sandbox = Sandbox::new();
    let script = "\"$0\" run -w 60 b -- \"$0\" run -n a -- \"$0\" run -n b -- \
                  sh -c 'echo $LOCKWRIGHT_NAME' && \"$0\" --namespace c/ run -n a -- echo another";
    let finished = sandbox.output_of(&nested(script, &["-n"]));
    assert_eq!(finished.exits(0).stdout(), "b\nanother\n");
}

#[test]
fn handle_of_an_ended_run_is_refused() {
    let sandbox = Sandbox::new();
    let script = "printf %s \"$LOCKWRIGHT_HOLDS\" >holds";
    assert_eq!(sandbox.output_of(&nested(script, &[])).code(), 0);
    let stale = fs::read_to_string(sandbox.path("holds")).unwrap();
    let refused = with_holds(&sandbox, &stale, ["run", "a", "--", "touch", "ran"]);
    refused.exits(75).says("unset it");
    // Inside a later run for the same name, the ended run's variable is refused.
    let script = "LOCKWRIGHT_HOLDS=$(cat holds) \"$0\" run -n a -- touch ran";
    sandbox.output_of(&nested(script, &[])).exits(75);
    assert!(!sandbox.path("ran").exists());
    with_holds(&sandbox, &stale, ["run", "-n", "b", "--", "true"]).exits(0);
}

#[test]
fn invented_handle_is_refused() {
    let sandbox = Sandbox::new();
    // Each inner run is in an outer run, but its variable has a false token, fence or start time.
    for (what, with) in [
        ("\"token\":\"[0-9a-f]*\"", "\"token\":\"00112233445566778899aabbccddeeff\""),
        ("\"fence\":[0-9]*", "\"fence\":9007199254740991"),
        ("\"started\":[0-9]*", "\"started\":1"),
    ] {
        let script = format!(
            "invented=$(printf %s \"$LOCKWRIGHT_HOLDS\" | sed 's/{what}/{with}/'); \
             test \"$invented\" != \"$LOCKWRIGHT_HOLDS\" || exit 3; \
             LOCKWRIGHT_HOLDS=$invented \"$0\" run -n a -- touch ran"
        );
        let refused = sandbox.output_of(&nested(&script, &[]));
        assert_eq!(refused.code(), 75, "{what}: {}", refused.stderr());
    }
    for nonsense in ["", "yes", "[1]", "{}"] {
        let refused = with_holds(&sandbox, nonsense, ["run", "a", "--", "touch", "ran"]);
        assert_eq!(refused.code(), 64, "{nonsense}: {}", refused.stderr());
    }
    assert!(!sandbox.path("ran").exists());
}

#[test]
fn process_outside_the_outer_run_is_refused() {
    let sandbox = Sandbox::new();
    let script = "printf %s \"$LOCKWRIGHT_HOLDS\" >holds.new; mv holds.new holds; \
                  while [ ! -e done ]; do sleep 0.02; done";
    let running = sandbox.start(&nested(script, &[]));
    wait_until("the variable", || sandbox.path("holds").exists());
    let holds = fs::read_to_string(sandbox.path("holds")).unwrap();
    with_holds(&sandbox, &holds, ["run", "a", "--", "touch", "ran"]).exits(75);
    assert!(!sandbox.path("ran").exists());
    sandbox.end(running);
}

#[test]
fn under_a_broken_hold_nothing_begins() {
    let sandbox = Sandbox::new();
    // The command ignores TERM, so it still runs after the break.
    let script = "trap '' TERM; touch up; while [ ! -e broken ]; do sleep 0.02; done; \
                  \"$0\" run a -- touch ran; echo $? >code.new; mv code.new code; sleep 60";
    let running = sandbox.start(&nested(script, &["--ttl", "20s"]));
    wait_until("the command", || sandbox.path("up").exists());
    assert_eq!(sandbox.output(["break", "--yes", "a"]).code(), 0);
    fs::write(sandbox.path("broken"), "").unwrap();
    wait_until("the inner end", || sandbox.path("code").exists());
    assert_eq!(fs::read_to_string(sandbox.path("code")).unwrap(), "75\n");
    assert!(!sandbox.path("ran").exists());
    running.signal(Signal::KILL);
    sandbox.wait_until_empty();
}

#[test]
fn the_inner_command_ends_with_the_outer_hold() {
    let sandbox = Sandbox::new();
    let script = "\"$0\" run a -- sh -c \"trap '' TERM; touch up; while :; do sleep 0.1; done\"";
    let running = sandbox.start(&nested(script, &["--ttl", "2s"]));
    wait_until("the inner command", || sandbox.path("up").exists());
    running.signal(Signal::KILL);
    sandbox.wait_until_empty();
    // The killed run didn't release the hold, which must expire first.
    assert_eq!(sandbox.output(["run", "-w", "60", "a", "--", "true"]).code(), 0);
}

#[test]
fn outer_runs_operations_are_refused_inside() {
    let sandbox = Sandbox::new();
    for option in ["--max-hold", "--at-least", "--once-per"] {
        let inner = format!("\"$0\" run {option} 1s a -- touch ran");
        sandbox.output_of(&nested(&inner, &[])).exits(64);
    }
    sandbox.output_of(&nested("\"$0\" run --shared a -- touch ran", &[])).exits(65);
    sandbox.output_of(&nested("\"$0\" run a -- ./no-such-program", &[])).exits(127);
    assert!(!sandbox.path("ran").exists());
}
