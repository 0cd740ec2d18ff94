use lockwright_testbed::Fleet;
use lockwright_testbed::redis::Redis;

use crate::harness::{Running, Sandbox, program};

fn hold(sandbox: &Sandbox, name: &str) -> Running {
    sandbox.hold(&["--ttl", "30s", name, "--", "sleep", "60"])
}

#[test]
fn a_free_name_is_free() {
    let sandbox = Sandbox::new();
    let shown = sandbox.output(["show", "a"]);
    assert_eq!((shown.code(), shown.stdout().as_str()), (1, "a: free\n"), "{}", shown.stderr());
    let shown = sandbox.output(["show", "--json", "a"]).exits(1);
    assert_eq!(shown.json()["holders"], serde_json::json!([]));
    assert_eq!(sandbox.output(["list", "--json"]).json(), serde_json::json!([]));
    assert_eq!(sandbox.output(["list"]).stdout(), "no lock is held\n");
}

#[test]
fn a_holder_is_shown_with_all_that_is_known() {
    let sandbox = Sandbox::new();
    let held = hold(&sandbox, "orders/1");
    let shown = sandbox.output(["show", "orders/1"]).exits(0).stdout();
    for needed in ["orders/1: held", &format!(":{}", held.pid()), "exclusive", "fence", "token"] {
        assert!(shown.contains(needed), "{shown}");
    }
    let json = sandbox.output(["show", "--json", "orders/1"]).json();
    assert_eq!(json["holders"][0]["identity"]["pid"], held.pid());
    assert_eq!(json["holders"][0]["fence"], held.event("granted").unwrap()["fence"]);
    let left = json["holders"][0]["remaining_ms"].as_u64().unwrap();
    assert!(left > 0 && left <= 30_000, "{json}");
    let list = sandbox.output(["list", "--json"]).json();
    assert!(list[0]["holders"][0]["remaining_ms"].is_u64(), "{list}");
}

#[test]
fn redis_shows_since_when_a_lock_is_held() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let _held = hold(&sandbox, "a");
    let json = sandbox.output(["show", "--json", "a"]).json();
    let micros = json["holders"][0]["fence"].as_u64().unwrap();
    let since = json["holders"][0]["since"].as_str().unwrap();
    let millis = format!(".{:03}Z", micros / 1_000 % 1_000);
    assert!(since.starts_with("20") && since.ends_with(&millis), "{json}");
    sandbox.output(["show", "a"]).exits(0).prints(since);
}

#[test]
fn a_list_has_the_held_names_of_a_prefix() {
    let sandbox = Sandbox::new();
    let _held = ["orders/1", "orders/2", "stock"].map(|name| hold(&sandbox, name));
    let names = |prefix| {
        let list = sandbox.output(["list", "--json", prefix]).json();
        let names = list.as_array().unwrap().iter().map(|seen| seen["name"].as_str().unwrap());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["orders/1", "orders/2", "stock"]);
    assert_eq!(names("orders/"), ["orders/1", "orders/2"]);
    assert_eq!(names("x"), [""; 0]);
    let table = sandbox.output(["list"]).stdout();
    assert!(table.starts_with("NAME"), "{table}");
    assert_eq!(table.lines().count(), 4);
}

#[test]
fn a_namespace_is_a_world_of_its_own() {
    let sandbox = Sandbox::new();
    let _held = sandbox.hold(&["--namespace", "shop/", "a", "--", "sleep", "60"]);
    sandbox.assert_free("a");
    assert_eq!(sandbox.output(["run", "-n", "shop/a", "--", "true"]).code(), 1);
    let list = sandbox.output(["list", "--json", "--namespace", "shop/"]).json();
    assert_eq!(list[0]["name"], "a");
}

#[test]
fn break_needs_a_yes_and_the_hold_that_is_named() {
    let sandbox = Sandbox::new();
    let _held = hold(&sandbox, "a");
    sandbox.output(["break", "a"]).exits(64).says("--yes");
    sandbox.output(["break", "--yes", "--token", "x", "a"]).exits(64);
    let other = "00112233445566778899aabbccddeeff";
    for broken in [
        sandbox.output(["break", "--yes", "--json", "--token", other, "a"]),
        sandbox.output(["break", "--yes", "--json", "free"]),
    ] {
        assert_eq!((broken.code(), &broken.json()["outcome"]), (1, &"not_held".into()));
    }
    assert_eq!(sandbox.output(["run", "-n", "a", "--", "true"]).code(), 1);
}

#[test]
fn a_break_keeps_others_out_until_the_hold_runs_out() {
    let sandbox = Sandbox::new();
    let _held = hold(&sandbox, "a");
    let broken = sandbox.output(["break", "--yes", "--json", "--reason", "test", "a"]);
    assert_eq!((broken.code(), &broken.json()["outcome"]), (0, &"runs_out".into()));
    assert!(broken.json()["within_ms"].as_u64().unwrap() > 1_000);
    assert_eq!(sandbox.output(["run", "-n", "a", "--", "true"]).code(), 1);
    sandbox.output(["show", "a"]).prints("test");
    sandbox.output(["break", "--yes", "a"]).prints("free in at most ");
}

