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
