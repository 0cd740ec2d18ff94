use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use lockwright_core::{DistributedLock, Error, ErrorKind, Finding, ReleaseMode, Severity, Wait};
use lockwright_testbed::{self as testbed, Certificates};
use lockwright_zookeeper::Config;
use lockwright_zookeeper::zookeeper_client as zk;

use crate::common::{
    LIMIT, busy, claim, claim_for, connect, fails_with, grant, patient, renewed, renewed_soon,
};

/// A TTL longer than a server's restart.
const TTL: Duration = Duration::from_secs(30);

fn with(url: &str, parameters: &[(&str, &Path)]) -> String {
    let parameters: Vec<_> =
        parameters.iter().map(|(name, file)| format!("{name}={}", file.display())).collect();
    let url = url.replace("zookeeper:", "zookeeper+tls:");
    format!("{url}?{}", parameters.join("&"))
}

async fn refused(url: &str) -> Error {
    let begun = Instant::now();
    let connecting = Config::new(url).unwrap().connect();
    let error = tokio::time::timeout(LIMIT, connecting).await.expect("in time").unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(15), "late: {:?}: {error}", begun.elapsed());
    error
}

/// The client library doesn't report why a handshake failed, so the message lists all possible
/// reasons.
async fn gives_no_session(url: &str) {
    let error = refused(url).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{url}: {error}");
    for says in
        ["ca=PATH", "another host", "cert=PATH&key=PATH", "write zookeeper for zookeeper+tls"]
    {
        assert!(error.to_string().contains(says), "{url}: {error}");
    }
}

fn wrong(url: &str, says: &str) {
    let error = Config::new(url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}: {error}");
    assert!(error.to_string().contains(says), "{url}: {error}");
    assert!(!error.to_string().contains("hush"), "{error}");
}

