use lockwright_core::{DistributedLock, Finding, Severity};
use lockwright_sql::Postgres;
use lockwright_testbed as testbed;
use sqlx::Executor;

use crate::kit::{patient, server_and_client};

async fn findings(postgres: &Postgres) -> Vec<Finding> {
    postgres.doctor().await.unwrap()
}

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn a_sound_server_has_none() {
    let server = testbed::Postgres::options().durable().start().unwrap();
    let postgres = patient(&server.url()).connect().await.unwrap();
    assert_eq!(findings(&postgres).await, []);
}

#[tokio::test]
async fn what_loses_commits_is_found() {
    let server = testbed::Postgres::options()
        .set("fsync", "off")
        .set("synchronous_commit", "off")
        .start()
        .unwrap();
    let postgres = patient(&server.url()).connect().await.unwrap();
    let found = findings(&postgres).await;
    assert_eq!(codes(&found), ["fsync", "synchronous-commit"]);
    assert_eq!(found[0].severity, Severity::Error);
}

#[tokio::test]
async fn replicas_are_found_from_both_sides() {
    let primary = testbed::Postgres::options().durable().start().unwrap();
    let replica = testbed::Postgres::options().replica_of(&primary).start().unwrap();
    let postgres = patient(&primary.url()).connect().await.unwrap();
    crate::kit::eventually(|| async {
        (codes(&findings(&postgres).await) == ["replicas"]).then_some(())
    })
    .await;
    // The tables are replicated a moment later.
    crate::kit::eventually(|| async {
        let postgres = patient(&replica.url()).for_diagnosis().connect().await.unwrap();
        let found = findings(&postgres).await;
        (codes(&found)[0] == "replica" && !codes(&found).contains(&"tables")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn tables_are_looked_at() {
    let (server, postgres) = server_and_client().await;
    let diagnosis = || async { patient(&server.url()).for_diagnosis().connect().await.unwrap() };
    server.sql("REVOKE DELETE ON lockwright_lease FROM lockwright").unwrap();
    assert!(codes(&findings(&postgres).await).contains(&"tables-not-writable"));
    server.sql("GRANT DELETE ON lockwright_lease TO lockwright").unwrap();
    server.sql("ALTER DATABASE lockwright SET default_transaction_read_only = on").unwrap();
    assert!(codes(&findings(&diagnosis().await).await).contains(&"read-only"));
    let write = "SET TRANSACTION READ WRITE;";
    server.sql(&format!("{write} UPDATE lockwright_meta SET version = 7")).unwrap();
    assert!(codes(&findings(&diagnosis().await).await).contains(&"tables"));
    server.sql(&format!("{write} DROP TABLE lockwright_meta")).unwrap();
    assert!(codes(&findings(&diagnosis().await).await).contains(&"tables"));
}

#[tokio::test]
async fn a_second_source_of_rows_is_found() {
    let (server, postgres) = server_and_client().await;
    assert_eq!(codes(&findings(&postgres).await), ["fsync"]);
    server
        .sql(
            "CREATE SUBSCRIPTION other CONNECTION 'host=127.0.0.1 port=1 dbname=x' \
             PUBLICATION other WITH (connect = false, slot_name = NONE)",
        )
        .unwrap();
    assert!(codes(&findings(&postgres).await).contains(&"multi-primary"));
    server.sql("UPDATE pg_class SET reltuples = 2e6 WHERE relname = 'lockwright_lease'").unwrap();
    assert!(codes(&findings(&postgres).await).contains(&"many-names"));
}

#[tokio::test]
async fn long_transaction_is_found() {
    let (server, postgres) = server_and_client().await;
    let mut long = crate::kit::session(&server).await;
    long.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    long.execute("SELECT count(*) FROM lockwright_lease").await.unwrap();
    assert!(!codes(&findings(&postgres).await).contains(&"long-transaction"));
    let many =
        "DO $$ BEGIN FOR i IN 1..10001 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$";
    server.sql(many).unwrap();
    assert!(codes(&findings(&postgres).await).contains(&"long-transaction"));
    long.execute("COMMIT").await.unwrap();
    assert!(!codes(&findings(&postgres).await).contains(&"long-transaction"));
}
