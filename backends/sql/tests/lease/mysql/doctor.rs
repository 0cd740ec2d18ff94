use super::server::*;
use crate::support::*;

#[tokio::test]
async fn lossy_settings_are_found() {
    let server = Server::options()
        .set("log_bin", "binary-log")
        .set("server_id", "1")
        .set("sync_binlog", "0")
        .start()
        .unwrap();
    let backend = connect(&server.url()).await;
    assert_eq!(findings(&backend).await, ["durability", "binary-log-durability"]);
    server.sql("SET GLOBAL binlog_format = 'STATEMENT'").unwrap();
    let found = backend.doctor().await.unwrap();
    assert_eq!(found[0].code, "binary-log-format");
    assert_eq!(found[0].severity, Severity::Error);
    server.terminate_sessions().unwrap();
    let _ = backend.try_acquire(&claim("x")).await.unwrap_err();
    refused(backend.try_acquire(&claim("x")).await, ErrorKind::InvalidConfig, "binlog_format");
}

#[tokio::test]
async fn a_clock_that_stands_still_is_found() {
    let server = Server::options().durable().set("sysdate_is_now", "1").start().unwrap();
    let backend = connect(&server.url()).await;
    assert_eq!(findings(&backend).await, ["clock-stands-still"]);
}

#[tokio::test]
async fn sessions_are_looked_at() {
    let server = Server::options().durable().set("max_connections", "15").start().unwrap();
    for mode in MODES {
        let backend = connect(&in_mode(&server.url(), mode)).await;
        assert_eq!(findings(&backend).await, ["few-connections"]);
    }
}

/// The check for a proxy opens two connections besides the doctor's own, but the user may open only
/// two in total.
#[tokio::test]
async fn refused_check_for_a_proxy_does_not_end_the_doctor() {
    let server = Server::options().durable().start().unwrap();
    drop(connect(&server.url()).await);
    server
        .sql(
            "CREATE USER few@'%' IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 2; \
             GRANT ALL ON lockwright.* TO few@'%'",
        )
        .unwrap();
    let url = format!("mysql://few:few@127.0.0.1:{}/lockwright", server.port());
    let backend = patient(&url).for_diagnosis().connect().await.unwrap();
    assert_eq!(findings(&backend).await, ["proxy-unknown"]);
    drop(backend);
    server.terminate_sessions().unwrap();
    let url = in_mode(&url, "session");
    let backend = patient(&url).for_diagnosis().connect().await.unwrap();
    let found = findings(&backend).await;
    assert!(
        found.contains(&"sessions-unknown") && !found.contains(&"shared-sessions"),
        "{found:?}"
    );
}
