use super::missing_databases;
use super::server::*;
use crate::support::*;

#[test]
fn bad_urls_say_what_would_be_right() {
    let other = if SCHEME == "mysql" { "postgres" } else { "mysql" };
    let begins = format!("begins with {SCHEME}://");
    for (url, says) in [
        (format!("{other}://db/x"), &*begins),
        (format!("{SCHEME}:db"), &begins),
        (format!("{SCHEME}://db/x?mode=quick"), "lease, session and row"),
        (format!("{SCHEME}://db/x?tables=y"), "\"tables\""),
        (format!("{SCHEME}://db/x?connections=0"), "at least 2"),
        (format!("{SCHEME}://db/x?{TLS}=maybe"), "mistake"),
        (format!("{SCHEME}://db:port/x"), "mistake"),
        (format!("{SCHEME}://db/x?table=a;b"), "small letters"),
    ] {
        refused(Config::new(&url), ErrorKind::InvalidConfig, says);
    }
}

#[test]
fn no_secret_is_shown() {
    for parameters in ["password=hush&user=me", "sslpassword=hush", "sslmode=hush&password=hush"] {
        match Config::new(&format!("{SCHEME}://me:hush@db/x?{parameters}")) {
            Ok(config) => assert!(!format!("{config:?}").contains("hush"), "{config:?}"),
            Err(error) => {
                assert!(!format!("{error:?}").contains("me:hush"), "{error:?}");
                assert!(!format!("{error:?}").contains("password=hush"), "{error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_has_its_reason() {
    let server = Server::start().unwrap();
    let address = server.address();
    let mut cases = missing_databases(&server.url());
    cases.extend([
        (format!("{SCHEME}://lockwright:wr0ng@{address}/lockwright"), ErrorKind::Denied),
        (format!("{SCHEME}://nobody:wr0ng@{address}/lockwright"), ErrorKind::Denied),
        (format!("{SCHEME}://lockwright:wr0ng@127.0.0.1:1/x"), ErrorKind::Unavailable),
    ]);
    for (url, kind) in cases {
        let error = patient(&url).connect().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error:?}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("wr0ng") && !shown.contains(server.password()), "{shown}");
    }
}

#[tokio::test]
async fn time_limits_may_be_of_any_length() {
    let server = Server::start().unwrap();
    let config = Config::new(&server.url()).unwrap();
    let config = config.response_timeout(Duration::MAX).connect_timeout(Duration::MAX);
    acquire_and_release(&config.connect().await.unwrap(), "x").await;
}
