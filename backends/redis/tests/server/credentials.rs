use std::sync::{Arc, Mutex};

use lockwright_core::{CredentialProvider, Credentials, DistributedLock, ErrorKind};
use lockwright_redis::Config;
use lockwright_testbed as testbed;

use crate::common::{claim, connect, eventually, fails, grant, patient, renewed};

fn options() -> testbed::redis::Options {
    testbed::Redis::options().user("locks", "old", "~* &* +@all").without_default_user()
}

fn provider(password: &Arc<Mutex<&'static str>>) -> CredentialProvider {
    let password = Arc::clone(password);
    CredentialProvider::new(move || {
        let (username, password) = (Some("locks".to_owned()), password.lock().unwrap().to_string());
        async { Ok::<_, String>(Credentials { username, password }) }
    })
}

/// Sets the password `new`, and closes the connections of the user.
fn rotate(servers: &[testbed::Redis]) {
    for server in servers {
        server.command::<()>(&["ACL", "SETUSER", "locks", "resetpass", ">new"]).unwrap();
        server.command::<u64>(&["CLIENT", "KILL", "USER", "locks"]).unwrap();
    }
}

async fn rotated_password_is_used(servers: &[testbed::Redis], url: &str) {
    let password = Arc::new(Mutex::new("old"));
    let config = patient(Config::new(&url.replace("locks:old@", "")).unwrap());
    let redis = config.credentials(provider(&password)).connect().await.unwrap();
    let held = claim("a");
    grant(&redis, &held).await;
    *password.lock().unwrap() = "new";
    rotate(servers);
    let next = claim("b");
    eventually(async || redis.try_acquire(&next).await.ok()).await;
    renewed(&redis, &held).await;
}

#[tokio::test]
async fn rotated_password_is_used_on_one_server() {
    let server = options().start().unwrap();
    let without_provider = connect(&server.url()).await;
    rotated_password_is_used(std::slice::from_ref(&server), &server.url()).await;
    eventually(async || {
        let error = without_provider.try_acquire(&claim("c")).await.unwrap_err();
        (error.kind() == ErrorKind::Denied).then_some(())
    })
    .await;
}

#[tokio::test]
async fn rotated_password_is_used_with_sentinel() {
    let set = testbed::Sentinels::options().servers(options()).start().unwrap();
    rotated_password_is_used(&set.servers, &set.url()).await;
}

#[tokio::test]
async fn rotated_password_is_used_in_a_cluster() {
    let cluster = testbed::redis::Cluster::options().servers(options()).start().unwrap();
    rotated_password_is_used(&cluster.nodes, &cluster.url()).await;
}

#[tokio::test]
async fn failing_provider_makes_the_server_unavailable() {
    let provider = CredentialProvider::new(|| async { Err("the vault is closed") });
    let config = Config::new("redis://127.0.0.1/").unwrap().credentials(provider);
    let error = fails(config.connect().await, ErrorKind::Unavailable);
    assert!(error.message().contains("the vault is closed"), "{error}");
}
