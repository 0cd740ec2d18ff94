use crate::harness::{Finished, Sandbox};

/// Runs a command that breaks its own lock and waits until it is ended.
fn run_broken(filter: Option<&str>) -> Finished {
    let sandbox = Sandbox::new();
    let script = "\"$0\" break --yes --now \"$LOCKWRIGHT_NAME\"; sleep 60";
    let args =
        ["run", "--ttl", "2s", "a\u{202e}", "--", "env", "-u", "RUST_LOG", "sh", "-c", script];
    let mut run = sandbox.lockwright(args);
    run.arg(crate::harness::program()).envs(filter.map(|filter| ("RUST_LOG", filter)));
    sandbox.finish(&mut run).exits(75)
}

#[test]
fn rust_log_selects_log_events() {
    let is_logged = |filter| run_broken(filter).stderr().contains("lockwright_core::");
    assert!(is_logged(Some("lockwright=warn")));
    assert!(is_logged(Some("info")));
    for filter in [None, Some(""), Some("lockwright=off"), Some("sqlx=debug")] {
        assert!(!is_logged(filter), "{filter:?}");
    }
}

#[test]
fn log_event_has_no_control_characters() {
    let logged = run_broken(Some("trace")).says("lock lost name=a\\u{202e}");
    assert!(!logged.stderr().contains(['\u{1b}', '\u{202e}']), "{}", logged.stderr());
}

#[test]
fn invalid_rust_log_is_reported_and_ignored() {
    let sandbox = Sandbox::new();
    for filter in ["lockwright=loud", "a=b=c"] {
        let mut run = sandbox.lockwright(["run", "a", "--", "true"]);
        let finished = sandbox.finish(run.env("RUST_LOG", filter)).exits(0);
        assert_eq!(finished.stderr().lines().count(), 1, "{}", finished.stderr());
        finished.says("lockwright: RUST_LOG is ignored: ");
    }
}
