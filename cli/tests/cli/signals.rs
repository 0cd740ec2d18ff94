use std::fs;

use rustix::process::Signal;

use crate::harness::{Sandbox, UNTIL_DONE, signal, wait_for, wait_until};

#[test]
fn signals_go_to_the_command_and_the_lock_is_held_until_it_ends() {
    let sandbox = Sandbox::new();
    let script = "for s in TERM INT HUP QUIT USR1 USR2; do trap \"echo $s >>got\" $s; done; \
                  echo >ready; while [ ! -e done ]; do sleep 0.02; done; exit 9";
    let held = sandbox.start(&["a", "--", "sh", "-c", script]);
    wait_until("the traps", || sandbox.path("ready").exists());
    let mut expected = String::new();
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        held.signal(signal);
        expected += &format!("{name}\n");
        wait_until(name, || {
            fs::read_to_string(sandbox.path("got")).is_ok_and(|got| got == expected)
        });
    }
    assert_eq!(sandbox.output(["run", "-n", "a", "--", "true"]).code(), 1, "it is still held");
    fs::write(sandbox.path("done"), "").unwrap();
    assert_eq!(held.code(), 9);
    sandbox.assert_free("a");
}

#[test]
fn a_command_that_dies_of_a_forwarded_signal_releases_the_lock() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["a", "--", "sleep", "60"]);
    held.signal(Signal::TERM);
    assert_eq!(held.code(), 143);
    sandbox.assert_free("a");
    sandbox.wait_until_empty();
}

/// Each run sends the second signal at a different time around the release.
#[test]
fn a_signal_during_the_release_is_no_failure() {
    let sandbox = Sandbox::new();
    for run in 0..30 {
        let held = sandbox.hold(&["a", "--", "sleep", "60"]);
        let command = held.wait_for_event("started")["pid"].as_i64().unwrap();
        signal(i32::try_from(command).unwrap(), Signal::TERM);
        std::thread::sleep(std::time::Duration::from_micros(300 * run));
        held.signal(Signal::TERM);
        let events = held.events.clone();
        held.code();
        let text = fs::read_to_string(events).unwrap();
        assert!(!text.contains("not_released"), "{run}: {text}");
    }
}

#[test]
fn the_whole_process_group_of_the_command_gets_them() {
    let sandbox = Sandbox::new();
    let script = "sh -c 'trap \"echo >inner; exit\" TERM; echo >ready; \
                  while :; do sleep 0.02; done'; exit 4";
    let held = sandbox.start(&["a", "--", "sh", "-c", &format!("trap : TERM; {script}")]);
    wait_until("the trap", || sandbox.path("ready").exists());
    held.signal(Signal::TERM);
    assert_eq!(held.code(), 4);
    assert!(sandbox.path("inner").exists());
}

#[test]
fn a_wait_ends_by_a_signal_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["a", "--", "sh", "-c", UNTIL_DONE]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let waiter = sandbox.start(&["a", "--", "echo", "ran"]);
        waiter.wait_for_event("waiting");
        waiter.signal(signal);
        let (status, out) = waiter.finish();
        assert_eq!((status.code(), out.as_str()), (Some(code), ""));
    }
    sandbox.end(held);
    sandbox.assert_free("a");
}

#[test]
fn a_request_to_suspend_is_refused() {
    let sandbox = Sandbox::new();
    let script = "echo $$ >pid; while [ ! -e done ]; do sleep 0.02; done";
    let held = sandbox.start(&["a", "--", "sh", "-c", script]);
    let command: i32 = wait_for("the command", || {
        fs::read_to_string(sandbox.path("pid")).ok()?.trim().parse().ok()
    });
    held.signal(Signal::TSTP);
    held.wait_for_event("not_suspended");
    crate::harness::signal(command, Signal::TSTP);
    wait_until("two refusals", || {
        held.events().iter().filter(|event| event["event"] == "not_suspended").count() == 2
    });
    sandbox.end(held);
}

#[test]
fn lock_is_kept_for_at_least_the_time_unless_a_signal_ends_it() {
    let sandbox = Sandbox::new();
    let begun = std::time::Instant::now();
    sandbox.output_of(&["--at-least", "300ms", "a", "--", "sh", "-c", "exit 3"]).exits(3);
    assert!(begun.elapsed() >= std::time::Duration::from_millis(300));
    let held = sandbox.start(&["--at-least", "1h", "a", "--", "sh", "-c", "exit 3"]);
    held.wait_for_event("ended");
    assert_eq!(sandbox.output(["run", "-n", "a", "--", "true"]).code(), 1, "it is still held");
    held.signal(Signal::TERM);
    assert_eq!(held.code(), 3);
    sandbox.assert_free("a");
    let held = sandbox.hold(&["--at-least", "1h", "a", "--", "sleep", "60"]);
    held.signal(Signal::TERM);
    assert_eq!(held.code(), 143);
    sandbox.assert_free("a");
}

#[test]
fn command_runs_once_per_period_unless_it_fails() {
    let sandbox = Sandbox::new();
    let run =
        |command| sandbox.output(["run", "-n", "--once-per", "1h", "a", "--", "sh", "-c", command]);
    run("exit 3").exits(3);
    run("exit 0").exits(0);
    run("exit 0").exits(1);
    sandbox.output(["break", "--now", "--yes", "a"]).exits(0);
    run("exit 0").exits(0);
}

#[test]
fn command_that_was_killed_with_its_supervisor_may_run_again() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--once-per", "1h", "a", "--", "sleep", "60"]);
    signal(held.supervisor(), Signal::KILL);
    assert_eq!(held.code(), 70);
    sandbox.assert_free("a");
}

#[test]
fn a_loss_after_the_end_of_the_command_is_no_failure_of_the_command() {
    let sandbox = Sandbox::new();
    let held = sandbox.start(&["--at-least", "1h", "a", "--", "sh", "-c", "exit 3"]);
    held.wait_for_event("ended");
    sandbox.output(["break", "--now", "--yes", "a"]).exits(0);
    held.wait_for_event("not_released");
    assert_eq!(held.code(), 3);
}
