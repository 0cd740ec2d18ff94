use lockwright_core::{DistributedLock, Fault, Finding, Severity};
use lockwright_redis::Config;
use lockwright_testbed as testbed;

use crate::common::{connect, eventually, patient, weak_user};

async fn findings_at(url: &str) -> Vec<Finding> {
    let config = patient(Config::new(url).unwrap());
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
async fn settings_of_a_server_are_examined() {
    let options = testbed::Redis::options;
    let is_lossy = Some(("persistence", Severity::Warning));
    let evicts = Some(("eviction-policy", Severity::Error));
    for (options, finding, what) in [
        // A password of the default user makes no difference.
        (sound().password("secret"), None, ""),
        (options(), is_lossy, "appendonly is no"),
        (options().append_only("everysec"), is_lossy, "everysec"),
        (options().append_only("no"), is_lossy, "appendfsync is no"),
        (sound().set("maxmemory-policy", "allkeys-lru"), evicts, "allkeys-lru"),
        (sound().set("maxmemory-policy", "volatile-ttl"), evicts, "volatile-ttl"),
        (sound().set("maxmemory-policy", "allkeys-random"), evicts, "allkeys-random"),
        // Some hosted services rename `CONFIG`. Without it, the profile promises no durability.
        (
            sound().set("rename-command", "CONFIG hidden"),
            Some(("config-denied", Severity::Warning)),
            "CONFIG GET",
        ),
    ] {
        let server = options.start().unwrap();
        let redis = connect(&server.url()).await;
        let findings = redis.doctor().await.unwrap();
        let found: Vec<_> = findings.iter().map(|it| (it.code, it.severity)).collect();
        assert_eq!(found, Vec::from_iter(finding), "{what}");
        assert!(findings.iter().all(|it| it.what.contains(what)), "{findings:?}");
        let survives = redis.profile().survives.contains(Fault::ServerRestart);
        assert_eq!(survives, finding.is_none() || finding == evicts, "{what}");
    }
}

#[tokio::test]
async fn a_replica_is_an_error_and_replicas_are_a_note() {
    let master = sound().start().unwrap();
    let replica = sound().replica_of(&master).start().unwrap();
    assert_eq!(found(&replica).await, [("replica", Severity::Error)]);
    let redis = connect(&master.url()).await;
    eventually(|| async {
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
    // Make the snapshot fail: a folder has the name of the snapshot's file.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    server.command::<()>(&["CONFIG", "SET", "dir", path]).unwrap();
    std::fs::create_dir(folder.path().join("dump.rdb")).unwrap();
    server.command::<()>(&["BGSAVE"]).unwrap();
    eventually(|| async {
        found(&server).await.contains(&("persistence-failing", Severity::Error)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn failed_inspection_is_a_finding() {
    let server = sound().start().unwrap();
    for denied in ["config", "info", "publish"] {
        let findings = findings_at(&weak_user(&server, &format!("-{denied}"))).await;
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.code, format!("{denied}-denied"));
        assert_eq!(finding.severity, Severity::Warning);
    }
}
