use lockwright_core::{DistributedLock, Finding, Severity};
use lockwright_sql::Mysql;
use lockwright_testbed as testbed;

use crate::kit::{claim, patient, server_and_client};

async fn findings(mysql: &Mysql) -> Vec<Finding> {
    mysql.doctor().await.unwrap()
}

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn a_sound_server_has_none() {
    let server = testbed::MariaDb::options().durable().start().unwrap();
    let mysql = patient(&server.url()).connect().await.unwrap();
    assert_eq!(findings(&mysql).await, []);
}

#[tokio::test]
async fn what_loses_commits_is_found() {
    let server = testbed::MariaDb::options()
        .set("log_bin", "binary-log")
        .set("server_id", "1")
        .set("sync_binlog", "0")
        .start()
        .unwrap();
    let mysql = patient(&server.url()).connect().await.unwrap();
    let found = findings(&mysql).await;
    assert_eq!(codes(&found), ["durability", "binary-log-durability"]);
    server.sql("SET GLOBAL binlog_format = 'STATEMENT'").unwrap();
    let found = findings(&mysql).await;
    assert_eq!(found[0].code, "binary-log-format");
    assert_eq!(found[0].severity, Severity::Error);
    // The finding is right: requests fail.
    server.terminate_sessions().unwrap();
    let refused = async || mysql.try_acquire(&claim("x")).await.unwrap_err();
    let _ = refused().await;
    let error = refused().await;
    assert_eq!(error.kind(), lockwright_core::ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("binlog_format"), "{error}");
}

#[tokio::test]
async fn a_clock_that_stands_still_is_found() {
    let server = testbed::MariaDb::options().durable().set("sysdate_is_now", "1").start().unwrap();
    let mysql = patient(&server.url()).connect().await.unwrap();
    assert_eq!(codes(&findings(&mysql).await), ["clock-stands-still"]);
}

#[tokio::test]
async fn tables_are_looked_at() {
    let (server, mysql) = server_and_client().await;
    let diagnosis = || async { patient(&server.url()).for_diagnosis().connect().await.unwrap() };
    assert_eq!(codes(&findings(&mysql).await), ["durability"]);
    server
        .sql(
            "CREATE USER guest@'%' IDENTIFIED BY 'guest'; \
             GRANT SELECT, INSERT, UPDATE ON lockwright.* TO guest@'%'",
        )
        .unwrap();
    let url = format!("mysql://guest:guest@127.0.0.1:{}/lockwright", server.port());
    let guest = patient(&url).connect().await.unwrap();
    assert!(codes(&findings(&guest).await).contains(&"tables-not-writable"));
    server.sql("UPDATE lockwright_meta SET version = 7").unwrap();
    assert!(codes(&findings(&diagnosis().await).await).contains(&"tables"));
    server.sql("UPDATE lockwright_meta SET version = 1; DROP TABLE lockwright_hold").unwrap();
    assert!(codes(&findings(&diagnosis().await).await).contains(&"tables"));
    server.sql("DROP TABLE lockwright_meta").unwrap();
    assert!(codes(&findings(&diagnosis().await).await).contains(&"tables"));
}

#[tokio::test]
async fn sessions_are_looked_at() {
    let server =
        testbed::MariaDb::options().durable().set("max_connections", "15").start().unwrap();
    for mode in ["session", "row"] {
        let url = format!("{}?mode={mode}", server.url());
        let mysql = patient(&url).connect().await.unwrap();
        assert_eq!(codes(&findings(&mysql).await), ["few-connections"]);
    }
}
