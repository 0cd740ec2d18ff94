use std::net::SocketAddr;
use std::path::Path;

use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode};
use lockwright_etcd::Config;
use lockwright_etcd::etcd_client::{Certificate, ConnectOptions, TlsOptions};
use lockwright_testbed::etcd::Version;
use lockwright_testbed::{self as testbed, Certificates};

use crate::common::{claim, connect, grant};
use crate::login::{SECRET, refused};

fn with(url: &str, parameters: &[(&str, &Path)]) -> String {
    let parameters: Vec<_> =
        parameters.iter().map(|(name, file)| format!("{name}={}", file.display())).collect();
    format!("{url}?{}", parameters.join("&"))
}

async fn wrong(url: &str, kind: ErrorKind, says: &str) {
    let error = refused(url).await;
    assert_eq!(error.kind(), kind, "{url}: {error}");
    assert!(error.to_string().contains(says), "{url}: {error}");
    assert!(!error.to_string().contains("BEGIN"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_trusted_when_the_authority_that_is_named_signed_for_them() {
    for version in [Version::Debian, Version::Current] {
        let options = testbed::Etcd::options().version(version);
        let cluster = options.tls().user("app", SECRET, "lockwright/").start().unwrap();
        let authority = cluster.authority();
        let etcd = connect(&with(&cluster.url(), &[("ca", &authority)])).await;
        let claim = claim("a");
        grant(&etcd, &claim).await;
        etcd.release(&claim, ReleaseMode::Plain).await.unwrap();
        let by_name = cluster.url().replace("127.0.0.1", "localhost");
        grant(&connect(&with(&by_name, &[("ca", &authority)])).await, &claim).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_the_driver_are_used() {
    let server = testbed::Etcd::options().members(1).tls().user("app", SECRET, "lockwright/");
    let cluster = server.start().unwrap();
    let authority = Certificate::from_pem(std::fs::read(cluster.authority()).unwrap());
    let options = ConnectOptions::new()
        .with_user("app", SECRET)
        .with_tls(TlsOptions::new().ca_certificate(authority));
    let url = cluster.url().replace(&format!("app:{SECRET}@"), "");
    let connecting = |url: &str| Config::new(url).unwrap().options(options.clone()).connect();
    grant(&connecting(&url).await.unwrap(), &claim("a")).await;
    let plain = url.replace("https", "http");
    let error = connecting(&plain).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.message().contains("HTTPS URLs"), "{error}");
    let with_files = with(&url, &[("ca", &cluster.authority())]);
    let error = connecting(&with_files).await.unwrap_err();
    assert!(error.message().contains("omit one of them"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_not_trusted() {
    let cluster = testbed::Etcd::options().members(1).tls().start().unwrap();
    // The system doesn't trust the test's CA.
    wrong(&cluster.url(), ErrorKind::InvalidConfig, "ca=PATH").await;
    let other = Certificates::new().unwrap();
    let strangers = with(&cluster.url(), &[("ca", &other.authority())]);
    wrong(&strangers, ErrorKind::InvalidConfig, "ca=PATH").await;
}

/// The certificate is for `localhost` and `127.0.0.1`, but the URL has `127.0.0.2`.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_for_its_host_only() {
    let cluster = testbed::Etcd::options().members(1).tls().start().unwrap();
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], testbed::port::free()));
    let _proxy = testbed::Proxy::start_at(elsewhere, cluster.members[0].address()).unwrap();
    let url = format!("etcd:https://{elsewhere}");
    let url = with(&url, &[("ca", &cluster.authority())]);
    wrong(&url, ErrorKind::InvalidConfig, "another host").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate_where_one_is_wanted() {
    let options = testbed::Etcd::options().members(1).tls_with_client_certificates();
    let cluster = options.start().unwrap();
    let (certificate, key) = cluster.client_certificate();
    let authority = cluster.authority();
    let all = [("ca", authority.as_path()), ("cert", &certificate), ("key", &key)];
    let etcd = connect(&with(&cluster.url(), &all)).await;
    grant(&etcd, &claim("a")).await;
    assert!(!format!("{etcd:?}").contains("BEGIN"), "{etcd:?}");

    // The server's reason for the rejection may be lost, so two errors are possible.
    let without = refused(&with(&cluster.url(), &all[..1])).await;
    assert!(matches!(without.kind(), ErrorKind::Denied | ErrorKind::Unavailable), "{without}");
    assert!(without.to_string().contains("cert=PATH"), "{without}");
    let other = Certificates::new().unwrap();
    let (certificate, key) = (other.certificate(), other.key());
    let strangers = [all[0], ("cert", certificate.as_path()), ("key", &key)];
    let strange = refused(&with(&cluster.url(), &strangers)).await;
    assert!(matches!(strange.kind(), ErrorKind::Denied | ErrorKind::Unavailable), "{strange}");
    assert!(strange.to_string().contains("client's certificate"), "{strange}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_mismatch_is_reported() {
    let plain = testbed::Etcd::options().members(1).start().unwrap();
    let url = plain.url().replace("http:", "https:");
    wrong(&url, ErrorKind::Unavailable, "write http for https").await;
    // This server closes the connection at the first message.
    let rude = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("etcd:https://{}", rude.local_addr().unwrap());
    let hangs_up = tokio::spawn(async move {
        loop {
            // Unread data make the kernel reset the connection.
            rude.accept().await.unwrap().0.readable().await.unwrap();
        }
    });
    wrong(&url, ErrorKind::Unavailable, "write http for https").await;
    wrong(&url, ErrorKind::Unavailable, "cert=PATH").await;
    hangs_up.abort();
    let secured = testbed::Etcd::options().members(1).tls().start().unwrap();
    let url = secured.url().replace("https:", "http:");
    wrong(&url, ErrorKind::Unavailable, "https").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_missing_or_something_else_are_named() {
    let certificates = Certificates::new().unwrap();
    let (certificate, key) = (certificates.certificate(), certificates.key());
    let empty = tempfile::NamedTempFile::new().unwrap();
    for (parameters, says) in [
        (vec![("ca", Path::new("/no/such.pem"))], "ca=/no/such.pem can't be read"),
        (vec![("ca", empty.path())], "no CERTIFICATE in PEM"),
        (vec![("ca", key.as_path())], "no CERTIFICATE in PEM"),
        (vec![("cert", certificate.as_path()), ("key", &certificate)], "no PRIVATE KEY in PEM"),
    ] {
        let url = "etcd:https://u:hush@127.0.0.1:1";
        wrong(&with(url, &parameters), ErrorKind::InvalidConfig, says).await;
    }
    let shown = format!("{:?}", Config::new("etcd:https://u:hush@localhost").unwrap());
    assert!(!shown.contains("hush"), "{shown}");
}
