use lockwright::ErrorKind;

async fn refused(url: &str) -> lockwright::Error {
    let error = lockwright::connect(url).await.expect_err(url);
    assert!(!format!("{error:?}").contains("hush"), "a secret shows in {error:?}");
    error
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
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
        let text = error.to_string();
        assert!(text.contains("sqlite:"), "{error}");
    }
}

#[tokio::test]
async fn features_reported_as_missing_are_missing() {
    let text = refused("nonsense").await.to_string();
    let (_, schemes) = text.split_once("begins with one of ").unwrap();
    for scheme in schemes.split(", ").filter_map(|one| one.strip_suffix(" (not in this build)")) {
        let has_tls = ["rediss", "valkeys"].iter().any(|secured| scheme.starts_with(secured));
        if cfg!(feature = "redis") && has_tls {
            continue; // the Redis backend gets this URL, and its error has another text
        }
        let error = refused(&format!("{scheme}//me:hush@db:1")).await.to_string();
        if cfg!(feature = "zookeeper") && scheme == "zookeeper+tls:" {
            assert!(error.contains("the feature `zookeeper-tls`"), "{error}");
            continue;
        }
        assert!(error.contains("this build has no"), "{error}");
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
    assert_eq!(refused("memory:/path").await.kind(), ErrorKind::InvalidConfig);
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;

    #[tokio::test]
    async fn sqlite_locks_across_clients() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        let (a, b) =
            (lockwright::connect(&url).await.unwrap(), lockwright::connect(&url).await.unwrap());
        let guard = a.mutex("x").acquire().await.unwrap();
        assert!(b.mutex("x").try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        b.mutex("x").acquire().await.unwrap().release().await.unwrap();
    }

    #[tokio::test]
    async fn other_file_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        let text = "not a database, and somebody's only copy".repeat(100);
        std::fs::write(&path, &text).unwrap();
        let error = refused(&format!("sqlite:{}", path.display())).await;
        assert!(error.to_string().contains("notes.txt"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        for bad in [folder.path().join("missing/locks.db"), folder.path().to_path_buf()] {
            refused(&format!("sqlite:{}", bad.display())).await;
        }
    }
}

#[cfg(feature = "redis")]
mod redis {
    use lockwright_testbed::redis::Redis;

    use super::*;

    #[tokio::test]
    async fn malformed_keys_are_distinct_from_dead_ones() {
        for url in
            ["redis:", "redis://", "redis://me:hush@", "redis://db:port/", "redis://db:70000"]
        {
            let error = refused(url).await;
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}: {error}");
        }
        // No process listens on a port that was just free.
        let port = lockwright_testbed::port::free();
        let error = refused(&format!("redis://me:hush@127.0.0.1:{port}/")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }

    #[tokio::test]
    async fn valkey_urls_lead_to_the_redis_backend() {
        let server = Redis::start().unwrap();
        let url = server.url().replace("redis://", "valkey://");
        let locks = lockwright::connect(&url).await.unwrap();
        assert_eq!(locks.profile().backend, "redis");
        let free = lockwright_testbed::port::free();
        for scheme in ["valkey", "VALKEY+Cluster", "valkey+sentinel", "valkey+unix"] {
            let rest = if scheme.ends_with("unix") { "/no/such/socket" } else { "" };
            let host = if rest.is_empty() { format!("127.0.0.1:{free}/") } else { String::new() };
            let master = if scheme.ends_with("sentinel") { "main" } else { "" };
            let error = refused(&format!("{scheme}://{host}{master}{rest}")).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{scheme}: {error}");
        }
    }

    #[tokio::test]
    async fn a_socket_is_reached_by_the_redis_backend() {
        let error = refused("redis+unix:///no/such/socket").await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }

    #[tokio::test]
    async fn a_password_that_is_wanted_on_redis_is_asked_for() {
        let server = Redis::options().password("hush").start().unwrap();
        let port = server.port();
        for url in
            [format!("redis://127.0.0.1:{port}/"), format!("redis://:hushhush@127.0.0.1:{port}/")]
        {
            let error = refused(&url).await;
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        }
        lockwright::connect(&format!("redis://:hush@127.0.0.1:{port}/")).await.unwrap();
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
            let error = refused(url).await;
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}: {error}");
        }
        let (one, two) = (lockwright_testbed::port::free(), lockwright_testbed::port::free());
        let url = format!("etcd:http://me:hush@127.0.0.1:{one},http://me:hush@127.0.0.1:{two}");
        let error = refused(&url).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

#[cfg(feature = "zookeeper")]
mod zookeeper {
    use super::*;

    #[tokio::test]
    async fn malformed_keys_are_distinct_from_dead_ones_by_zookeeper() {
        for url in [
            "zookeeper:",
            "zookeeper:me:hush@",
            "zookeeper:me:hush@db:port",
            "zookeeper:me:hush@a,,b",
            "zookeeper:me:hush@a?prefix=x&nonsense=1",
        ] {
            let error = refused(url).await;
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}: {error}");
        }
        let (one, two) = (lockwright_testbed::port::free(), lockwright_testbed::port::free());
        let error = refused(&format!("zookeeper:me:hush@127.0.0.1:{one},127.0.0.1:{two}/x")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}
