//! On a MariaDB server.

use lockwright_conformance::test_helpers::LIMIT;
use lockwright_core::DistributedLock;
use lockwright_sql::Mysql;
use lockwright_sql::mysql::Config;
use lockwright_testbed as testbed;
use sqlx::Connection;
use sqlx::mysql::MySqlConnection;

use crate::held;
use crate::rules::{self, Two};

async fn start() -> (testbed::MariaDb, Two) {
    let server = testbed::MariaDb::start().unwrap();
    let two = two(&server).await;
    (server, two)
}

async fn two(server: &testbed::MariaDb) -> Two {
    Two::new(connect(server).await, connect(server).await)
}

async fn connect(server: &testbed::MariaDb) -> Mysql {
    let options = Config::new(&server.url()).unwrap();
    options.response_timeout(LIMIT).connect_timeout(LIMIT).connect().await.unwrap()
}

async fn connect_in(server: &testbed::MariaDb, mode: &str) -> Mysql {
    let options = Config::new(&format!("{}?mode={mode}", server.url())).unwrap();
    options.response_timeout(LIMIT).connect_timeout(LIMIT).connect().await.unwrap()
}

rules::all!(start);
rules::of_the_table!(start, two);

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_revives_no_broken_hold() {
    let (server, two) = start().await;
    let ask = |sql: &str| server.sql(sql).unwrap();
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist \
                   WHERE user = 'lockwright' AND command = 'Query' \
                     AND (info LIKE 'UPDATE `lockwright_beside`%' \
                          OR info LIKE 'INSERT INTO `lockwright_lease`%')";
    let close = async || {
        let mut gate = MySqlConnection::connect(&server.url()).await.unwrap();
        let lock = "BEGIN; SELECT * FROM lockwright_beside FOR UPDATE";
        sqlx::raw_sql(lock).execute(&mut gate).await.unwrap();
        gate
    };
    let open = async |gate: MySqlConnection| gate.close().await.unwrap();
    rules::a_repeat_revives_no_broken_hold(two, &ask, waiting, close, open).await;
}

held::mode!(row, testbed::MariaDb, "3600000000");
