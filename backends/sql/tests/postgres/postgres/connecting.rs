use lockwright_core::ErrorKind;
use lockwright_sql::Postgres;
use lockwright_sql::postgres::Config;
use lockwright_testbed as testbed;

use crate::kit::patient;

#[test]
fn bad_urls_say_what_would_be_right() {
    for (url, says) in [
        ("mysql://db/x", "begins with postgres://"),
        ("postgres:db", "begins with postgres://"),
        ("postgres://db/x?mode=quick", "lease, session and row"),
        ("postgres://db/x?tables=y", "\"tables\""),
        ("postgres://db/x?connections=0", "at least 2"),
        ("postgres://db/x?sslmode=maybe", "mistake"),
        ("postgres://db:port/x", "mistake"),
        ("postgres://db/x?table=a;b", "small letters"),
    ] {
        let error = Config::new(url).unwrap_err();
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
        let config = Config::new(url).unwrap();
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    }
    for url in [
        "postgres://me:hush@db:port/x",
        "postgres://me:hush@db/x?sslpassword=hush",
        "postgres://me:hush@db/x?sslmode=hush&password=hush",
    ] {
        let error = Config::new(url).unwrap_err();
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
    ] {
        let error = patient(&url).connect().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error:?}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("wr0ng") && !shown.contains(server.password()), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_store_every_name_is_refused() {
    let server = testbed::Postgres::start().unwrap();
    let url = server.url();
    let (address, _) = url.rsplit_once('/').unwrap();
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let create = format!(
            "CREATE DATABASE in_{encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        );
        server.sql(&create).unwrap();
        for mode in ["lease", "session", "row"] {
            let url = format!("{address}/in_{}?mode={mode}", encoding.to_lowercase());
            let error = patient(&url).connect().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{encoding}: {error:?}");
            assert!(error.to_string().contains("ENCODING 'UTF8'"), "{error}");
        }
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
