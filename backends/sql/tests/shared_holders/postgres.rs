//! On a PostgreSQL server.

use lockwright_conformance::test_helpers::LIMIT;
use lockwright_core::DistributedLock;
use lockwright_sql::Postgres;
use lockwright_sql::postgres::Config;
use lockwright_testbed as testbed;
use sqlx::Connection;
use sqlx::postgres::PgConnection;

use crate::held;
use crate::rules::{self, Two};

async fn start() -> (testbed::Postgres, Two) {
    let server = testbed::Postgres::start().unwrap();
    let two = two(&server).await;
    (server, two)
}

async fn two(server: &testbed::Postgres) -> Two {
    Two::new(connect(server).await, connect(server).await)
}

async fn connect(server: &testbed::Postgres) -> Postgres {
    let options = Config::new(&server.url()).unwrap();
    options.response_timeout(LIMIT).connect_timeout(LIMIT).connect().await.unwrap()
}

async fn connect_in(server: &testbed::Postgres, mode: &str) -> Postgres {
    let options = Config::new(&format!("{}?mode={mode}", server.url())).unwrap();
    options.response_timeout(LIMIT).connect_timeout(LIMIT).connect().await.unwrap()
}

rules::all!(start);
rules::of_the_table!(start, two);

/// Each statement sees the effects of earlier ones.
#[tokio::test(flavor = "multi_thread")]
async fn another_isolation_level_spoils_nothing() {
    let (server, two) = start().await;
    drop(two);
    server
        .sql("ALTER ROLE lockwright SET default_transaction_isolation = 'repeatable read'")
        .unwrap();
    rules::never_more_permits_than_there_are(self::two(&server).await).await;
    rules::a_buried_token_is_never_granted(self::two(&server).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_revives_no_broken_hold() {
    let (server, two) = start().await;
    let ask = |sql: &str| server.sql(sql).unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let close = async || {
        let mut gate = PgConnection::connect(&server.url()).await.unwrap();
        let lock = "BEGIN; SELECT * FROM lockwright_beside FOR UPDATE";
        sqlx::raw_sql(lock).execute(&mut gate).await.unwrap();
        gate
    };
    let open = async |gate: PgConnection| gate.close().await.unwrap();
    rules::a_repeat_revives_no_broken_hold(two, &ask, waiting, close, open).await;
}

held::mode!(session, testbed::Postgres, "interval '1 hour'");
held::mode!(row, testbed::Postgres, "interval '1 hour'");
