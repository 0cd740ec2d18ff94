//! Getting to a server, or not.

use lockwright_core::ErrorKind;
use lockwright_sql::Postgres;
use lockwright_sql::postgres::Options;
use lockwright_testbed as testbed;

use crate::kit::patient;

#[test]
fn bad_urls_say_what_would_be_right() {
    for (url, says) in [
        ("mysql://db/x", "begins with postgres://"),
        ("postgres:db", "begins with postgres://"),
        ("postgres://db/x?mode=quick", "lease, session and row"),
        ("postgres://db/x?tables=y", "\"tables\""),
        ("postgres://db/x?connections=0", "at least 1"),
        ("postgres://db/x?sslmode=maybe", "mistake"),
        ("postgres://db:port/x", "mistake"),
        ("postgres://db/x?table=a;b", "small letters"),
    ] {
        let error = Options::from_url(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
        assert!(error.to_string().contains(says), "{url}: {error}");
    }
}

#[test]
fn no_secret_is_shown() {
    for url in [
        "postgres://me:hush@db/x",
        "postgres://db/x?password=hush&user=me",
        "postgresql://me:hush@db/x?mode=lease&sslmode=require",
    ] {
        let options = Options::from_url(url).unwrap();
        assert!(!format!("{options:?}").contains("hush"), "{options:?}");
    }
    for url in [
        "postgres://me:hush@db:port/x",
        "postgres://me:hush@db/x?sslpassword=hush",
        "postgres://me:hush@db/x?sslmode=hush&password=hush",
    ] {
        let error = Options::from_url(url).unwrap_err();
        assert!(!format!("{error:?}").contains("me:hush"), "{error:?}");
        assert!(!format!("{error:?}").contains("password=hush"), "{error:?}");
    }
}

#[tokio::test]
async fn who_is_refused_is_told_why() {
    let server = testbed::Postgres::start().unwrap();
    let address = format!("127.0.0.1:{}", server.port());
    for (url, kind) in [
        (format!("postgres://lockwright:wr0ng@{address}/lockwright"), ErrorKind::Denied),
        (format!("postgres://nobody:wr0ng@{address}/lockwright"), ErrorKind::Denied),
        (format!("{}?dbname=nothere", server.url()), ErrorKind::InvalidConfig),
        ("postgres://lockwright:wr0ng@127.0.0.1:1/x".to_owned(), ErrorKind::Unavailable),
        (format!("{}?sslmode=require", server.url()), ErrorKind::Unavailable),
    ] {
        let error = patient(&url).connect().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error:?}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("wr0ng") && !shown.contains(server.password()), "{shown}");
    }
}

#[tokio::test]
async fn a_replica_is_refused_and_can_be_looked_at() {
    let primary = testbed::Postgres::start().unwrap();
    let replica = testbed::Postgres::options().replica_of(&primary).start().unwrap();
    let error = patient(&replica.url()).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.to_string().contains("primary"), "{error}");
    let postgres: Postgres = patient(&replica.url()).for_diagnosis().connect().await.unwrap();
    drop(postgres);
}

/// A server that made itself a certificate.
fn server_with_tls() -> testbed::Postgres {
    let server = testbed::Postgres::start().unwrap();
    server
        .sql(
            "COPY (SELECT 1) TO PROGRAM 'openssl req -new -x509 -nodes -days 2 -subj /CN=localhost \
             -out server.crt -keyout server.key 2>/dev/null'",
        )
        .unwrap();
    server.sql("ALTER SYSTEM SET ssl = on").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    server
}

#[tokio::test]
async fn tls_is_as_the_url_wants_it() {
    let server = server_with_tls();
    let wanted = format!("{}?sslmode=require", server.url());
    // The server reads its settings in its own time.
    let connected = crate::kit::eventually(|| async {
        match patient(&wanted).connect().await {
            Ok(postgres) => Some(Some(postgres)),
            Err(error) if cfg!(feature = "tls") => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                None
            }
            Err(error) => {
                assert!(error.to_string().contains("feature `tls`"), "{error}");
                Some(None)
            }
        }
    })
    .await;
    assert_eq!(connected.is_some(), cfg!(feature = "tls"));
    let in_use = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                  WHERE ssl AND usename = 'lockwright'";
    assert_eq!(server.sql(in_use).unwrap() != "0", cfg!(feature = "tls"));
    // Nobody vouches for its certificate.
    let checked = format!("{}?sslmode=verify-full", server.url());
    let error = patient(&checked).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}
