use super::READ_ONLY;
use super::server::*;
use crate::support::*;

#[tokio::test]
async fn lossy_settings_are_found() {
    let server =
        Server::options().set("fsync", "off").set("synchronous_commit", "off").start().unwrap();
    let backend = connect(&server.url()).await;
    assert_eq!(findings(&backend).await, ["fsync", "synchronous-commit"]);
    assert_eq!(backend.doctor().await.unwrap()[0].severity, Severity::Error);
}

#[tokio::test]
async fn replicas_are_found_from_both_sides_and_refused() {
    let primary = Server::options().durable().start().unwrap();
    let replica = Server::options().replica_of(&primary).start().unwrap();
    refused(patient(&replica.url()).connect().await, ErrorKind::Unsupported, "primary");
    let backend = connect(&primary.url()).await;
    eventually(|| async { (findings(&backend).await == ["replicas"]).then_some(()) }).await;
    // The replica receives the tables a moment after the primary.
    eventually(|| async {
        let backend = patient(&replica.url()).for_diagnosis().connect().await.unwrap();
        let found = findings(&backend).await;
        (found[0] == "replica" && !found.contains(&"tables")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn read_only_database_is_found() {
    let (server, _) = start().await;
    server.sql(READ_ONLY[0]).unwrap();
    let backend = patient(&server.url()).for_diagnosis().connect().await.unwrap();
    assert!(findings(&backend).await.contains(&"read-only"));
}

#[tokio::test]
async fn a_second_source_of_rows_is_found() {
    let (server, backend) = start().await;
    assert_eq!(findings(&backend).await, ["fsync"]);
    let other = "CREATE SUBSCRIPTION other CONNECTION 'host=127.0.0.1 port=1 dbname=x' \
                 PUBLICATION other WITH (connect = false, slot_name = NONE)";
    server.sql(other).unwrap();
    assert!(findings(&backend).await.contains(&"multi-primary"));
    server.sql("UPDATE pg_class SET reltuples = 2e6 WHERE relname = 'lockwright_lease'").unwrap();
    assert!(findings(&backend).await.contains(&"many-names"));
}

#[tokio::test]
async fn long_transaction_is_found() {
    let (server, backend) = start().await;
    let mut long = session(&server).await;
    long.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    long.execute("SELECT count(*) FROM lockwright_lease").await.unwrap();
    assert!(!findings(&backend).await.contains(&"long-transaction"));
    let many =
        "DO $$ BEGIN FOR i IN 1..10001 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$";
    server.sql(many).unwrap();
    assert!(findings(&backend).await.contains(&"long-transaction"));
    long.execute("COMMIT").await.unwrap();
    assert!(!findings(&backend).await.contains(&"long-transaction"));
}
