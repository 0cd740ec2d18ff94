use lockwright_testbed::PgBouncer;

use super::server::*;
use crate::support::*;

fn pooler(server: &Server, pool_mode: &str) -> PgBouncer {
    let options = PgBouncer::in_front_of(server).set("default_pool_size", "20");
    options.set("pool_mode", pool_mode).start().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_shares_sessions_out_is_refused() {
    let server = Server::start().unwrap();
    for pool_mode in ["transaction", "statement"] {
        let pooler = pooler(&server, pool_mode);
        for mode in MODES {
            let answer = Backend::connect(&in_mode(&pooler.url(), mode)).await;
            let error = refused(answer, ErrorKind::Unsupported, "pooler");
            assert!(error.to_string().contains("mode lease"), "{pool_mode}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_leaves_sessions_whole_is_as_good_as_none() {
    let server = Server::start().unwrap();
    let pooler = pooler(&server, "session");
    for mode in ALL_MODES {
        let through = Backend::connect(&in_mode(&pooler.url(), mode)).await.unwrap();
        let direct = backend(&server, mode).await;
        let mine = hold(&through, "x").await;
        assert!(is_busy(&direct, &claim_for("x", LONG)).await);
        through.release(&mine, ReleaseMode::Plain).await.unwrap();
        acquire_and_release(&direct, "x").await;
    }
}
