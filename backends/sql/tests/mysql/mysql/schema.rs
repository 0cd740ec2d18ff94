//! Tables that the backend or an administrator creates.

use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode};
use lockwright_sql::mysql::Config;
use lockwright_testbed as testbed;

use crate::kit::{claim, connect, grant, patient, server_and_client};

#[tokio::test(flavor = "multi_thread")]
async fn several_make_them_at_once() {
    let server = testbed::MariaDb::start().unwrap();
    for round in 0..5 {
        let url = format!("{}?table=t{round}", server.url());
        let connecting: Vec<_> = (0..8)
            .map(|_| {
                let url = url.clone();
                tokio::spawn(async move {
                    let mysql = connect(&url).await;
                    let held = claim("x");
                    if mysql.try_acquire(&held).await.unwrap()
                        != lockwright_core::AcquireOutcome::Busy(lockwright_core::Busy::default())
                    {
                        mysql.release(&held, ReleaseMode::Plain).await.unwrap();
                    }
                })
            })
            .collect();
        for connected in connecting {
            connected.await.unwrap();
        }
    }
    let floors = server.sql("SELECT count(*) FROM t0_meta").unwrap();
    assert_eq!(floors, "1");
}

#[tokio::test]
async fn one_who_may_not_make_them_is_told_and_can_use_them() {
    let server = testbed::MariaDb::start().unwrap();
    server.sql("CREATE USER guest@'%' IDENTIFIED BY 'guest-4711'; GRANT SELECT ON lockwright.* TO guest@'%'").unwrap();
    let url = format!("mysql://guest:guest-4711@127.0.0.1:{}/lockwright", server.port());
    let error = patient(&url).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("lockwright schema"), "{error}");
    assert!(!format!("{error:?}").contains("guest-4711"), "{error:?}");

    server.sql(&Config::new(&url).unwrap().schema()).unwrap();
    server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright.* TO guest@'%'").unwrap();
    let mysql = connect(&url).await;
    let held = claim("x");
    grant(&mysql, &held).await;
    mysql.release(&held, ReleaseMode::Reconcile).await.unwrap();
}

#[tokio::test]
async fn a_user_chooses_their_names() {
    let (server, usual) = server_and_client().await;
    server.sql("CREATE DATABASE `select`; GRANT ALL ON `select`.* TO lockwright@'%'").unwrap();
    let url = format!("{}?table=from&schema=select", server.url());
    let other = connect(&url).await;
    let held = claim("x");
    grant(&usual, &held).await;
    grant(&other, &claim("x")).await;
    assert_eq!(server.sql("SELECT count(*) FROM `select`.from_lease").unwrap(), "1");

    let error = patient(&format!("{}?schema=nowhere", server.url())).connect().await.unwrap_err();
    // The server hides missing objects from a user without permissions.
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    for bad in ["table=x%22;DROP", "table=a-b", "schema=A", "table="] {
        let error = Config::new(&format!("{}?{bad}", server.url())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{bad}: {error:?}");
    }
}

#[tokio::test]
async fn another_version_is_refused() {
    let (server, mysql) = server_and_client().await;
    drop(mysql);
    server.sql("UPDATE lockwright_meta SET version = 7").unwrap();
    let error = patient(&server.url()).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("version 7"), "{error}");
}

/// Without a transaction, the next client creates the rest.
#[tokio::test]
async fn tables_half_made_are_completed() {
    let server = testbed::MariaDb::start().unwrap();
    let tables = ["lease", "beside", "tombstone", "meta", "hold", "reader", "row", "turn", "fence"];
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
