//! `lockwright watch`, and `lockwright top` on a pseudo-terminal.

use lockwright_testbed::redis::Redis;
use rustix::process::Signal;

use crate::harness::{Running, Sandbox, UNTIL_DONE, program, signal, wait_until};
use crate::terminal::Terminal;

/// Returns a `watch` whose events are those of its standard output.
fn watch(sandbox: &Sandbox, args: &[&str]) -> Running {
    let mut watch = sandbox.start_as("watch", &[&["--every", "100ms"], args].concat());
    watch.events.clone_from(&watch.out);
    watch
}

#[test]
fn begin_end_and_break_of_a_hold_are_printed() {
    let sandbox = Sandbox::new();
    let _other = sandbox.hold(&["stock", "--", "sleep", "60"]);
    let watch = watch(&sandbox, &["orders/"]);
    let held = sandbox.hold(&["orders/1", "--", "sh", "-c", UNTIL_DONE]);
    let event = watch.wait_for_event("held");
    assert_eq!(event["holder"]["identity"]["pid"], held.pid(), "{event}");
    assert_eq!(event["holder"]["fence"], held.event("granted").unwrap()["fence"], "{event}");
    assert!(event["time"].as_str().unwrap().ends_with('Z'), "{event}");
    sandbox.end(held);
    let ended = watch.wait_for_event("hold_ended");
    assert_eq!(
        (&ended["name"], &ended["holder"]["token"]),
        (&"orders/1".into(), &event["holder"]["token"])
    );
    let _held = sandbox.hold(&["orders/2", "--", "sleep", "60"]);
    sandbox.output(["break", "--yes", "--reason", "stuck", "orders/2"]).exits(0);
    let broken = watch.wait_for_event("hold_broken");
    assert!(broken["holder"]["broken"].as_str().unwrap().ends_with("stuck"), "{broken}");
    assert!(watch.events().iter().all(|event| event["name"] != "stock"));
    watch.signal(Signal::TERM);
    assert_eq!(watch.code(), 143);
}

#[test]
fn waiters_are_printed_on_redis() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let _held = sandbox.hold(&["a", "--", "sleep", "60"]);
    let watch = watch(&sandbox, &[]);
    let waiter = sandbox.start(&["a", "--", "true"]);
    let has_count = |count: u64| watch.event("waiters").is_some_and(|it| it["waiters"] == count);
    wait_until("a waiter", || has_count(1));
    waiter.signal(Signal::TERM);
    wait_until("no waiter", || has_count(0));
    watch.signal(Signal::INT);
    assert_eq!(watch.code(), 130);
}

#[test]
fn watch_continues_after_a_failure_on_redis() {
    let mut redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let watch = sandbox.start_as("watch", &["--every", "100ms"]);
    let _held = sandbox.hold(&["a", "--", "sleep", "60"]);
    wait_until("the hold", || std::fs::read_to_string(&watch.out).unwrap().contains("\"held\""));
    redis.stop();
    watch.wait_for_event("unreadable");
    redis.restart(false).unwrap();
    watch.wait_for_event("readable");
    wait_until("its end", || std::fs::read_to_string(&watch.out).unwrap().contains("hold_ended"));
    assert_eq!(watch.events().len(), 2, "{:?}", watch.events());
    watch.signal(Signal::TERM);
    assert_eq!(watch.code(), 143);
}

#[test]
fn watch_ends_when_its_pipe_is_closed() {
    let sandbox = Sandbox::new();
    let _held = sandbox.hold(&["a", "--", "sleep", "60"]);
    let script = "{ \"$0\" watch --every 100ms; echo \"code $?\" >code; } | head -1";
    let finished = sandbox.finish(&mut sandbox.shell(script)).exits(0).prints(" a: held by ");
    assert_eq!(finished.stderr(), "");
    assert_eq!(std::fs::read_to_string(sandbox.path("code")).unwrap(), "code 0\n");
    sandbox.output(["watch", "--every", "50ms"]).exits(64).says("at least 100ms");
}

/// A screen ends with the return to the main one.
const RESTORED: &str = "\x1b[?1049l";

#[test]
fn top_shows_the_holds_and_restores_the_terminal() {
    let sandbox = Sandbox::new();
    let _held = sandbox.hold(&["--label", "nightly", "a", "--", "sleep", "60"]);
    let script = "stty -a >before; $LW top --every 100ms; echo \"code: $?\"; stty -a >after";
    for (end, code) in [("q", "code: 0"), ("\x03", "code: 0"), ("TERM", "code: 143")] {
        let mut terminal = Terminal::script(&sandbox, script);
        terminal.wait_for("nightly@");
        let added = sandbox.hold(&["--label", "added", "b", "--", "sleep", "60"]);
        terminal.wait_for("added@");
        terminal.typed("r");
        terminal.wait_for("reversed");
        match end {
            "TERM" => signal(top(&sandbox), Signal::TERM),
            key => terminal.typed(key),
        }
        terminal.wait_for(code);
        assert!(terminal.screen().contains(RESTORED));
        assert_eq!(terminal.code(), 0);
        let [before, after] =
            ["before", "after"].map(|name| std::fs::read_to_string(sandbox.path(name)).unwrap());
        assert_eq!(before, after);
        added.signal(Signal::TERM);
        assert_eq!(added.code(), 143);
    }
}

fn top(sandbox: &Sandbox) -> i32 {
    let is_top = |pid: &i32| {
        let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        arguments.is_ok_and(|it| it.starts_with(program()) && it.contains("\0top\0"))
    };
    sandbox.processes().into_iter().find(is_top).unwrap()
}

#[test]
fn top_restores_the_terminal_after_an_error_on_redis() {
    let mut redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let mut terminal = Terminal::script(&sandbox, "$LW top --every 100ms; echo \"code: $?\"");
    terminal.wait_for("0 of 0 holds");
    redis.stop();
    terminal.wait_for("retrying");
    redis.restart(false).unwrap();
    let _held = sandbox.hold(&["again", "--", "sleep", "60"]);
    terminal.wait_for("again");
    redis.command::<()>(&["ACL", "SETUSER", "default", "-scan"]).unwrap();
    terminal.wait_for("code: 77");
    let screen = terminal.screen();
    assert!(screen.find(RESTORED).unwrap() < screen.find("lockwright: ").unwrap(), "{screen:?}");
}

#[test]
fn top_needs_a_terminal() {
    let sandbox = Sandbox::new();
    for args in [&["top"][..], &["top", "--json"]] {
        let finished = sandbox.finish(sandbox.command(program()).args(args));
        finished.exits(64).says("`lockwright watch`").says("`lockwright list`");
    }
}
