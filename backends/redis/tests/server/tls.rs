use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode};
use lockwright_redis::Config;
use lockwright_testbed::{self as testbed, Certificates};

use crate::common::{claim, connect, eventually, exists, grant, patient};
use crate::connect::{SECRET, refused, wrong};

fn with(url: &str, parameters: &[(&str, &Path)]) -> String {
    let parameters: Vec<_> =
        parameters.iter().map(|(name, file)| format!("{name}={}", file.display())).collect();
    format!("{url}?{}", parameters.join("&"))
}

#[tokio::test]
async fn a_server_is_trusted_when_the_authority_that_is_named_signed_for_it() {
    let server = testbed::Redis::options().tls().password(SECRET).start().unwrap();
    let redis = connect(&with(&server.url(), &[("ca", &server.authority())])).await;
    let claim = claim("a");
    grant(&redis, &claim).await;
    redis.release(&claim, ReleaseMode::Plain).await.unwrap();
    let by_name = server.url().replace("127.0.0.1", "localhost");
    grant(&connect(&with(&by_name, &[("ca", &server.authority())])).await, &claim).await;

    // Without `ca`, the client trusts the system's authorities, which don't include the test's.
    let says = "ca=PATH";
    wrong(&server.url(), ErrorKind::InvalidConfig, says).await;
    let other = Certificates::new().unwrap();
    wrong(&with(&server.url(), &[("ca", &other.authority())]), ErrorKind::InvalidConfig, says)
        .await;
}

#[tokio::test]
async fn certificates_of_the_users_client_are_used() {
    let server = testbed::Redis::options().tls_with_client_certificates().start().unwrap();
    let read = |file| std::fs::read(file).unwrap();
    let (certificate, key) = server.client_certificate();
    let client_tls =
        redis::ClientTlsConfig { client_cert: read(certificate), client_key: read(key) };
    let root_cert = Some(read(server.authority()));
    let certificates = redis::TlsCertificates { client_tls: Some(client_tls), root_cert };
    let client = redis::Client::build_with_tls(server.url(), certificates).unwrap();
    let redis = patient(Config::from_client(&client)).connect().await.unwrap();
    grant(&redis, &claim("a")).await;
}

#[tokio::test]
async fn a_certificate_is_for_its_host_and_its_time_only() {
    let options = testbed::Redis::options().tls().set("bind", "127.0.0.1 127.0.0.2");
    let server = options.clone().start().unwrap();
    let elsewhere = server.url().replace("127.0.0.1", "127.0.0.2");
    let elsewhere = with(&elsewhere, &[("ca", &server.authority())]);
    wrong(&elsewhere, ErrorKind::InvalidConfig, "another host").await;

    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("old.crt"), folder.path().join("old.key"));
    let request = folder.path().join("old.csr");
    let extensions = folder.path().join("extensions");
    std::fs::write(&extensions, "subjectAltName = IP:127.0.0.1\n").unwrap();
    let openssl = |arguments: String| {
        let made = Command::new("openssl").args(arguments.split_whitespace()).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    let [certificate, key, request, extensions] =
        [&certificate, &key, &request, &extensions].map(|path| path.to_str().unwrap());
    openssl(format!(
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \
         -keyout {key} -out {request}"
    ));
    openssl(format!(
        "x509 -req -in {request} -signkey {key} -days 0 -extfile {extensions} -out {certificate}"
    ));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let outdated = testbed::Redis::options()
        .tls()
        .set("tls-cert-file", certificate)
        .set("tls-key-file", key)
        .start()
        .unwrap();
    let url = with(&outdated.url(), &[("ca", Path::new(certificate))]);
    wrong(&url, ErrorKind::InvalidConfig, "expired").await;
}

