use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Clock, CredentialProvider, Credentials, DistributedLock, Error,
    ErrorKind, ReleaseMode, Renew, Result, Wait,
};
use lockwright_etcd::{Config, Etcd};
use lockwright_testbed as testbed;
use lockwright_testbed::etcd::Version;

use crate::common::{
    claim, claim_for, connect, fails, fails_with, grant, granted_soon, name, patient, renewed,
    without_secret,
};

/// A password with characters that are special in URLs.
pub(crate) const SECRET: &str = "hush/hush@9";

pub(crate) async fn refused(url: &str) -> Error {
    without_secret(Etcd::connect(url).await.unwrap_err(), "hush")
}

async fn denied(url: &str, says: &str) {
    let error = refused(url).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

async fn everything(url: &str) -> Result<()> {
    let etcd = patient(Config::new(url)?).connect().await?;
    let (ours, theirs) = (claim("orders/42"), claim("orders/42"));
    etcd.try_acquire(&ours).await?;
    etcd.renew(&[Renew::of(&ours)]).await?;
    etcd.acquire(&theirs, Wait::Until(Clock::boot().now())).await?;
    etcd.inspect(&name("orders/42")).await?;
    etcd.list("orders/", None).await?;
    let how = BreakMode::RunOut;
    etcd.break_lock(&ours.name, BreakTarget::Token(ours.token), how, "ops", "test").await?;
    etcd.release(&ours, ReleaseMode::Reconcile).await?;
    etcd.release(&theirs, ReleaseMode::Reconcile).await?;
    let findings = etcd.doctor().await?;
    assert!(findings.iter().all(|finding| finding.code != "etcd-denied"), "{findings:?}");
    let shown = format!("{etcd:?} {:?}", Config::new(url)?);
    assert!(!shown.contains("hush"), "{shown}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_read_and_write_the_prefix_is_enough_and_needed() {
    for version in [Version::Debian, Version::Current] {
        let options = testbed::Etcd::options().version(version).members(1);
        let cluster = options.user("app", SECRET, "lockwright/").start().unwrap();
        everything(&cluster.url()).await.unwrap();
        let other = format!("{}?prefix=other/", cluster.url());
        denied(&other, "prefix").await;

        // A user with read permission can inspect, but not lock.
        for command in [
            &["user", "add", "reader:hush"][..],
            &["role", "add", "reads"],
            &["role", "grant-permission", "reads", "--prefix=true", "read", "lockwright/"],
            &["user", "grant-role", "reader", "reads"],
            &["user", "add", "nobody:hush"],
        ] {
            cluster.ctl(command).unwrap();
        }
        let port = cluster.members[0].port();
        let reader = connect(&format!("etcd:http://reader:hush@127.0.0.1:{port}")).await;
        reader.inspect(&name("a")).await.unwrap();
        fails_with(reader.try_acquire(&claim("a")).await, ErrorKind::Denied, "prefix");
        denied(&format!("etcd:http://nobody:hush@127.0.0.1:{port}"), "permission").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_logins_are_denied_and_needless_ones_are_rejected() {
    for version in [Version::Debian, Version::Current] {
        let options = testbed::Etcd::options().version(version).members(1);
        let cluster = options.user("app", SECRET, "lockwright/").start().unwrap();
        let port = cluster.members[0].port();
        let as_user = |user: &str| format!("etcd:http://{user}127.0.0.1:{port}");
        denied(&as_user("app:hush@"), "user name or password").await;
        denied(&as_user("nobody:hush@"), "user name or password").await;
        denied(&as_user(""), "add them to the URL").await;
        let open = testbed::Etcd::options().version(version).members(1).start().unwrap();
        let error = refused(&open.url().replace("http://", "http://app:hush@")).await;
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        assert!(error.to_string().contains("auth enable"), "{error}");
    }
}

/// etcd's default logins (`simple`) expire, here after a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_expires_is_renewed() {
    for version in [Version::Debian, Version::Current] {
        let options = testbed::Etcd::options().version(version).members(1);
        let options = options.set("auth-token-ttl", "1").user("app", SECRET, "lockwright/");
        let cluster = options.start().unwrap();
        let etcd = connect(&cluster.url()).await;
        let (ours, theirs) = (claim("a"), claim_for("a", Duration::from_secs(30)));
        grant(&etcd, &ours).await;
        etcd.acquire(&theirs, Wait::Until(Clock::boot().now())).await.unwrap();
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            renewed(&etcd, &ours).await;
        }
        etcd.release(&ours, ReleaseMode::Plain).await.unwrap();
        let wait = Wait::Until(Clock::boot().now() + Duration::from_secs(10));
        granted_soon(&etcd, &theirs, wait).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_password_is_used() {
    for version in [Version::Debian, Version::Current] {
        let options = testbed::Etcd::options().version(version).members(1);
        let cluster = options.user("app", SECRET, "lockwright/").start().unwrap();
        let password = Arc::new(Mutex::new(SECRET));
        let current = Arc::clone(&password);
        let provider = CredentialProvider::new(move || {
            let password = current.lock().unwrap().to_string();
            async { Ok::<_, String>(Credentials { username: Some("app".to_owned()), password }) }
        });
        let config = Config::new(&format!("etcd:{}", cluster.members[0].endpoint())).unwrap();
        let etcd = patient(config).credentials(provider).connect().await.unwrap();
        let without_provider = connect(&cluster.url()).await;
        let (held, next) = (claim("a"), claim("b"));
        grant(&etcd, &held).await;

        *password.lock().unwrap() = "new";
        for command in [
            &["user", "delete", "app"][..],
            &["user", "add", "app:new"],
            &["user", "grant-role", "app", "app"],
        ] {
            cluster.ctl(command).unwrap();
        }
        renewed(&etcd, &held).await;
        grant(&etcd, &next).await;
        fails(without_provider.try_acquire(&claim("c")).await, ErrorKind::Denied);
        let waits = claim_for("a", Duration::from_secs(30));
        etcd.acquire(&waits, Wait::Until(Clock::boot().now())).await.unwrap();
        etcd.release(&held, ReleaseMode::Plain).await.unwrap();
        granted_soon(&etcd, &waits, Wait::Until(Clock::boot().now() + Duration::from_secs(10)))
            .await;
    }
}

/// etcd accepts keep-alives even from users without permission, so the client must stop the
/// keep-alives.
#[tokio::test(flavor = "multi_thread")]
async fn hold_of_a_user_who_lost_the_permission_ends() {
    let options = testbed::Etcd::options().members(1).user("app", SECRET, "lockwright/");
    let cluster = options.start().unwrap();
    cluster.ctl(&["user", "add", "guest:hush"]).unwrap();
    cluster.ctl(&["role", "add", "some"]).unwrap();
    cluster.ctl(&["user", "grant-role", "guest", "some"]).unwrap();
    let granting =
        ["role", "grant-permission", "some", "--prefix=true", "readwrite", "lockwright/"];
    cluster.ctl(&granting).unwrap();
    let port = cluster.members[0].port();
    let guest = connect(&format!("etcd:http://guest:hush@127.0.0.1:{port}")).await;
    let (held, next) = (claim_for("x", Duration::from_secs(3)), claim("x"));
    grant(&guest, &held).await;
    let revoking = ["role", "revoke-permission", "some", "--prefix=true", "lockwright/"];
    cluster.ctl(&revoking).unwrap();
    let app = connect(&cluster.url()).await;
    let wait = Wait::Until(Clock::boot().now() + held.ttl * 10);
    granted_soon(&app, &next, wait).await;
}
