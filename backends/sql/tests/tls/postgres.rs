use lockwright_core::{DistributedLock, ErrorKind};
use lockwright_sql::Postgres;
use lockwright_sql::postgres::Config;
use lockwright_testbed as testbed;

use crate::kit::{assert_says, body, escape, hold, in_the_open};

/// Sets time limits for busy machines.
fn options(url: &str) -> Config {
    let limit = std::time::Duration::from_secs(20);
    Config::new(url).unwrap().response_timeout(limit).connect_timeout(limit)
}

async fn connect(url: &str) -> Postgres {
    options(url).connect().await.unwrap()
}

fn server() -> testbed::Postgres {
    testbed::Postgres::options().tls().start().unwrap()
}

/// Returns the server's URL with another host name for it.
fn through(url: &str, host: &str) -> String {
    url.replace("127.0.0.1", host)
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_lock_is_held_over_tls_that_is_checked() {
    // Unencrypted connections are rejected.
    let server = testbed::Postgres::options().tls_only().start().unwrap();
    let ca = format!("sslrootcert={}", server.authority().display());
    for (host, wanted) in [
        ("127.0.0.1", "sslmode=verify-full"),
        ("localhost", "sslmode=verify-full&mode=session"),
        // Only the CA is verified.
        ("0.0.0.0", "sslmode=verify-ca&mode=row"),
        ("127.0.0.1", "sslmode=require"),
    ] {
        let url = format!("{}?{wanted}&{ca}", through(&server.url(), host));
        hold(connect(&url).await).await;
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_server_that_is_not_trusted_is_refused() {
    let server = server();
    let stranger = testbed::Certificates::new().unwrap();
    let (ours, theirs) = (server.authority(), stranger.authority());
    let key = stranger.key();
    let (ours, theirs) = (ours.display(), theirs.display());
    let full = "sslmode=verify-full";
    for (host, wanted, says) in [
        ("127.0.0.1", format!("{full}&sslrootcert={theirs}"), "isn't signed by a CA"),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={theirs}"), "isn't signed by a CA"),
        ("127.0.0.1", full.to_owned(), "isn't signed by a CA"),
        ("0.0.0.0", format!("{full}&sslrootcert={ours}"), "for another host"),
        ("127.0.0.1", format!("{full}&sslrootcert={ours}.gone"), "can't be opened"),
        ("127.0.0.1", format!("{full}&sslrootcert={ours}&sslkey={}", key.display()), "settings"),
        (
            "127.0.0.1",
            format!("{full}&sslrootcert={ours}&sslcert={}&sslkey={ours}", ours),
            "settings",
        ),
        (
            "127.0.0.1",
            format!(
                "{full}&sslrootcert={}&sslcert={0}&sslkey={}",
                ours,
                escape(&std::fs::read(&key).unwrap())
            ),
            "can't be opened",
        ),
    ] {
        let url = format!("{}?{wanted}", through(&server.url(), host));
        let options = options(&url);
        let (plain, escaped) = (body(&key), escape(body(&key).as_bytes()));
        let secrets = [server.password(), &plain, &escaped];
        let shown = format!("{options:?}");
        assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
        let error = options.connect().await.unwrap_err();
        assert_says(&error, ErrorKind::InvalidConfig, says, &secrets);
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_demanded() {
    let server = testbed::Postgres::start().unwrap();
    for wanted in ["require", "verify-ca", "verify-full"] {
        let url = format!("{}?sslmode={wanted}", server.url());
        let error = options(&url).connect().await.unwrap_err();
        let says =
            if cfg!(feature = "tls") { "the server doesn't support" } else { "the feature `tls`" };
        assert_says(&error, ErrorKind::InvalidConfig, says, &[server.password()]);
    }
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn without_the_feature_it_is_named_where_it_is_needed() {
    let server = testbed::Postgres::options().tls_only().start().unwrap();
    for (wanted, kind) in [
        ("", ErrorKind::Denied),
        ("?sslmode=require", ErrorKind::InvalidConfig),
        ("?sslmode=verify-full", ErrorKind::InvalidConfig),
    ] {
        let error = options(&format!("{}{wanted}", server.url())).connect().await.unwrap_err();
        assert_says(&error, kind, "the feature `tls`", &[server.password()]);
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_server_that_takes_only_tls_refuses_what_is_plain() {
    let server = testbed::Postgres::options().tls_only().start().unwrap();
    let plain = format!("{}?sslmode=disable", server.url());
    let error = options(&plain).connect().await.unwrap_err();
    assert_says(&error, ErrorKind::Denied, "over TLS only", &[server.password()]);
    // By default TLS is used if available.
    hold(connect(&server.url()).await).await;
}

#[tokio::test]
async fn the_doctor_finds_what_is_sent_in_the_open() {
    let server = testbed::Postgres::start().unwrap();
    for (host, found) in [("127.0.0.1", false), ("localhost", false), ("0.0.0.0", true)] {
        let findings = connect(&through(&server.url(), host)).await.doctor().await.unwrap();
        assert_eq!(in_the_open(&findings).is_some(), found, "{host}: {findings:?}");
    }
    let socket = format!("?host={}&port={}", server.folder().display(), server.port());
    let socket = through(&server.url(), "0.0.0.0") + &socket;
    assert!(in_the_open(&connect(&socket).await.doctor().await.unwrap()).is_none());
    drop(server);
    let server = self::server();
    let away = through(&server.url(), "0.0.0.0");
    let by_default = connect(&away).await.doctor().await.unwrap();
    assert_eq!(in_the_open(&by_default).is_none(), cfg!(feature = "tls"), "{by_default:?}");
    let plain = connect(&format!("{away}?sslmode=disable&mode=row")).await;
    let findings = plain.doctor().await.unwrap();
    let finding = in_the_open(&findings).expect("it is found in each mode");
    assert_eq!(finding.fix.contains("the feature `tls`"), !cfg!(feature = "tls"), "{finding:?}");
}