#[tokio::test]
async fn client_certificate_is_sent_if_required() {
    let server = testbed::Redis::options().tls_with_client_certificates().start().unwrap();
    let (certificate, key) = server.client_certificate();
    let authority = server.authority();
    let all = [("ca", authority.as_path()), ("cert", &certificate), ("key", &key)];
    let redis = connect(&with(&server.url(), &all)).await;
    grant(&redis, &claim("a")).await;
    assert!(!format!("{redis:?}").contains("BEGIN"), "{redis:?}");

    wrong(&with(&server.url(), &all[..1]), ErrorKind::Denied, "cert=PATH").await;
    let other = Certificates::new().unwrap();
    let (certificate, key) = (other.certificate(), other.key());
    let unknown_client = [all[0], ("cert", certificate.as_path()), ("key", &key)];
    wrong(&with(&server.url(), &unknown_client), ErrorKind::Denied, "client's certificate").await;
    let mixed = [all[0], all[1], ("key", key.as_path())];
    wrong(&with(&server.url(), &mixed), ErrorKind::InvalidConfig, "can't be used").await;
}

#[tokio::test]
async fn tls_on_one_side_only_is_reported() {
    let (plain, secured) =
        (testbed::Redis::start().unwrap(), testbed::Redis::options().tls().start().unwrap());
    let url = plain.url().replace("redis:", "rediss:");
    wrong(&url, ErrorKind::Unavailable, "uses TLS").await;
    let url = secured.url().replace("rediss:", "redis:");
    let error = refused(&url).await;
    assert!(error.to_string().contains("rediss"), "{error}");
}

#[tokio::test]
async fn missing_and_wrong_files_are_reported() {
    let certificates = Certificates::new().unwrap();
    let (certificate, key) = (certificates.certificate(), certificates.key());
    let empty = tempfile::NamedTempFile::new().unwrap();
    for (parameters, says) in [
        (vec![("ca", Path::new("/no/such.pem"))], "ca=/no/such.pem can't be read"),
        (vec![("ca", empty.path())], "no CERTIFICATE in PEM"),
        (vec![("ca", key.as_path())], "no CERTIFICATE in PEM"),
        (vec![("cert", certificate.as_path()), ("key", &certificate)], "no PRIVATE KEY in PEM"),
        (vec![("cert", certificate.as_path())], "add key=PATH"),
        (vec![("key", key.as_path())], "add cert=PATH"),
        (vec![("ca", Path::new(""))], "is empty"),
    ] {
        let url = format!("rediss://u:{SECRET}@127.0.0.1/");
        wrong(&with(&url, &parameters), ErrorKind::InvalidConfig, says).await;
    }
    for scheme in ["redis", "redis+sentinel", "redis+cluster"] {
        let url = with(&format!("{scheme}://127.0.0.1/m"), &[("ca", &certificates.authority())]);
        wrong(&url, ErrorKind::InvalidConfig, "").await;
    }
    let url = format!("rediss://u:{SECRET}@127.0.0.1/#insecure");
    wrong(&url, ErrorKind::InvalidConfig, "always checked").await;
    let url = format!("rediss://u:{SECRET}@localhost/");
    let shown = format!("{:?}", Config::new(&url).unwrap());
    assert!(!shown.contains(SECRET), "{shown}");
}

#[tokio::test]
async fn sentinels_and_whoever_they_name_are_reached_by_tls() {
    let servers = testbed::Redis::options()
        .tls()
        .user("app", SECRET, "~* &* +@all")
        .set("user", "default off ~* &* +@all");
    let sentinels = testbed::Sentinels::options().servers(servers);
    let mut set = sentinels.sentinel_password("other").start().unwrap();
    let authority = set.servers[0].authority();
    let url = format!("{}&sentinel_password=other", with(&set.url(), &[("ca", &authority)]));
    assert!(url.starts_with("rediss+sentinel://app:"), "{url}");
    let redis = connect(&url).await;
    let ours = claim("a");
    grant(&redis, &ours).await;
    wrong(&url.replace("ca=", "prefix="), ErrorKind::InvalidConfig, "ca=PATH").await;

    set.servers[0].kill();
    let failing_over = tokio::task::spawn_blocking(move || {
        set.wait_for_failover(0).unwrap();
        set
    });
    let set = failing_over.await.unwrap();
    eventually(|| async { redis.try_acquire(&claim("b")).await.ok() }).await;
    assert!(exists(&set.servers[1], "b"));
}
