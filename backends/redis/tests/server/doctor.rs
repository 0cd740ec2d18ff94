use lockwright_core::{DistributedLock, Finding, Severity};
use lockwright_redis::Config;
use lockwright_testbed as testbed;

async fn findings_at(url: &str) -> Vec<Finding> {
    let config = crate::common::patient(Config::new(url).unwrap());
    let redis = config.for_diagnosis().connect().await.unwrap();
    redis.doctor().await.unwrap()
}

async fn found(server: &testbed::Redis) -> Vec<(&'static str, Severity)> {
    findings_at(&server.url()).await.into_iter().map(|f| (f.code, f.severity)).collect()
}

fn sound() -> testbed::redis::Options {
    testbed::Redis::options().append_only("always")
}

#[tokio::test]
async fn a_sound_server_has_nothing() {
    let server = sound().start().unwrap();
    let redis = crate::common::connect(&server.url()).await;
    assert_eq!(redis.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn an_eviction_policy_is_an_error() {
    for policy in ["allkeys-lru", "volatile-ttl", "allkeys-random"] {
        let server = sound().maxmemory_policy(policy).start().unwrap();
        let findings = findings_at(&server.url()).await;
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((finding.code, finding.severity), ("eviction-policy", Severity::Error));
        assert!(finding.what.contains(policy), "{finding:?}");
    }
}

#[tokio::test]
async fn persistence_that_loses_acknowledged_writes_is_a_warning() {
    let warning = [("persistence", Severity::Warning)];
    let server = testbed::Redis::start().unwrap();
    assert_eq!(found(&server).await, warning);
    for fsync in ["everysec", "no"] {
        let server = testbed::Redis::options().append_only(fsync).start().unwrap();
        assert_eq!(found(&server).await, warning, "{fsync}");
    }
}

#[tokio::test]
async fn a_replica_is_an_error_and_replicas_are_a_note() {
    let master = sound().start().unwrap();
    let replica = sound().replica_of(&master).start().unwrap();
    assert_eq!(found(&replica).await, [("replica", Severity::Error)]);
    let redis = crate::common::connect(&master.url()).await;
    crate::common::eventually(|| async {
        let findings = redis.doctor().await.unwrap();
        findings.iter().any(|f| f.code == "replicas" && f.severity == Severity::Note).then_some(())
    })
    .await;
    let other = sound().start().unwrap();
    let port = other.port().to_string();
    master.command::<()>(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let findings = redis.doctor().await.unwrap();
    assert!(findings.iter().any(|finding| finding.code == "replica"), "{findings:?}");
}

#[tokio::test]
async fn memory_that_is_nearly_full_is_a_warning() {
    let server = sound().start().unwrap();
    let info: String = server.command(&["INFO", "memory"]).unwrap();
    let used: u64 = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok())
        .unwrap();
    server.command::<()>(&["CONFIG", "SET", "maxmemory", &(used * 10).to_string()]).unwrap();
    assert_eq!(found(&server).await, []);
    server.command::<()>(&["CONFIG", "SET", "maxmemory", &used.to_string()]).unwrap();
    assert_eq!(found(&server).await, [("memory-nearly-full", Severity::Warning)]);
}

#[tokio::test]
async fn a_snapshot_that_fails_is_an_error() {
    let server = sound().set("enable-protected-configs", "yes").start().unwrap();
    // The snapshot fails, because a folder has its file's name.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    server.command::<()>(&["CONFIG", "SET", "dir", path]).unwrap();
    std::fs::create_dir(folder.path().join("dump.rdb")).unwrap();
    server.command::<()>(&["BGSAVE"]).unwrap();
    crate::common::eventually(|| async {
        found(&server).await.contains(&("persistence-failing", Severity::Error)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn failed_inspection_is_a_finding() {
    let server = sound().start().unwrap();
    let url = |user: &str| format!("redis://{user}:secret@127.0.0.1:{}/", server.port());
    for (user, denied, wanted) in [
        ("no-config", "-config", vec!["config-denied"]),
        ("no-info", "-info", vec!["info-denied"]),
        ("no-publish", "-publish", vec!["publish-denied"]),
    ] {
        server
            .command::<()>(&["ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", denied])
            .unwrap();
        let findings = findings_at(&url(user)).await;
        let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, wanted, "{findings:?}");
        assert_eq!(findings[0].severity, Severity::Warning);
    }
    // Some hosted services rename `CONFIG`.
    let server = sound().set("rename-command", "CONFIG hidden").start().unwrap();
    assert_eq!(found(&server).await, [("config-denied", Severity::Warning)]);
    let redis = crate::common::connect(&server.url()).await;
    let fault = lockwright_core::Fault::ServerRestart;
    assert!(!redis.profile().survives.contains(fault), "not claimed when it can't be seen");
}
