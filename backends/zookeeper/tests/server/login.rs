use lockwright_core::{DistributedLock, ErrorKind, Locks};
use lockwright_testbed::ZooKeeper;
use lockwright_zookeeper::Config;

use crate::common::{claim, connect, grant, without_secret};

const SECRET: &str = "the-secret-word";

fn as_user(url: &str, user: &str) -> String {
    url.replace("zookeeper:", &format!("zookeeper:{user}:{SECRET}@"))
}

#[tokio::test]
async fn wrong_or_missing_login_is_denied_with_a_remedy() {
    let server = ZooKeeper::options().members(1).start().unwrap();
    let url = as_user(&server.url(), "app");
    let ours = connect(&url).await;
    let held = claim("orders");
    grant(&ours, &held).await;
    for shown in [format!("{ours:?}"), format!("{:?}", Config::new(&url).unwrap())] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let wrong = url.replace(SECRET, "wrong");
    for stranger in [as_user(&server.url(), "other"), wrong, server.url()] {
        let stranger = connect(&stranger).await;
        for name in ["orders", "never/locked"] {
            let refused = stranger.try_acquire(&claim(name)).await.unwrap_err();
            let refused = without_secret(refused, SECRET);
            assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
            let says = refused.to_string();
            assert!(says.contains("login") && says.contains("prefix"), "what to do: {says}");
        }
        let refused = without_secret(stranger.list("", None).await.unwrap_err(), SECRET);
        assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
        assert!(refused.to_string().contains("/lockwright, with all locks"), "{refused}");
        let refused = Locks::new(stranger).unwrap().inspect("orders").await.unwrap_err();
        let refused = without_secret(refused, SECRET);
        assert_eq!(refused.kind(), ErrorKind::Denied);
        assert!(refused.to_string().contains("lock \"orders\""), "{refused}");
    }
    let again = connect(&url).await;
    assert_eq!(again.inspect(&held.name).await.unwrap().holders[0].token, Some(held.token));
}

#[tokio::test]
async fn servers_that_take_no_login_say_so() {
    let options = ZooKeeper::options().members(1);
    let options = options.property("zookeeper.DigestAuthenticationProvider.enabled", "false");
    let server = options.start().unwrap();
    let url = as_user(&server.url(), "app");
    let refused = Config::new(&url).unwrap().connect().await.unwrap_err();
    let refused = without_secret(refused, SECRET);
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert!(refused.to_string().contains("login"), "{refused}");
    grant(&connect(&server.url()).await, &claim("orders")).await;
}
