//! What isn't compiled in says which feature it wants.

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_missing_feature_is_named() {
    for (url, feature) in [
        ("redis://me:hush@db/", "redis"),
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
