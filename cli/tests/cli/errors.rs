//! Tests that errors state what failed, why, and what to do, without panics and secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use lockwright_testbed::redis::Redis;

use crate::harness::{Finished, Sandbox};

fn fails<const N: usize>(sandbox: &Sandbox, args: [&str; N], code: i32, says: &str) -> Finished {
    let finished = sandbox.output(args);
    let stderr = finished.stderr();
    assert_eq!(finished.code(), code, "{args:?}: {stderr}");
    assert!(stderr.contains(says), "{args:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(finished.stdout(), "");
    finished
}

#[test]
fn bad_names() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(513);
    for (name, says) in [("", "empty"), ("a\nb", "U+000A"), (" a", "space"), (long.as_str(), "512")]
    {
        fails(&sandbox, ["run", name, "--", "true"], 64, says);
        fails(&sandbox, ["show", name], 64, says);
        fails(&sandbox, ["break", "--yes", name], 64, says);
    }
}

#[test]
fn bad_times() {
    let sandbox = Sandbox::new();
    for (ttl, says) in [
        ("0", "zero"),
        ("0s", "zero"),
        ("31d", "30 days"),
        ("-1", "\"-1\" is not a time"),
        ("-5s", "is not a time"),
        ("soon", "30s"),
        ("", ""),
    ] {
        fails(&sandbox, ["run", "--ttl", ttl, "a", "--", "true"], 64, says);
    }
    sandbox.output(["run", "--ttl", "30d", "a", "--", "true"]).exits(0);
    fails(&sandbox, ["run", "--ttl", "1ms", "a", "--", "true"], 64, "");
    fails(&sandbox, ["run", "-w", "-1", "a", "--", "true"], 64, "is not a time");
    fails(&sandbox, ["run", "--max-hold", "-1", "a", "--", "true"], 64, "is not a time");
    fails(&sandbox, ["run", "-w", "soon", "a", "--", "true"], 64, "30s");
    fails(&sandbox, ["run", "--max-hold", "0", "a", "--", "true"], 64, "");
}

#[test]
fn no_command() {
    let sandbox = Sandbox::new();
    fails(&sandbox, ["run", "a"], 64, "CMD");
    fails(&sandbox, ["run", "a", "--"], 64, "CMD");
    fails(&sandbox, ["run"], 64, "NAME");
    fails(&sandbox, [], 64, "Usage");
    fails(&sandbox, ["walk", "a"], 64, "walk");
    fails(&sandbox, ["run", "a", "--typo", "--", "true"], 64, "--typo");
}

#[test]
fn a_command_that_does_not_exist() {
    let sandbox = Sandbox::new();
    fails(&sandbox, ["run", "a", "--", "no-such-command"], 127, "no-such-command: no such command");
    fails(&sandbox, ["run", "a", "--", "/no/such/command"], 127, "/no/such/command");
    sandbox.assert_free("a");
}

#[test]
fn a_command_that_is_no_program() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file");
    fs::write(&file, "text").unwrap();
    let path = file.to_str().unwrap();
    let failed = fails(&sandbox, ["run", "a", "--", path], 126, "Permission denied");
    failed.says("the lock is released");

    fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    let program = sandbox.path("program");
    // If this process wrote the file, another test's child could inherit it, and `exec` would fail.
    let mut install = Command::new("install");
    assert!(install.args(["-m", "755"]).args([&file, &program]).status().unwrap().success());
    fails(&sandbox, ["run", "a", "--", program.to_str().unwrap()], 127, "interpreter");
    sandbox.assert_free("a");
}

#[test]
fn errors_for_bad_urls_show_no_secret() {
    let secret = "hush-hush";
    for (url, code) in [
        ("nonsense", 78),
        ("gopher://me:hush-hush@host/", 78),
        ("redis://me:hush-hush@host:port/", 78),
        ("redis://me:hush-hush@127.0.0.1:1/", 69),
        ("redis://127.0.0.1:1/?password=hush-hush", 78),
        ("postgres://me:hush-hush@host:port/db", 78),
        ("postgres://me:hush-hush@127.0.0.1:1/db", 69),
        ("postgres://127.0.0.1:1/db?sslpassword=hush-hush", 78),
        ("mysql://me:hush-hush@host:port/db", 78),
        ("mysql://me:hush-hush@127.0.0.1:1/db", 69),
        ("mysql://127.0.0.1:1/db?password=hush-hush", 78),
        ("etcd://me:hush-hush@host/db", 78),
    ] {
        let sandbox = Sandbox::at(url);
        let finished = sandbox.output(["run", "-w", "1", "a", "--", "true"]);
        let stderr = finished.stderr();
        assert_eq!(finished.code(), code, "{url}: {stderr}");
        assert!(!stderr.contains(secret), "{stderr}");
        assert!(stderr.starts_with("lockwright: "), "{stderr}");
    }
}

