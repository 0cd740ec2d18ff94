use lockwright::ErrorKind;

async fn refused(url: &str, kind: ErrorKind) -> String {
    let error = lockwright::connect(url).await.expect_err(url);
    assert!(!format!("{error:?}").contains("hush"), "a secret shows in {error:?}");
    assert_eq!(error.kind(), kind, "{url}: {error}");
    error.to_string()
}

#[tokio::test]
async fn an_unknown_backend_lists_the_known_ones() {
    for url in [
        "",
        "nonsense",
        "cassandra://me:hush@db/x",
        "://",
        "/var/lib/locks.db",
        "memory",
        " sqlite:x",
    ] {
        let text = refused(url, ErrorKind::InvalidConfig).await;
        assert!(text.contains("sqlite:"), "{text}");
    }
}

#[tokio::test]
async fn only_a_quorum_has_nodes() {
    for url in ["sqlite:locks.db", "cassandra://me:hush@db/x", ""] {
        for error in
            [lockwright::operator::nodes(url).await, lockwright::operator::admit(url).await]
        {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
            assert!(error.to_string().contains("redlock:"), "{error}");
            assert!(!format!("{error:?}").contains("hush"), "{error:?}");
        }
    }
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn a_scheme_may_be_in_capitals() {
    lockwright::connect("MEMORY:").await.unwrap();
    #[cfg(feature = "sqlite")]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Locks.db");
        lockwright::connect(&format!("SQLite:{}", path.display())).await.unwrap();
        assert!(path.exists(), "the path keeps its capitals");
    }
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn memory_locks() {
    let locks = lockwright::connect("memory:").await.unwrap();
    locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
    refused("memory:/path", ErrorKind::InvalidConfig).await;
    let one = lockwright::connect("memory:shop").await.unwrap();
    let guard = one.mutex("x").acquire().await.unwrap();
    for (url, is_free) in [("memory:shop", false), ("memory:shop.2", true), ("memory:", true)] {
        let other = lockwright::connect(url).await.unwrap();
        assert_eq!(other.mutex("x").try_acquire().await.unwrap().is_some(), is_free, "{url}");
    }
    drop((guard, one));
    // The store ends with its last client, whose tasks may take a moment.
    loop {
        let other = lockwright::connect("memory:shop").await.unwrap();
        if other.inspect("x").await.unwrap().fence.is_none() {
            break;
        }
        drop(other);
        tokio::task::yield_now().await;
    }
}

#[cfg(feature = "redis")]
mod redis {
    use lockwright_testbed::redis::Redis;

    use super::*;

    #[tokio::test]
    async fn urls_lead_to_the_redis_backend() {
        let server = Redis::start().unwrap();
        let url = server.url().replace("redis://", "valkey://");
        let locks = lockwright::connect(&url).await.unwrap();
        assert_eq!(locks.profile().backend, "redis");
        // No process listens on a port that was just free.
        let nobody = format!("127.0.0.1:{}/", lockwright_testbed::port::free());
        for url in [
            format!("redis://me:hush@{nobody}"),
            format!("valkey://{nobody}"),
            format!("VALKEY+Cluster://{nobody}"),
            format!("valkey+sentinel://{nobody}main"),
            "redis+unix:///no/such/socket".to_owned(),
            "valkey+unix:///no/such/socket".to_owned(),
        ] {
            refused(&url, ErrorKind::Unavailable).await;
        }
    }
}

#[cfg(feature = "etcd")]
mod etcd {
    use super::*;

    #[tokio::test]
    async fn malformed_keys_are_distinct_from_dead_ones_by_etcd() {
        for url in [
            "etcd:",
            "etcd:http://",
            "etcd:me:hush@db:2379",
            "etcd:http://me:hush@db:port",
            "etcd:http://me:hush@a:1,,http://b:2",
            "etcd:http://me:hush@a:1?nonsense=1",
        ] {
            refused(url, ErrorKind::InvalidConfig).await;
        }
        let (one, two) = (lockwright_testbed::port::free(), lockwright_testbed::port::free());
        let url = format!("etcd:http://me:hush@127.0.0.1:{one},http://me:hush@127.0.0.1:{two}");
        refused(&url, ErrorKind::Unavailable).await;
    }
}

#[cfg(feature = "zookeeper")]
mod zookeeper {
    use super::*;

    #[tokio::test]
    async fn dead_servers_are_unavailable() {
        let (one, two) = (lockwright_testbed::port::free(), lockwright_testbed::port::free());
        let url = format!("zookeeper:me:hush@127.0.0.1:{one},127.0.0.1:{two}/x");
        refused(&url, ErrorKind::Unavailable).await;
    }
}
