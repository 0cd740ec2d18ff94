use super::server::*;
use crate::support::*;

#[tokio::test]
async fn one_that_only_reads_is_refused_and_can_be_looked_at() {
    let server = Server::options().set("read_only", "1").start().unwrap();
    for mode in ALL_MODES {
        let url = format!("{}?mode={mode}", server.url());
        refused(patient(&url).connect().await, ErrorKind::Unsupported, "primary");
        let backend = patient(&url).for_diagnosis().connect().await.unwrap();
        let found = backend.doctor().await.unwrap();
        assert_eq!(found[0].code, "read-only", "{found:?}");
    }
}

/// MariaDB commits each `CREATE TABLE`, so an interrupted client may leave tables missing.
#[tokio::test]
async fn tables_half_made_are_completed() {
    let server = Server::start().unwrap();
    let tables =
        ["lease", "shared_holder", "tombstone", "meta", "hold", "reader", "row", "turn", "fence"];
    for made in 0..=tables.len() {
        let url = format!("{}?table=t{made}", server.url());
        let schema = Config::new(&url).unwrap().schema();
        let ends: Vec<_> = std::iter::once(0)
            .chain(schema.match_indices("utf8mb4_bin;").map(|(at, _)| at + 12))
            .collect();
        assert_eq!(ends.len(), tables.len() + 1);
        if made > 0 {
            server.sql(&schema[..ends[made]]).unwrap();
        }
        drop(connect(&url).await);
        for table in tables {
            server.sql(&format!("SELECT count(*) FROM t{made}_{table}")).unwrap();
        }
    }
}

/// Without a second connection, a client can't detect a proxy that shares sessions.
#[tokio::test]
async fn refused_second_connection_is_an_error() {
    let server = Server::start().unwrap();
    server.sql("ALTER USER lockwright@'%' WITH MAX_USER_CONNECTIONS 1").unwrap();
    let answer = patient(&server.url()).connect().await;
    refused(answer, ErrorKind::Unavailable, "no connection left");
}

/// Without a current database, the server rejects some statements.
#[tokio::test]
async fn schema_replaces_a_missing_database() {
    let server = Server::start().unwrap();
    let url = server.url();
    let url = format!("{}?schema=lockwright", url.trim_end_matches("/lockwright"));
    let backend = connect(&url).await;
    let held = hold(&backend, "x").await;
    assert_eq!(renew(&backend, &held).await, Renewal::RENEWED);
    backend.sweep(ms(3_600_000)).await.unwrap();
}