#[test]
fn a_break_now_frees_at_once_and_says_what_that_may_cost() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--ttl", "3s", "a", "--", "sleep", "60"]);
    let broken = sandbox.output(["break", "--yes", "--now", "a"]).exits(0);
    broken.prints("its holder may continue for up to ");
    sandbox.assert_free("a");
    held.wait_for_error(75);
    let events = held.events();
    let at = |name: &str| events.iter().position(|event| event["event"] == name);
    assert!(at("lost").unwrap() < at("ended").unwrap(), "told before it is over: {events:?}");
    assert_eq!(events.iter().filter(|event| event["event"] == "lost").count(), 1);
    assert_eq!(held.event("ended").unwrap()["signal"], 15, "it had its chance to end by itself");
    assert_eq!(held.code(), 75);
}

#[test]
fn the_doctor_finds_no_error_in_a_fresh_database() {
    let sandbox = Sandbox::new();
    let finished = sandbox.output(["doctor", "--json"]).exits(0);
    let profile = &finished.json()["profile"];
    assert_eq!(profile["backend"], "sqlite");
    assert_eq!(profile["shortest_ttl_ms"], 50);
    assert_eq!(profile["slow_poll_ms"], 1_000);
    assert_eq!(sandbox.output(["doctor"]).code(), 0);
}

#[test]
fn the_doctor_fails_on_an_error() {
    let redis = Redis::options().set("maxmemory-policy", "allkeys-lru").start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let finished = sandbox.output(["doctor", "--json"]);
    let findings = finished.json()["findings"].clone();
    assert_eq!(findings[0]["severity"], "error", "the worst comes first: {findings}");
    assert_eq!(finished.code(), 1);
    let mut text = sandbox.output(["doctor"]).exits(1);
    for needed in ["error: ", "noeviction", "why: ", "fix: ", ": 1 error, "] {
        text = text.prints(needed);
    }
}

#[test]
fn the_doctor_looks_at_a_server_that_can_not_lock() {
    let master = Redis::start().unwrap();
    let replica = Redis::options().replica_of(&master).start().unwrap();
    let sandbox = Sandbox::at(&replica.url());
    let finished = sandbox.output(["doctor", "--json"]).exits(1);
    let findings = finished.json()["findings"].clone();
    let codes: Vec<_> = findings.as_array().unwrap().iter().map(|f| &f["code"]).collect();
    assert!(codes.contains(&&"replica".into()), "{findings}");
    sandbox.output(["run", "a", "--", "true"]).exits(78).says("replica");
}

#[test]
fn foreign_text_can_not_control_the_terminal() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let _held = hold(&sandbox, "a");
    let value: String = redis.command(&["GET", "a"]).unwrap();
    let (hold, _) = value.match_indices(':').nth(3).map(|(at, _)| value.split_at(at)).unwrap();
    // A broken hold's value, with a forged identity, operator and reason.
    let evil = format!(
        "{}:evil\u{1b}]0;x\u{7}\u{202e}@host:7\nme: \u{1b}[2J\r\nb: free",
        hold.replacen(':', "!", 1)
    );
    redis.command::<()>(&["SET", "a", &evil, "KEEPTTL"]).unwrap();
    for args in [&["list"][..], &["show", "a"], &["break", "-y", "a"]] {
        let finished = sandbox.finish(sandbox.command(program()).args(args));
        let (out, err) = (finished.stdout(), finished.stderr());
        let unsafe_one = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!out.contains(unsafe_one) && !err.contains(unsafe_one), "{out:?} {err:?}");
        assert!(out.contains("evil\\u{1b}"), "{args:?}: {out:?} {err:?}");
        assert!(!out.lines().any(|line| line.contains("b: free") && !line.contains("me:")));
    }
}

#[test]
fn foreign_hold_can_only_be_freed_immediately() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    redis.command::<()>(&["SET", "a", "somebody else's", "PX", "60000"]).unwrap();
    sandbox.output(["break", "-y", "a"]).exits(65).says("--now");
    assert_eq!(sandbox.output(["break", "-y", "--now", "a"]).code(), 0);
    sandbox.assert_free("a");
}

#[test]
fn only_what_has_no_end_is_shown_as_without_limit() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    redis.command::<()>(&["SET", "a", "somebody else's"]).unwrap();
    redis.command::<()>(&["SET", "b", "somebody else's", "PX", "60000"]).unwrap();
    sandbox.output(["show", "a"]).prints("left        without limit\n");
    let shown = sandbox.output(["show", "--json", "a"]).json();
    assert_eq!(shown["holders"][0]["remaining_ms"], serde_json::Value::Null, "{shown}");
    assert_eq!(shown["holders"][0]["endless"], true, "{shown}");
    let shown = sandbox.output(["show", "--json", "b"]).json();
    assert_eq!(shown["holders"][0]["endless"], false, "{shown}");
    assert!(shown["holders"][0]["remaining_ms"].is_u64(), "{shown}");
}

