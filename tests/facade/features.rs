//! What isn't compiled in says which feature it wants.

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_missing_feature_is_named() {
    for (url, feature) in [
        ("redis://me:hush@db/", "redis"),
        ("rediss://me:hush@db/", "redis"),
        ("redis+sentinel://me:hush@a,b/main", "redis"),
        ("redis+cluster://me:hush@a,b", "redis"),
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
