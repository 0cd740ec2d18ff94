pub(crate) use lockwright_conformance::test_helpers::*;
use lockwright_core::{Event, Granted, Token};
use lockwright_redis::{Config, Redis};
use lockwright_testbed as testbed;
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) async fn connect(url: &str) -> Redis {
    patient(Config::new(url).unwrap()).connect().await.unwrap()
}

pub(crate) fn patient(config: Config) -> Config {
    config.response_timeout(LIMIT).connect_timeout(LIMIT)
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
