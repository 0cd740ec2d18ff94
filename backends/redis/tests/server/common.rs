use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use lockwright_conformance::test_helpers::*;
use lockwright_core::{
    Claim, DistributedLock, Event, Granted, Mode, ReleaseMode, ReleaseOutcome, Token,
};
use lockwright_redis::{Config, Redis};
use lockwright_testbed as testbed;
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) async fn connect(url: &str) -> Redis {
    patient(Config::new(url).unwrap()).connect().await.unwrap()
}

pub(crate) fn patient(config: Config) -> Config {
    config.response_timeout(LIMIT).connect_timeout(LIMIT)
}

pub(crate) const MODES: [Mode; 3] =
    [Mode::Exclusive, Mode::Shared, Mode::Permits { count: 1, of: 2 }];

pub(crate) const QUICK: Duration = Duration::from_secs(1);

pub(crate) async fn impatient(url: &str) -> Redis {
    let config = Config::new(url).unwrap().response_timeout(QUICK).connect_timeout(QUICK);
    config.connect().await.unwrap()
}

pub(crate) async fn not_held(redis: &Redis, claim: &Claim, release_mode: ReleaseMode) {
    let ended = redis.release(claim, release_mode).await.unwrap();
    assert_eq!(ended, ReleaseOutcome::NotHeld, "{}", claim.name);
}

pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    eventually(async || is_so().then_some(())).await;
}

pub(crate) fn exists(server: &testbed::Redis, key: &str) -> bool {
    server.command(&["EXISTS", key]).unwrap()
}

pub(crate) fn call_counts(server: &testbed::Redis) -> BTreeMap<String, u64> {
    let stats: String = server.command(&["INFO", "commandstats"]).unwrap();
    let counts = stats.lines().filter_map(|line| {
        let (command, calls) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), calls.split(',').next()?.parse().ok()?))
    });
    counts.collect()
}

pub(crate) fn count_calls(server: &testbed::Redis, commands: &[&str]) -> u64 {
    let counts = call_counts(server);
    commands.iter().filter_map(|command| counts.get(*command)).sum()
}

/// Creates a user. Returns the URL with the login.
pub(crate) fn user(server: &testbed::Redis, name: &str, password: &str, rules: &str) -> String {
    let with_password = format!(">{password}");
    let mut command = vec!["ACL", "SETUSER", name, "reset", "on", &with_password];
    command.extend(rules.split_whitespace());
    server.command::<()>(&command).unwrap();
    format!("redis://{name}:{password}@127.0.0.1:{}/", server.port())
}

pub(crate) fn weak_user(server: &testbed::Redis, rules: &str) -> String {
    user(server, "weak", "pw", &format!("~* &* +@all {rules}"))
}

pub(crate) async fn handed(events: &mut UnboundedReceiver<Event>) -> (Token, Granted) {
    match next(events).await {
        Event::Handed(token, granted) => (token, granted),
        other => panic!("nothing was handed over: {other:?}"),
    }
}

pub(crate) async fn server_and_client() -> (testbed::Redis, Redis) {
    let server = testbed::Redis::start().unwrap();
    let redis = connect(&server.url()).await;
    (server, redis)
}

pub(crate) fn token_in(value: &str) -> &str {
    value.strip_prefix("lw1:").and_then(|rest| rest.split(':').next()).unwrap_or_default()
}