#[test]
fn url_that_locks_nothing_is_refused() {
    let from_argument = Sandbox::new();
    for (url, says) in [
        ("", "the URL is empty"),
        ("memory:", "locks nothing between commands"),
        ("Memory:", "locks nothing between commands"),
    ] {
        let from_environment = Sandbox::at(url);
        for command in ["list", "doctor", "conformance"] {
            fails(&from_environment, [command], 78, says);
            fails(&from_argument, [command, "--url", url], 78, says);
        }
        fails(&from_environment, ["run", "a", "--", "true"], 78, says);
        fails(&from_environment, ["show", "a"], 78, says);
        fails(&from_environment, ["break", "-y", "a"], 78, says);
    }
    fails(&from_argument, ["run", "--url=", "a", "--", "true"], 78, "empty");
}

#[test]
fn a_server_that_refuses_connections_is_named() {
    let sandbox = Sandbox::at("redis://127.0.0.1:1/");
    fails(&sandbox, ["run", "-n", "a", "true"], 69, "127.0.0.1:1");
    for command in ["list", "doctor"] {
        fails(&sandbox, [command], 69, "127.0.0.1:1");
    }
}

#[test]
fn a_server_that_wants_a_password() {
    let redis = Redis::options().password("hush-hush").start().unwrap();
    let bare = format!("redis://{}/", redis.address());
    let wrong = format!("redis://:hush-wrong@{}/", redis.address());
    for url in [&bare, &wrong] {
        let sandbox = Sandbox::at(url);
        let stderr = fails(&sandbox, ["run", "-n", "a", "true"], 77, "password").stderr();
        assert!(!stderr.contains("hush"), "{stderr}");
    }
    let sandbox = Sandbox::at(&redis.url());
    let script = "echo ran; env | grep -c hush";
    let finished = sandbox.output(["run", "a", "--", "sh", "-c", script]);
    // The password is in the variable that the user set, and in no other.
    assert_eq!(finished.stdout(), "ran\n1\n", "{}", finished.stderr());
    let script = "cat /proc/$PPID/cmdline /proc/$$/cmdline | tr '\\0' ' '";
    let arguments = sandbox.output(["run", "a", "--", "sh", "-c", script]).exits(0);
    assert!(!arguments.prints("__supervise").stdout().contains("hush"));
}

#[test]
fn a_database_file_that_is_none() {
    let sandbox = Sandbox::new();
    let text = "this is a text, and long enough for one to see it".repeat(50);
    fs::write(sandbox.path("locks.db"), text).unwrap();
    for args in [["run", "-n", "a", "true"], ["run", "-w1", "a", "true"]] {
        fails(&sandbox, args, 78, "locks.db").says("not a");
    }
}

#[test]
fn the_default_is_a_file_of_ones_own() {
    let sandbox = Sandbox::new();
    let absolute = sandbox.path("state");
    // A relative `XDG_STATE_HOME` is ignored.
    for (state, home, folder) in [
        ("", "home", "home/.local/state/lockwright"),
        ("relative", "other", "other/.local/state/lockwright"),
        (absolute.to_str().unwrap(), "home", "state/lockwright"),
    ] {
        let mut command = sandbox.lockwright(["run", "a", "--", "true"]);
        command.env_remove("LOCKWRIGHT_URL");
        command.env("HOME", sandbox.path(home)).env("XDG_STATE_HOME", state);
        sandbox.finish(&mut command).exits(0);
        let folder = sandbox.path(folder);
        assert!(folder.join("locks.db").exists());
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn without_a_home_it_says_what_to_set() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.lockwright(["list"]);
    for name in ["LOCKWRIGHT_URL", "HOME", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    sandbox.finish(&mut command).exits(78).says("--url");
}

#[test]
fn errors_are_json_where_that_is_wanted() {
    let sandbox = Sandbox::new();
    let stderr = sandbox.output(["run", "--json", "a", "--", "no-such-command"]).stderr();
    let event: serde_json::Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!((&event["event"], &event["exit_code"]), (&"error".into(), &127.into()));
}

#[test]
fn the_help_has_the_exit_codes_and_no_secret() {
    let sandbox = Sandbox::at("redis://me:hush-hush@host/");
    let help = sandbox.output(["run", "--help"]).exits(0);
    for needed in ["Exit codes", "75", "-n", "--ttl", "LOCKWRIGHT_URL", "postgres://", "zookeeper:"]
    {
        assert!(help.stdout().contains(needed), "{}", help.stdout());
    }
    assert!(!help.stdout().contains("hush"), "{}", help.stdout());
}

#[test]
fn the_hidden_subcommands_are_not_for_people() {
    let sandbox = Sandbox::new();
    for args in [["__supervise", "true"], ["__become", "true"]] {
        fails(&sandbox, args, 64, "lockwright run NAME");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let sandbox = Sandbox::new();
    let script = "\"$0\" run a -- sh -c 'sleep 0.3; exit 3' 2>&1 --json | true; \"$0\" list | true";
    assert!(sandbox.shell(script).status().unwrap().success());
    sandbox.wait_until_empty();
}
