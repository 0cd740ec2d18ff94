use lockwright_testbed::PgBouncer;

use super::server::*;
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn one_that_pools_transactions_is_noticed() {
    let server = Server::options().durable().start().unwrap();
    let pooler = PgBouncer::in_front_of(&server).set("default_pool_size", "2").start().unwrap();
    let backend = connect(&pooler.url()).await;
    assert_eq!(backend.profile().wake_up, WakeUp::Poll);
    assert_eq!(findings(&backend).await, ["pooler"]);
}

/// Behind the pooler, the client must not listen, because a `LISTEN` would remain in a server
/// session that other clients use.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_in_a_session_of_others() {
    for ignores in [false, true] {
        let server = Server::start().unwrap();
        let mut pooler = PgBouncer::in_front_of(&server).set("default_pool_size", "1");
        if ignores {
            pooler = pooler.set("ignore_startup_parameters", "options,extra_float_digits");
        }
        let pooler = pooler.start().unwrap();
        let backend = connect(&pooler.url()).await;
        assert_eq!(backend.profile().wake_up, WakeUp::Poll, "{ignores}");
        let held = hold(&backend, "x").await;
        busy(&backend, &claim("x"), FOR_EVER).await;
        backend.doctor().await.unwrap();
        backend.release(&held, ReleaseMode::Plain).await.unwrap();
        let left = "SELECT (SELECT count(*) FROM pg_listening_channels()), \
                    (SELECT count(*) FROM pg_prepared_statements), \
                    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')";
        assert_eq!(pooler.sql(left).unwrap(), "0|0|0");
    }
}
