//! Redis servers with TLS, with users, and several in parallel.

use lockwright_testbed::{Program, Redis, redis::Fleet, wait};

/// Returns the output of `redis-cli` over TCP, with errors.
fn cli(server: &Redis, arguments: &[&str], command: &[&str]) -> String {
    let port = server.port().to_string();
    let folder = std::env::temp_dir();
    Program::new("redis-cli", "redis-tools")
        .args(["-h", "127.0.0.1", "-p", &port, "--no-auth-warning"])
        .args(arguments.iter().copied())
        .args(command.iter().copied())
        .run(&folder, "")
        .unwrap_or_else(|error| error.to_string())
}

fn follows(master: &Redis, replica: &Redis) -> bool {
    master.command::<()>(&["SET", "k", "v"]).unwrap();
    wait::until(wait::LIMIT, || {
        replica.command::<String>(&["GET", "k"]).ok().filter(|value| value == "v")
    })
    .is_some()
}

#[test]
fn with_tls_it_speaks_nothing_else() {
    let mut server = Redis::options().tls().password("a secret").start().unwrap();
    let port = server.port();
    assert_eq!(server.url(), format!("rediss://:a%20secret@127.0.0.1:{port}/"));
    let authority = server.authority();
    let tls = ["--tls", "--cacert", authority.to_str().unwrap(), "-a", "a secret"];
    assert_eq!(cli(&server, &tls, &["PING"]), "PONG\n");
    let strange = lockwright_testbed::Certificates::new().unwrap().authority();
    let tls = ["--tls", "--cacert", strange.to_str().unwrap(), "-a", "a secret"];
    assert!(!cli(&server, &tls, &["PING"]).contains("PONG"), "another CA");
    assert!(!cli(&server, &["-a", "a secret"], &["PING"]).contains("PONG"), "no TLS");

    server.restart(false).unwrap();
    assert_eq!(server.command::<String>(&["PING"]).unwrap(), "PONG", "the testbed gets in");
    let replica = Redis::options().replica_of(&server).start().unwrap();
    assert!(replica.url().starts_with("rediss://127"), "{}", replica.url());
    assert!(follows(&server, &replica));
}

#[test]
fn it_may_want_a_clients_certificate() {
    let server = Redis::options().tls_with_client_certificates().start().unwrap();
    let authority = server.authority();
    let tls = ["--tls", "--cacert", authority.to_str().unwrap()];
    assert!(!cli(&server, &tls, &["PING"]).contains("PONG"), "without one");
    let (certificate, key) = server.client_certificate();
    let shown = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert_eq!(cli(&server, &[&tls[..], &shown].concat(), &["PING"]), "PONG\n");
    assert!(follows(&server, &Redis::options().replica_of(&server).start().unwrap()));
}

#[test]
fn users_may_do_what_their_rules_say_and_nobody_else_gets_in() {
    let users = Redis::options().user("app", "it's a \"secret\"", "~app:* +@read +set");
    let server = users.clone().without_default_user().start().unwrap();
    let app = ["--user", "app", "--pass", "it's a \"secret\""];
    assert_eq!(cli(&server, &app, &["SET", "app:x", "1"]), "OK\n");
    assert!(cli(&server, &app, &["SET", "other", "1"]).starts_with("NOPERM"));
    assert!(cli(&server, &app, &["DEL", "app:x"]).starts_with("NOPERM"));
    assert!(cli(&server, &[], &["PING"]).starts_with("NOAUTH"));
    assert!(server.url().starts_with("redis://app:it%27s%20a%20%22secret%22@127"));
    assert_eq!(server.command::<String>(&["GET", "app:x"]).unwrap(), "1", "the testbed gets in");
    assert!(follows(&server, &Redis::options().replica_of(&server).start().unwrap()));

    let with_default = users.start().unwrap();
    assert_eq!(cli(&with_default, &[], &["PING"]), "PONG\n");
}

#[test]
fn a_fleet_is_of_independent_servers_each_behind_a_proxy() {
    let mut fleet = Fleet::start(5).unwrap();
    for (server, value) in fleet.servers.iter().zip(["1", "2", "3", "4", "5"]) {
        server.command::<()>(&["SET", "k", value]).unwrap();
    }
    let get = |url: &str| -> redis::RedisResult<String> {
        let client = redis::Client::open(url)?;
        redis::cmd("GET").arg("k").query(&mut client.get_connection()?)
    };
    let all = |urls: Vec<String>| urls.iter().filter_map(|url| get(url).ok()).collect::<String>();
    assert_eq!(all(fleet.urls()), "12345");
    assert_eq!(all(fleet.urls_through_proxies()), "12345");
    fleet.proxies[1].cut();
    fleet.servers[3].kill();
    assert_eq!(all(fleet.urls()), "1235");
    assert_eq!(all(fleet.urls_through_proxies()), "135");
}
