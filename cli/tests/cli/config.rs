//! Tests of `--config`, which reads the library's configuration.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Finished, Sandbox, program, wait_until};

fn with_config<const N: usize>(sandbox: &Sandbox, config: &str, args: [&str; N]) -> Finished {
    let file = sandbox.path("lockwright.toml");
    fs::write(&file, config).unwrap();
    let mut command = sandbox.lockwright(args);
    sandbox.finish(command.env_remove("LOCKWRIGHT_URL").env("LOCKWRIGHT_CONFIG", file))
}

fn locks_file(sandbox: &Sandbox) -> String {
    format!("sqlite:{}", sandbox.path("other.db").display())
}

#[test]
fn all_of_it_counts() {
    let sandbox = Sandbox::new();
    let url = locks_file(&sandbox);
    let config = format!(
        "url = \"{url}\"\nttl = \"7s\"\nwait = \"0s\"\nnamespace = \"shop/\"\nlabel = \"nightly\"\n\
         require = [\"strict_fencing\"]\n"
    );
    let script = "echo $LOCKWRIGHT_OWNER; \"$1\" list --json --namespace '' --url \"$2\"; \
                  env -u LOCKWRIGHT_HOLDS \"$1\" run \"$3\" -- echo both; echo $?";
    let args = ["run", "--json", "a", "--", "sh", "-c", script, "sh", program(), &url, "a"];
    let finished = with_config(&sandbox, &config, args).says("\"ttl_ms\":7000");
    let out = finished.stdout();
    assert!(out.starts_with("nightly@"), "{out}");
    assert!(out.contains("\"shop/a\""), "the namespace: {out}");
    assert!(out.ends_with("\n1\n") && !out.contains("both"), "the wait of none: {out}");
}

#[test]
fn the_command_line_has_precedence() {
    let sandbox = Sandbox::new();
    let config = format!("url = \"{}\"\nttl = \"7s\"\n", locks_file(&sandbox));
    let args = ["run", "--json", "--ttl", "9s", "a", "--", "true"];
    with_config(&sandbox, &config, args).says("\"ttl_ms\":9000");
    let config = format!("{config}[prefix.\"jobs/\"]\nttl = \"8s\"\n");
    for (name, ttl) in [("jobs/a", 8_000), ("a", 7_000)] {
        let args = ["run", "--json", name, "--", "true"];
        with_config(&sandbox, &config, args).says(&format!("\"ttl_ms\":{ttl}"));
    }
    with_config(&sandbox, &config, ["list", "--url", "redis://127.0.0.1:1/"]).exits(69);
}

#[test]
fn a_requirement_that_cannot_be_met_stops_it_at_the_start() {
    let sandbox = Sandbox::new();
    let config = format!("url = \"{}\"\nrequire = [\"failover\"]\n", locks_file(&sandbox));
    let finished = with_config(&sandbox, &config, ["run", "a", "--", "echo", "ran"]);
    assert_eq!(finished.exits(78).says("failover").says("sqlite").stdout(), "");
}

#[test]
fn error_has_its_line_and_no_secret() {
    let sandbox = Sandbox::new();
    for (config, says) in [
        ("url = \"redis://:hush@h/\"\ntypo = 1\n", "line 2: unknown field `typo`"),
        ("url = \"redis://:hush@h/\n", "line 1"),
        ("ttl = \"30s\"\n", "missing field `url`"),
        ("url = \"sqlite:x\"\nttl = \"soon\"\n", "line 2"),
        ("url = \"memory:\"\n", "locks nothing between commands"),
        ("url = \"\"\n", "empty"),
    ] {
        let finished = with_config(&sandbox, config, ["run", "a", "--", "true"]);
        let stderr = finished.stderr();
        assert_eq!(finished.code(), 78, "{stderr}");
        assert!(stderr.contains(says) && !stderr.contains("hush"), "{stderr}");
    }
    let missing = ["run", "--config", "/no/such/file", "a", "--", "true"];
    sandbox.output(missing).exits(78).says("/no/such/file");
}

#[test]
fn a_sweep_clears_away_what_ran_out() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["--ttl", "500ms", "a", "--", "sleep", "60"]);
    held.signal(Signal::KILL);
    wait_until("its hold to expire", || sandbox.output(["show", "a"]).stdout() == "a: free\n");
    let swept = sandbox.output(["sweep", "--idle", "0"]);
    assert_eq!(swept.stdout(), "1 row deleted\n", "{}", swept.stderr());
    assert_eq!(sandbox.output(["sweep", "--json", "--idle", "0"]).json()["rows"], 0);
}

#[test]
fn the_schema_is_printed_without_a_server() {
    let sandbox = Sandbox::new();
    let url = "postgres://me:hush@nowhere/db?table=shop_locks";
    let created = "CREATE TABLE IF NOT EXISTS \"shop_locks";
    let schema = sandbox.output(["schema", "--url", url]).exits(0).prints(created);
    let capitals = url.replace("postgres:", "POSTGRES:");
    assert_eq!(sandbox.output(["schema", "--url", &capitals]).stdout(), schema.stdout());
    sandbox.output(["schema"]).prints("CREATE TABLE lockwright_lease");
    let none = sandbox.output(["schema", "--url", "redis://:hush@h/"]).exits(78);
    assert!(!none.stderr().contains("hush"), "{}", none.stderr());
}

