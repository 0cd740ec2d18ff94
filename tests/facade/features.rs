#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_missing_feature_is_named() {
    for (url, feature) in [
        ("redis://me:hush@db/", "redis"),
        ("rediss://me:hush@db/", "redis"),
        ("redis+sentinel://me:hush@a,b/main", "redis"),
        ("redis+cluster://me:hush@a,b", "redis"),
        ("valkey://me:hush@db/", "redis"),
        ("valkeys+sentinel://me:hush@a,b/main", "redis"),
        #[cfg(not(feature = "redlock"))]
        ("redlock:redis://me:hush@a,redis://b,redis://c", "redlock"),
        #[cfg(not(feature = "etcd"))]
        ("etcd:http://me:hush@a:2379,http://b:2379", "etcd"),
        #[cfg(not(feature = "zookeeper"))]
        ("zookeeper:me:hush@a,b,c/chroot", "zookeeper"),
        #[cfg(not(feature = "zookeeper"))]
        ("zookeeper+tls:me:hush@a:1,b:1,c:1/chroot?ca=x", "zookeeper-tls"),
        #[cfg(not(feature = "sqlite"))]
        ("sqlite:x.db", "sqlite"),
        #[cfg(not(feature = "memory"))]
        ("memory:", "memory"),
    ] {
        let error = lockwright::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), lockwright::ErrorKind::InvalidConfig);
        let text = format!("{error:?}");
        assert!(text.contains(&format!("`{feature}`")) && !text.contains("hush"), "{text}");
    }
}

/// `cargo xtask test` repeats this test with only `memory` and `sqlite`, which must suffice.
#[cfg(all(feature = "sqlite", target_os = "linux"))]
#[tokio::test]
async fn fence_check_comes_with_sqlite() {
    use lockwright::fencing::Fenced;
    use lockwright::sql::sqlite::{check_fence, make_fence_table};
    use lockwright::sql::sqlx::{Connection, SqliteConnection};

    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    make_fence_table(&mut connection).await.unwrap();
    for (fence, is_refused) in [(2, false), (1, true)] {
        let mut transaction = connection.begin().await.unwrap();
        let name = lockwright::LockName::new("x").unwrap();
        let fenced = Fenced { name, fence: lockwright::Fence::new(fence) };
        let answer = check_fence(&mut transaction, &fenced).await;
        assert_eq!(answer.is_err(), is_refused, "{answer:?}");
        transaction.commit().await.unwrap();
    }
}
