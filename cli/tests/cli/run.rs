use std::fs;
use std::io::Write;
use std::process::Stdio;

use lockwright::fencing::Fenced;
use lockwright::{Fence, LockName};
use rustix::process::Signal;

use crate::harness::{Sandbox, UNTIL_DONE, descendants, program, signal, wait_until};

#[test]
fn the_exit_code_is_the_commands() {
    let sandbox = Sandbox::new();
    for code in [0, 1, 7, 64, 255] {
        let script = format!("exit {code}");
        assert_eq!(sandbox.output(["run", "a", "--", "sh", "-c", &script]).code(), code);
    }
    sandbox.wait_until_empty();
}

#[test]
fn a_command_killed_by_a_signal_exits_with_128_and_its_number() {
    let sandbox = Sandbox::new();
    for (name, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let script = format!("ulimit -c 0; kill -{name} $$");
        assert_eq!(sandbox.output(["run", "a", "--", "sh", "-c", &script]).code(), code);
    }
}

#[test]
fn the_command_knows_the_name_the_fence_and_the_owner() {
    let sandbox = Sandbox::new();
    let script = "echo \"$LOCKWRIGHT_NAME|$LOCKWRIGHT_FENCE|$LOCKWRIGHT_OWNER\"; \
                  \"$0\" show --json \"$LOCKWRIGHT_NAME\"";
    let run = ["run", "--label", "nightly", "my job", "--", "sh", "-c", script, program()];
    let out = sandbox.output(run).stdout();
    let (first, shown) = out.split_once('\n').unwrap();
    let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
    let holder = &shown["holders"][0];
    let (identity, fence) = (&holder["identity"], &holder["fence"]);
    let host = identity["host"].as_str().unwrap();
    assert_eq!(first, format!("my job|{fence}|nightly@{host}:{}", identity["pid"]));

    let again = sandbox.output(["run", "my job", "--", "sh", "-c", "echo $LOCKWRIGHT_FENCE"]);
    let again: u64 = again.stdout().trim().parse().unwrap();
    assert!(again > fence.as_u64().unwrap());
}

#[test]
fn the_command_has_what_goes_with_its_requests() {
    let sandbox = Sandbox::new();
    let script = "echo \"$LOCKWRIGHT_FENCE\"; echo \"$LOCKWRIGHT_FENCED\"";
    let inner = format!("{script}; \"$0\" run --namespace shop/ -n a -- sh -c '{script}'");
    let run = ["run", "--namespace", "shop/", "a", "--", "sh", "-c", &inner, program()];
    let finished = sandbox.output(run);
    let out = finished.stdout();
    let lines: Vec<&str> = out.lines().collect();
    let [fence, fenced, nested @ ..] = &lines[..] else { panic!("{out}{}", finished.stderr()) };
    let sent = Fenced {
        name: LockName::new("shop/a").unwrap(),
        fence: Fence::new(fence.parse().unwrap()),
    };
    assert_eq!(*fenced, sent.to_string());
    assert_eq!(nested, [*fence, *fenced], "a run in a run has the same: {}", finished.stderr());
}

#[test]
fn each_event_has_the_time() {
    let sandbox = Sandbox::new();
    let script = "date -u +%FT%T >before; \"$0\" run --json a -- true; \"$0\" show --json '' || :; \
                  date -u +%FT%T.999Z >after";
    let events = sandbox.finish(&mut sandbox.shell(script)).stderr();
    let [before, after] = ["before", "after"].map(|name| sandbox.path(name));
    let [before, after] = [before, after].map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(events.lines().count(), 5, "{events}");
    for event in events.lines() {
        let event: serde_json::Value = serde_json::from_str(event).unwrap();
        let time = event["time"].as_str().unwrap();
        assert!((before.trim()..=after.trim()).contains(&time), "{event}");
    }
}

#[test]
fn standard_input_and_output_are_the_commands() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .lockwright(["run", "a", "--", "sh", "-c", "cat; echo err >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"through\n"[..], &b"err\n"[..]));
}

#[test]
fn the_position_in_a_file_on_standard_input_is_shared() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("lines"), "1\n2\n3\n").unwrap();
    let script = "{ \"$0\" run a -- sh -c 'read x; echo got $x'; read y; echo then $y; } <lines";
    assert_eq!(sandbox.finish(&mut sandbox.shell(script)).stdout(), "got 1\nthen 2\n");
}