/// Runs the main operations on servers with the default tick.
#[tokio::test(flavor = "multi_thread")]
async fn servers_are_trusted_when_the_authority_that_is_named_signed_for_them() {
    let options = testbed::ZooKeeper::options().tick(Duration::from_secs(2)).tls();
    let ensemble = options.start().unwrap();
    let url = with(&ensemble.url(), &[("ca", &ensemble.authority())]);
    let url = url.replace("zookeeper+tls:", "zookeeper+tls:app:secret@");
    let zookeeper = connect(&url).await;
    assert_eq!(zookeeper.profile().ttl, Duration::from_secs(8)..=Duration::from_secs(40));
    let (first, next) = (claim_for("a", TTL), claim_for("a", TTL));
    let fence = grant(&zookeeper, &first).await.fence;
    renewed(&zookeeper, &first).await;
    let by_name = connect(&url.replace("127.0.0.1", "localhost")).await;
    busy(&by_name, &next, Wait::No).await;
    let holders = by_name.inspect(&first.name).await.unwrap().holders;
    assert_eq!((holders.len(), holders[0].token), (1, Some(first.token)));
    zookeeper.release(&first, ReleaseMode::Plain).await.unwrap();
    assert!(grant(&by_name, &next).await.fence > fence);

    // The doctor can't query each server over TLS, but doesn't report the servers as dead.
    let findings = zookeeper.doctor().await.unwrap();
    let found: Vec<_> = findings.iter().map(|finding| (finding.code, finding.severity)).collect();
    assert_eq!(found, [("zookeeper-not-looked-at", Severity::Note)], "{findings:?}");
    assert!(findings[0].what.contains("over TLS"), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connector_of_the_driver_is_used() {
    let server = testbed::ZooKeeper::options().members(1).tls().start().unwrap();
    let ca = std::fs::read_to_string(server.authority()).unwrap();
    let with_tls =
        zk::Client::connector().with_tls(zk::TlsOptions::new().with_pem_ca(&ca).unwrap());
    let connector = with_tls.clone().with_auth("digest", b"app:secret");
    let config = |url: &str, connector: &zk::Connector| {
        patient(Config::new(url).unwrap()).connector(connector.clone())
    };
    let url = server.url();

    let old = connector.clone().with_readonly(true).with_server_version(3, 4, 0);
    let zookeeper = config(&url, &old).connect().await.unwrap();
    let (held, next) = (claim("a"), claim("a"));
    let fence = grant(&zookeeper, &held).await.fence;
    let same_login = with(&server.url(), &[("ca", &server.authority())])
        .replace("zookeeper+tls:", "zookeeper+tls:app:secret@");
    let same_login = connect(&same_login).await;
    busy(&same_login, &next, Wait::No).await;
    zookeeper.release(&held, ReleaseMode::Plain).await.unwrap();
    assert!(grant(&same_login, &next).await.fence > fence);
    let codes =
        |findings: Vec<Finding>| findings.iter().map(|found| found.code).collect::<Vec<_>>();
    assert!(!codes(zookeeper.doctor().await.unwrap()).contains(&"zookeeper-open"));

    let no_login = config(&url, &with_tls).prefix("/open").connect().await.unwrap();
    fails_with(no_login.try_acquire(&claim("a")).await, ErrorKind::Denied, "`Config::acls`");
    assert!(codes(no_login.doctor().await.unwrap()).contains(&"zookeeper-denied"));
    let anyone = &*vec![zk::Acl::new(zk::Permission::ALL, zk::AuthId::anyone())].leak();
    let open = || config(&url, &with_tls).prefix("/open").acls(anyone.into()).connect();
    let (one, other) = (open().await.unwrap(), open().await.unwrap());
    grant(&one, &claim("a")).await;
    busy(&other, &claim("a"), Wait::No).await;
    assert!(codes(one.doctor().await.unwrap()).contains(&"zookeeper-open"));

    let secured = url.replace("zookeeper:", "tcp+tls://");
    let session = connector.clone().connect(&secured).await.unwrap().into_session();
    let logged_in = url.replace("zookeeper:", "zookeeper:app:secret@");
    let with_files = with(&url, &[("ca", &server.authority())]);
    let without_ca = zk::Client::connector().with_tls(zk::TlsOptions::new());
    for (url, connector, says) in [
        (&logged_in, connector.clone(), "without a login"),
        (&with_files, connector.clone(), "write zookeeper:"),
        (&url, connector.clone().with_detached(), "with_detached"),
        (&url, connector.clone().with_session(session), "with_session"),
        (&url, connector.clone().with_fail_eagerly(), "with_fail_eagerly"),
        (&url, without_ca, "no tls ca"),
    ] {
        let refused = config(url, &connector).connect().await;
        fails_with(refused, ErrorKind::InvalidConfig, says);
    }
    let read_only = config(&url, &connector).acls(zk::Acls::anyone_read()).connect().await;
    fails_with(read_only, ErrorKind::InvalidConfig, "let no client lock");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_comes_back_over_tls() {
    let mut server = testbed::ZooKeeper::options().members(1).tls().start().unwrap();
    let trusted = tempfile::NamedTempFile::new().unwrap();
    std::fs::copy(server.authority(), trusted.path()).unwrap();
    let zookeeper = connect(&with(&server.url(), &[("ca", trusted.path())])).await;
    let held = claim_for("a", TTL);
    let fence = grant(&zookeeper, &held).await.fence;
    server.members[0].restart(true).unwrap();
    renewed_soon(&zookeeper, &held).await;
    assert_eq!(grant(&zookeeper, &held).await.fence, fence, "it is the same hold");

    // A session trusts the CAs that the file contained when the session was opened.
    std::fs::write(trusted.path(), "").unwrap();
    renewed(&zookeeper, &held).await;
    let another = claim_for("b", TTL / 2);
    fails_with(
        zookeeper.try_acquire(&another).await,
        ErrorKind::InvalidConfig,
        "no CERTIFICATE in PEM",
    );
    std::fs::copy(server.authority(), trusted.path()).unwrap();
    grant(&zookeeper, &another).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_not_trusted_and_a_certificate_is_for_its_host_only() {
    let server = testbed::ZooKeeper::options().members(1).tls().start().unwrap();
    let other = Certificates::new().unwrap();
    gives_no_session(&with(&server.url(), &[("ca", &other.authority())])).await;

    // The certificate is for `localhost` and `127.0.0.1`, not for `127.0.0.2`.
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], testbed::port::free()));
    let proxy = testbed::Proxy::start_at(elsewhere, server.members[0].address()).unwrap();
    let authority = server.authority();
    gives_no_session(&with(&format!("zookeeper:{elsewhere}"), &[("ca", &authority)])).await;
    assert!(proxy.accepted() > 0);
    connect(&with(&server.url(), &[("ca", &authority)])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate_where_one_is_wanted() {
    let options = testbed::ZooKeeper::options().members(1).tls_with_client_certificates();
    let server = options.start().unwrap();
    let (certificate, key) = server.client_certificate();
    let authority = server.authority();
    let all = [("ca", authority.as_path()), ("cert", &certificate), ("key", &key)];
    let zookeeper = connect(&with(&server.url(), &all)).await;
    grant(&zookeeper, &claim("a")).await;
    assert!(!format!("{zookeeper:?}").contains("BEGIN"), "{zookeeper:?}");

    gives_no_session(&with(&server.url(), &all[..1])).await;
    let other = Certificates::new().unwrap();
    let (theirs, their_key) = (other.certificate(), other.key());
    gives_no_session(&with(&server.url(), &[all[0], ("cert", &theirs), ("key", &their_key)])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_mismatch_is_reported() {
    let plain = testbed::ZooKeeper::options().members(1).start().unwrap();
    let other = Certificates::new().unwrap();
    gives_no_session(&with(&plain.url(), &[("ca", &other.authority())])).await;
    let secured = testbed::ZooKeeper::options().members(1).tls().start().unwrap();
    let error = refused(&secured.url()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("write zookeeper+tls for zookeeper"), "{error}");
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_missing_or_something_else_are_named() {
    let certificates = Certificates::new().unwrap();
    let (authority, key) = (certificates.authority(), certificates.key());
    let certificate = certificates.certificate();
    let trusts = ("ca", authority.as_path());
    let pem =
        |kind: &str, body: &str| format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n");
    let (empty, hollow) = (file(""), file(&pem("CERTIFICATE", "aHVzaA==")));
    // `garbled` isn't base64, and `other` is base64, but not of a key.
    let (garbled, other) =
        (file(&pem("PRIVATE KEY", "hush!")), file(&pem("PRIVATE KEY", "aHVzaA==")));
    let whole = std::fs::read_to_string(&authority).unwrap();
    let revocations = file(&(whole + &pem("X509 CRL", "aHVzaA==")));
    for (parameters, says) in [
        (vec![("ca", Path::new("/no/such.pem"))], "ca=/no/such.pem can't be read"),
        (vec![("ca", empty.path())], "no CERTIFICATE in PEM"),
        (vec![("ca", key.as_path())], "no CERTIFICATE in PEM"),
        (vec![("ca", hollow.path())], "has no certificate of a CA"),
        (vec![("ca", revocations.path())], "revocation lists"),
        (vec![trusts, ("cert", &key), ("key", &key)], "no CERTIFICATE in PEM"),
        (vec![trusts, ("cert", &certificate), ("key", &certificate)], "no PRIVATE KEY in PEM"),
        (vec![trusts, ("cert", &certificate), ("key", garbled.path())], "is broken"),
        (
            vec![trusts, ("cert", &certificate), ("key", other.path())],
            "doesn't match its certificate",
        ),
        (vec![trusts, ("cert", &authority), ("key", &key)], "doesn't match its certificate"),
    ] {
        let error = refused(&with("zookeeper:u:hush@127.0.0.1:1", &parameters)).await;
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        for secret in ["BEGIN", "hush", "aHVz"] {
            assert!(!format!("{error:?}").contains(secret), "{error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_tls_parameters_are_reported() {
    let here = "zookeeper:u:hush@127.0.0.1:1";
    let (shows, key) = (("cert", "c"), ("key", "k"));
    for (parameters, says) in [(vec![], "add ca=PATH"), (vec![shows, key], "add ca=PATH")] {
        let parameters: Vec<_> =
            parameters.into_iter().map(|(name, file)| (name, Path::new(file))).collect();
        wrong(&with(here, &parameters), says);
    }
    wrong("zookeeper:a?ca=x", "doesn't begin with zookeeper+tls");
    wrong("zookeeper+tls:u:hush@a?ca=x", "the port is missing");
    // The client library would panic at this host name.
    let certificates = Certificates::new().unwrap();
    let url = with("zookeeper:no%20name.:1", &[("ca", &certificates.authority())]);
    let error = refused(&url).await;
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    assert!(error.to_string().contains("no certificate can be for"), "{error}");
}