fn is_operated(url: &str, backend: &str) {
    let sandbox = Sandbox::at(url);
    let held = sandbox.hold(&["--ttl", "5s", "jobs/night", "--", "sleep", "60"]);
    let shown = sandbox.output(["show", "--json", "jobs/night"]).json();
    let holder = &shown["holders"][0];
    assert_eq!(holder["identity"]["pid"], held.pid(), "{shown}");
    assert_eq!(holder["fence"], held.event("granted").unwrap()["fence"], "{shown}");
    assert_eq!(holder["endless"], false, "{shown}");
    let text = sandbox.output(["show", "jobs/night"]).stdout();
    let is_told = holder["remaining_ms"].is_u64();
    assert_eq!(text.contains("left        not known\n"), !is_told, "{text}");
    let list = sandbox.output(["list", "--json", "jobs/"]).json();
    assert_eq!(list[0]["name"], "jobs/night", "{list}");

    let doctor = sandbox.output(["doctor", "--json"]);
    assert_eq!(doctor.json()["profile"]["backend"], backend, "{}", doctor.stderr());

    sandbox.output(["break", "--yes", "--now", "--reason", "test", "jobs/night"]).exits(0);
    sandbox.assert_free("jobs/night");
    held.wait_for_error(75);
    assert_eq!(held.code(), 75);
}

#[test]
fn an_operator_does_the_same_on_etcd() {
    is_operated(&lockwright_testbed::Etcd::start().unwrap().url(), "etcd");
}

#[test]
fn an_operator_does_the_same_on_zookeeper() {
    let ensemble = lockwright_testbed::ZooKeeper::start().unwrap();
    is_operated(&ensemble.url(), "zookeeper");

    // Another library holds this lock, so the time until the holder notices the break is unknown.
    for node in ["/lockwright/theirs", "/lockwright/theirs/_c_x-lock-0000000000"] {
        ensemble.members[0].cli(&["create", node, "theirs"]).unwrap();
    }
    let sandbox = Sandbox::at(&ensemble.url());
    let freed = sandbox.output(["break", "--yes", "--now", "theirs"]).exits(0);
    freed
        .prints("by          a client of another library")
        .prints("left        not known\n")
        .prints("until it checks the lock");
}

#[test]
fn the_conformance_suite_runs_against_what_the_url_names() {
    let sandbox = Sandbox::new();
    let finished = sandbox.output(["conformance", "names::bad_"]).exits(0);
    let table = finished.prints("bad_names_are_refused").stdout();
    assert!(table.trim_end().lines().last().unwrap().starts_with("sqlite: "), "{table}");

    let report = sandbox.output(["conformance", "--json", "processes_never_overlap"]).json();
    assert_eq!(report["rows"][0]["case"], "processes_never_overlap");
    assert_eq!(sandbox.output(["conformance", "--list", "misdelete::"]).code(), 0);
    assert_eq!(sandbox.output(["conformance", "no-such-case"]).code(), 64);
}

#[test]
fn new_nodes_of_a_quorum_are_admitted_by_hand_on_redis() {
    let mut fleet = Fleet::start(3).unwrap();
    let url = format!("redlock:{}?node_timeout=5s", fleet.urls().join(","));
    let sandbox = Sandbox::at(&url);
    let run = || sandbox.output(["run", "a", "--nonblock", "--", "true"]);

    run().says("it is new").says("lockwright admit");
    sandbox.output(["admit"]).exits(1).prints("nothing was done");
    assert_ne!(run().code(), 0, "looking changes nothing");

    fleet.servers[2].stop();
    sandbox.output(["admit", "--yes"]).exits(1);
    assert_eq!(run().code(), 0, "two of three are enough");
    fleet.servers[2].restart(true).unwrap();
    sandbox.output(["admit", "--yes"]).says("--force");
    let nodes = sandbox.output(["admit", "--yes", "--force", "--json"]).exits(0).json();
    assert_eq!(nodes.as_array().map(Vec::len), Some(3), "{nodes}");
    assert_eq!(nodes[2]["votes"], true, "{nodes}");

    sandbox.output(["admit", "--yes", "--url", "sqlite:x.db"]).says("redlock:");
}

/// Without `admit --wait`, each short command would restart the new nodes' waiting time.
#[test]
fn a_fleet_that_only_commands_use_is_waited_for_on_redis() {
    let fleet = Fleet::start(3).unwrap();
    let url = format!("redlock:{}?node_timeout=500ms&largest_ttl=2s", fleet.urls().join(","));
    let sandbox = Sandbox::at(&url);
    sandbox.output(["admit", "--wait"]).exits(0);
    sandbox.output(["run", "--ttl", "2s", "a", "--nonblock", "--", "true"]).exits(0);
}