#[test]
fn the_lock_is_held_while_the_command_runs_and_free_afterwards() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--ttl", "2s", "a", "--", "sh", "-c", UNTIL_DONE]);
    assert_eq!(sandbox.output(["run", "-n", "a", "--", "true"]).code(), 1);
    assert_eq!(sandbox.output(["run", "-n", "b", "--", "true"]).code(), 0, "another name");
    wait_until("three renewals", || {
        held.events().iter().filter(|event| event["event"] == "renewed").count() >= 3
    });
    assert_eq!(sandbox.output(["run", "-n", "a", "--", "true"]).code(), 1);
    sandbox.end(held);
    sandbox.assert_free("a");
}

#[test]
fn processes_of_the_command_end_before_the_release() {
    let sandbox = Sandbox::new();
    let script = "setsid sleep 60 & (sleep 60 &) ; trap '' TERM; sleep 60 & exit 3";
    let held = sandbox.start(&["a", "--", "sh", "-c", script]);
    held.wait_for_event("leftovers");
    assert_eq!(sandbox.output(["run", "-n", "a", "--", "true"]).code(), 1, "it is still held");
    assert_eq!(held.code(), 3);
    assert_eq!(sandbox.processes(), [0; 0]);
    sandbox.assert_free("a");
}

#[test]
fn process_that_ends_soon_after_the_command_is_left_alone() {
    let sandbox = Sandbox::new();
    let script = "(sleep 0.3; echo late) & echo early";
    let finished = sandbox.output(["run", "a", "--", "sh", "-c", script]);
    assert_eq!((finished.stdout().as_str(), finished.code()), ("early\nlate\n", 0));
    assert_eq!(finished.stderr(), "");
}

#[test]
fn nohup_reaches_the_command() {
    let sandbox = Sandbox::new();
    let script = "trap '' HUP; exec \"$0\" run a -- sh -c 'grep SigIgn /proc/self/status'";
    let text = sandbox.finish(&mut sandbox.shell(script)).stdout();
    assert_eq!(mask(&text, "SigIgn") & 1, 1, "{text}");
}

#[test]
fn the_command_begins_with_no_signal_blocked_and_only_those_ignored_that_were() {
    let sandbox = Sandbox::new();
    // CMD must ignore the signals that this process ignores. Exceptions are those that the sandbox
    // resets, and SIGPIPE, which Rust's runtime ignores.
    let ours = fs::read_to_string("/proc/self/status").unwrap();
    let reset = [Signal::PIPE, Signal::INT, Signal::QUIT, Signal::HUP];
    let ignored = reset
        .iter()
        .fold(mask(&ours, "SigIgn"), |ignored, signal| ignored & !(1 << (signal.as_raw() - 1)));
    let script = "cat /proc/self/status";
    let theirs = sandbox.output(["run", "a", "--", "sh", "-c", script]).stdout();
    assert_eq!((mask(&theirs, "SigBlk"), mask(&theirs, "SigIgn")), (0, ignored), "{theirs}");
}

fn mask(status: &str, which: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(which)).unwrap();
    let all = u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap();
    // Signals above 31 are omitted: glibc's posix_spawn makes children ignore glibc's internal
    // signals.
    all & 0x7fff_ffff
}

#[test]
fn the_supervisor_hears_no_signal_that_could_end_it() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["a", "--", "sh", "-c", UNTIL_DONE]);
    let supervisor = held.supervisor();
    for deadly in
        [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::ALARM]
    {
        signal(supervisor, deadly);
    }
    assert!(!descendants(supervisor).is_empty());
    sandbox.end(held);
}

/// The run's process group has its leader outside of the PID namespace.
#[test]
fn it_runs_in_a_pid_namespace_that_has_its_own_proc() {
    let sandbox = Sandbox::new();
    let isolated = |args: &[&str]| {
        let args = [args, &[program(), "run", "a", "--", "true"]].concat();
        sandbox.command("unshare").args(args).output().unwrap()
    };
    let output = isolated(&["-Upfr", "--mount-proc"]);
    assert!(output.status.success(), "{output:?}");
    let output = isolated(&["-Upfr"]);
    assert_eq!(output.status.code(), Some(71), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("PID namespace"), "{output:?}");
    sandbox.assert_free("a");
}
