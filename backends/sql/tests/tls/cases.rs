use std::fs;

use lockwright_testbed::Certificates;

use super::server::*;
use super::{CA, CERT, DISABLE, FULL, KEY, PLAIN_REFUSED, REQUIRE, VERIFY_CA, socket};
use crate::expect::{assert_says, body, escape, in_the_open};
use crate::support::*;

fn with_tls() -> Server {
    Server::options().tls().start().unwrap()
}

fn through(url: &str, host: &str) -> String {
    url.replace("127.0.0.1", host)
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_lock_is_held_over_tls_that_is_checked() {
    let server = Server::options().tls_only().start().unwrap();
    let ca = format!("{CA}={}", server.authority().display());
    for (host, level, more) in [
        ("127.0.0.1", FULL, ""),
        ("localhost", FULL, "&mode=session"),
        // The certificate doesn't name this host, so only the CA is verified.
        ("0.0.0.0", VERIFY_CA, "&mode=row"),
        ("127.0.0.1", REQUIRE, ""),
    ] {
        let url = format!("{}?{TLS}={level}{more}&{ca}", through(&server.url(), host));
        acquire_and_release(&connect(&url).await, "orders/42").await;
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_server_that_is_not_trusted_is_refused() {
    let server = with_tls();
    let stranger = Certificates::new().unwrap();
    let (ours, theirs) = (server.authority(), stranger.authority());
    let key = stranger.key();
    let (ours, theirs) = (ours.display(), theirs.display());
    let full = format!("{TLS}={FULL}");
    for (host, wanted, says) in [
        ("127.0.0.1", format!("{full}&{CA}={theirs}"), "isn't signed by a CA"),
        ("127.0.0.1", format!("{TLS}={VERIFY_CA}&{CA}={theirs}"), "isn't signed by a CA"),
        ("127.0.0.1", full.clone(), "isn't signed by a CA"),
        ("0.0.0.0", format!("{full}&{CA}={ours}"), "for another host"),
        ("127.0.0.1", format!("{full}&{CA}={ours}.gone"), "can't be opened"),
        ("127.0.0.1", format!("{full}&{CA}={ours}&{KEY}={}", key.display()), "settings"),
        ("127.0.0.1", format!("{full}&{CA}={ours}&{CERT}={ours}&{KEY}={ours}"), "settings"),
        (
            "127.0.0.1",
            format!("{full}&{CA}={ours}&{CERT}={ours}&{KEY}={}", escape(&fs::read(&key).unwrap())),
            "can't be opened",
        ),
    ] {
        let url = format!("{}?{wanted}", through(&server.url(), host));
        let config = patient(&url);
        let (plain, escaped) = (body(&key), escape(body(&key).as_bytes()));
        let secrets = [server.password(), &plain, &escaped];
        let shown = format!("{config:?}");
        assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
        let answer = config.connect().await;
        assert_says(answer, ErrorKind::InvalidConfig, says, &secrets);
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_demanded() {
    let server = Server::start().unwrap();
    for wanted in [REQUIRE, VERIFY_CA, FULL] {
        let url = format!("{}?{TLS}={wanted}", server.url());
        let answer = patient(&url).connect().await;
        let says =
            if cfg!(feature = "tls") { "the server doesn't support" } else { "the feature `tls`" };
        assert_says(answer, ErrorKind::InvalidConfig, says, &[server.password()]);
    }
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn without_the_feature_it_is_named_where_it_is_needed() {
    let server = Server::options().tls_only().start().unwrap();
    for (wanted, kind) in [
        (String::new(), ErrorKind::Denied),
        (format!("?{TLS}={REQUIRE}"), ErrorKind::InvalidConfig),
        (format!("?{TLS}={FULL}"), ErrorKind::InvalidConfig),
    ] {
        let answer = patient(&format!("{}{wanted}", server.url())).connect().await;
        assert_says(answer, kind, "the feature `tls`", &[server.password()]);
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_server_that_takes_only_tls_refuses_what_is_plain() {
    let server = Server::options().tls_only().start().unwrap();
    let plain = format!("{}?{TLS}={DISABLE}", server.url());
    let answer = patient(&plain).connect().await;
    assert_says(answer, ErrorKind::Denied, PLAIN_REFUSED, &[server.password()]);
    acquire_and_release(&connect(&server.url()).await, "orders/42").await;
}

#[tokio::test]
async fn the_doctor_finds_what_is_sent_in_the_open() {
    let server = Server::start().unwrap();
    for (host, found) in [("127.0.0.1", false), ("localhost", false), ("0.0.0.0", true)] {
        let findings = connect(&through(&server.url(), host)).await.doctor().await.unwrap();
        assert_eq!(in_the_open(&findings).is_some(), found, "{host}: {findings:?}");
    }
    let socket = through(&server.url(), "0.0.0.0") + &socket(&server);
    assert!(in_the_open(&connect(&socket).await.doctor().await.unwrap()).is_none());
    drop(server);
    let server = with_tls();
    let away = through(&server.url(), "0.0.0.0");
    let by_default = connect(&away).await.doctor().await.unwrap();
    assert_eq!(in_the_open(&by_default).is_none(), cfg!(feature = "tls"), "{by_default:?}");
    let plain = connect(&format!("{away}?{TLS}={DISABLE}&mode=row")).await;
    let findings = plain.doctor().await.unwrap();
    let finding = in_the_open(&findings).expect("it is found in each mode");
    assert_eq!(finding.fix.contains("the feature `tls`"), !cfg!(feature = "tls"), "{finding:?}");
}