fn runs_on(urls: impl IntoIterator<Item = String>) {
    for url in urls {
        let sandbox = Sandbox::new();
        let config =
            format!("url = \"{url}\"\nttl = \"5s\"\nrequire = [\"network\", \"fencing\"]\n");
        let script = "env -u LOCKWRIGHT_HOLDS \"$1\" run -n a -- echo both; echo $?; \"$1\" list; \
                      echo $LOCKWRIGHT_FENCE";
        let args = ["run", "a", "--", "sh", "-c", script, "sh", program()];
        let finished = with_config(&sandbox, &config, args);
        let (out, err) = (finished.stdout(), finished.stderr());
        assert_eq!(finished.code(), 0, "{url}: {err}");
        assert!(out.starts_with("1\nNAME") && !out.contains("both"), "{url}: {out} {err}");
        let fence: u64 = out.lines().last().unwrap().parse().unwrap();
        let next = ["run", "-n", "a", "--", "sh", "-c", "echo $LOCKWRIGHT_FENCE"];
        let next = with_config(&sandbox, &config, next).stdout();
        let next: u64 = next.trim().parse().unwrap();
        assert!(next > fence, "{url}: it is free again, and the fence has grown");
        assert!(!err.contains("not-for-logs"), "{err}");
    }
}

#[test]
fn the_command_runs_in_every_mode_on_postgres() {
    let server = lockwright_testbed::Postgres::start().unwrap();
    runs_on(["lease", "session", "row"].map(|mode| format!("{}?mode={mode}", server.url())));
}

#[test]
fn the_command_runs_in_every_mode_on_mysql() {
    let server = lockwright_testbed::MariaDb::start().unwrap();
    runs_on(["lease", "session", "row"].map(|mode| format!("{}?mode={mode}", server.url())));
}

#[test]
fn the_command_runs_on_redis() {
    let server = lockwright_testbed::redis::Redis::start().unwrap();
    runs_on([server.url()]);
}

#[test]
fn the_command_runs_on_etcd() {
    let cluster = lockwright_testbed::Etcd::start().unwrap();
    runs_on([cluster.url()]);
}

#[test]
fn the_command_runs_on_zookeeper() {
    let ensemble = lockwright_testbed::ZooKeeper::start().unwrap();
    runs_on([ensemble.url()]);
}

#[test]
fn check_shows_each_setting_and_its_source() {
    let sandbox = Sandbox::new();
    let text = "url = \"postgres://me:hush@h/db\"\nttl = \"7s\"\nwait = 2\nnamespace = \"shop/\"\n\
                [prefix.\"jobs/\"]\nttl = \"8s\"\n";
    let mut command =
        sandbox.lockwright(["config", "check", "--json", "--namespace", "x/", "file"]);
    fs::write(sandbox.path("file"), text).unwrap();
    command.env_remove("LOCKWRIGHT_URL").env("LOCKWRIGHT_WAIT", "1s");
    let found = sandbox.finish(&mut command).exits(0).json();
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../docs/src/config.schema.json")).unwrap();
    let settings = found["settings"].as_array().unwrap();
    assert_eq!(settings.len(), schema["properties"].as_object().unwrap().len());
    for (key, value, source) in [
        ("url", json!("postgres://me:***@h/db"), "file"),
        ("ttl", json!("7s"), "file"),
        ("wait", json!("1s"), "environment"),
        ("namespace", json!("x/"), "option"),
        ("local_turns", json!(64), "default"),
        ("prefix", json!({ "jobs/": { "ttl": "8s" } }), "file"),
    ] {
        let expected = json!({ "key": key, "value": value, "source": source });
        assert!(settings.contains(&expected), "{expected}: {found}");
    }
    assert_eq!(found["problems"], json!([]));
    sandbox.output(["config", "check"]).exits(0).prints("no problem found");
}

#[test]
fn check_reports_each_problem_without_connecting() {
    let sandbox = Sandbox::new();
    let check = |text: &str| with_config(&sandbox, text, ["config", "check"]).exits(78).stdout();
    for (text, says) in [
        (
            "url = \"redis://:hush@h/\"\ntypo = 1\nttl = \"soon\"\n",
            &["typo: ", "ttl: \"soon\""][..],
        ),
        ("url = \"redis://:hush@h/\n", &["error: /", "line 1"]),
        ("url = \"redis://:hush@h:x/\"\n", &["error: url: "]),
        ("url = \"sqlite:x?typo=1\"\n", &["error: url: "]),
        ("ttl = \"7s\"\n", &["missing field `url`"]),
        ("url = [\"redis://:hush@h/\"]\n", &["***"]),
        (
            "url = \"sqlite:x\"\nttl = \"20ms\"\n[prefix.\"jobs/\"]\nttl = \"99d\"\n",
            &["ttl: a TTL of 20ms", "prefix: a TTL of 99"],
        ),
        ("url = \"memory:\"\n", &["locks nothing between commands"]),
        ("url = \"redis://h/\"\npassword_file = \"/no\"\n", &["password_file: ", "No such file"]),
        (
            "url = \"redis+sentinel://:hush@h/m\"\nrequire = [\"push\", \"server_restart\", \"failover\"]\n",
            &["[\"server_restart\"]: this", "[\"failover\"]: this"],
        ),
        (
            "url = \"mysql://me:hush@h/d?mode=row\"\nkeep_warm = \"1s\"\nrequire = [\"permits\"]\n",
            &["keep_warm: ", "mysql-row", "[\"permits\"]: this"],
        ),
    ] {
        let printed = check(text);
        assert!(says.iter().all(|says| printed.contains(says)), "{printed}");
        assert!(!printed.contains("hush") && !printed.contains("[\"push\"]: this"), "{printed}");
    }
    let mut variables = sandbox.lockwright(["config", "check"]);
    variables.env("LOCKWRIGHT_TTL", "soon").env("LOCKWRIGHT_WAIT", "-1");
    let printed = sandbox.finish(&mut variables).exits(78).stdout();
    assert!(printed.contains("ttl: LOCKWRIGHT_TTL: ") && printed.contains("wait: "), "{printed}");
}
