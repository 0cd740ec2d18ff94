use lockwright_core::{DistributedLock, ErrorKind};
use lockwright_sql::Mysql;
use lockwright_sql::mysql::Config;
use lockwright_testbed as testbed;

use crate::kit::patient;

#[test]
fn bad_urls_say_what_would_be_right() {
    for (url, says) in [
        ("postgres://db/x", "begins with mysql://"),
        ("mysql:db", "begins with mysql://"),
        ("mysql://db/x?mode=quick", "lease, session and row"),
        ("mysql://db/x?tables=y", "\"tables\""),
        ("mysql://db/x?connections=0", "at least 2"),
        ("mysql://db/x?ssl-mode=maybe", "mistake"),
        ("mysql://db:port/x", "mistake"),
        ("mysql://db/x?table=a;b", "small letters"),
    ] {
        let error = Config::new(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
        assert!(error.to_string().contains(says), "{url}: {error}");
    }
}

#[test]
fn no_secret_is_shown() {
    for url in ["mysql://me:hush@db/x", "mariadb://me:hush@db/x?mode=lease&ssl-mode=REQUIRED"] {
        let config = Config::new(url).unwrap();
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    }
    for url in [
        "mysql://me:hush@db:port/x",
        "mysql://me:hush@db/x?sslpassword=hush",
        "mysql://me:hush@db/x?sslmode=hush&password=hush",
    ] {
        let error = Config::new(url).unwrap_err();
        assert!(!format!("{error:?}").contains("me:hush"), "{error:?}");
        assert!(!format!("{error:?}").contains("password=hush"), "{error:?}");
    }
}

#[tokio::test]
async fn who_is_refused_is_told_why() {
    let server = testbed::MariaDb::start().unwrap();
    let address = format!("127.0.0.1:{}", server.port());
    for (url, kind) in [
        (format!("mysql://lockwright:wr0ng@{address}/lockwright"), ErrorKind::Denied),
        (format!("mysql://nobody:wr0ng@{address}/lockwright"), ErrorKind::Denied),
        (server.url().trim_end_matches("/lockwright").to_owned(), ErrorKind::InvalidConfig),
        (format!("{}/nothere", server.url().trim_end_matches("/lockwright")), ErrorKind::Denied),
        ("mysql://lockwright:wr0ng@127.0.0.1:1/x".to_owned(), ErrorKind::Unavailable),
    ] {
        let error = patient(&url).connect().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error:?}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("wr0ng") && !shown.contains(server.password()), "{shown}");
    }
}

#[tokio::test]
async fn one_that_only_reads_is_refused_and_can_be_looked_at() {
    let server = testbed::MariaDb::options().set("read_only", "1").start().unwrap();
    for mode in ["lease", "session", "row"] {
        let url = format!("{}?mode={mode}", server.url());
        let error = patient(&url).connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.to_string().contains("primary"), "{error}");
        let mysql: Mysql = patient(&url).for_diagnosis().connect().await.unwrap();
        let found = mysql.doctor().await.unwrap();
        assert_eq!(found[0].code, "read-only", "{found:?}");
    }
}
