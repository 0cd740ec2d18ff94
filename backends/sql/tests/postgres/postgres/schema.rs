//! Tables that the backend or an administrator creates.

use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode};
use lockwright_sql::postgres::Config;
use lockwright_testbed as testbed;

use crate::kit::{claim, connect, grant, patient, server_and_client};

#[tokio::test(flavor = "multi_thread")]
async fn several_make_them_at_once() {
    let server = testbed::Postgres::start().unwrap();
    for round in 0..5 {
        let url = format!("{}?table=t{round}", server.url());
        let connecting: Vec<_> = (0..8)
            .map(|_| {
                let url = url.clone();
                tokio::spawn(async move {
                    let postgres = connect(&url).await;
                    let held = claim("x");
                    if postgres.try_acquire(&held).await.unwrap()
                        != lockwright_core::AcquireOutcome::Busy(lockwright_core::Busy::default())
                    {
                        postgres.release(&held, ReleaseMode::Plain).await.unwrap();
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
    let server = testbed::Postgres::start().unwrap();
    server.sql("CREATE ROLE guest LOGIN PASSWORD 'guest-4711'").unwrap();
    let url = format!("postgres://guest:guest-4711@127.0.0.1:{}/lockwright", server.port());
    let error = patient(&url).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("lockwright schema"), "{error}");
    assert!(!format!("{error:?}").contains("guest-4711"), "{error:?}");

    server.sql(&Config::new(&url).unwrap().schema()).unwrap();
    let error = patient(&url).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    server
        .sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest")
        .unwrap();
    let postgres = connect(&url).await;
    let held = claim("x");
    grant(&postgres, &held).await;
    postgres.release(&held, ReleaseMode::Reconcile).await.unwrap();
}

#[tokio::test]
async fn a_user_chooses_their_names() {
    let (server, usual) = server_and_client().await;
    server.sql("CREATE SCHEMA \"select\" AUTHORIZATION lockwright").unwrap();
    let url = format!("{}?table=from&schema=select", server.url());
    let other = connect(&url).await;
    let held = claim("x");
    grant(&usual, &held).await;
    grant(&other, &claim("x")).await;
    assert_eq!(server.sql("SELECT count(*) FROM \"select\".from_lease").unwrap(), "1");

    let error = patient(&format!("{}?schema=nowhere", server.url())).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("schema"), "{error}");
    for bad in ["table=x%22;DROP", "table=a-b", "schema=A", "table="] {
        let error = Config::new(&format!("{}?{bad}", server.url())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{bad}: {error:?}");
    }
}

#[tokio::test]
async fn another_version_is_refused() {
    let (server, postgres) = server_and_client().await;
    drop(postgres);
    server.sql("UPDATE lockwright_meta SET version = 7").unwrap();
    let error = patient(&server.url()).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("version 7"), "{error}");
    server.sql("DELETE FROM lockwright_meta").unwrap();
    let error = patient(&server.url()).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
}

/// Updates within a page write no index, and need no vacuum.
#[tokio::test]
async fn renewals_and_acquires_write_no_index() {
    let (server, postgres) = server_and_client().await;
    for _ in 0..50 {
        for name in ["a", "b", "c", "d"] {
            let held = crate::kit::claim(name);
            grant(&postgres, &held).await;
            let renew = lockwright_core::Renew::of(&held);
            postgres.renew(&[renew]).await.unwrap();
            postgres.release(&held, ReleaseMode::Plain).await.unwrap();
        }
    }
    crate::kit::eventually(|| async {
        let counted = server
            .sql(
                "SELECT n_tup_upd >= 590 AND n_tup_hot_upd >= n_tup_upd * 0.95 \
                 FROM pg_stat_user_tables WHERE relname = 'lockwright_lease'",
            )
            .unwrap();
        (counted == "t").then_some(())
    })
    .await;
}
