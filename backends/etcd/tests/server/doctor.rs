use std::time::Duration;

use etcd_client::{AlarmAction, AlarmType};
use lockwright_core::{DistributedLock, Finding, ReleaseMode, Severity};
use lockwright_etcd::Config;
use lockwright_testbed::etcd::Version;
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{self as testbed, Proxy};

use crate::common::{claim, eventually, grant, patient};

async fn found(url: &str) -> Vec<(&'static str, Severity)> {
    let config = patient(Config::new(url).unwrap());
    codes(&config.for_diagnosis().connect().await.unwrap().doctor().await.unwrap())
}

/// Omits the finding about slow writes, which a busy machine may cause.
fn codes(findings: &[Finding]) -> Vec<(&'static str, Severity)> {
    let codes = findings.iter().map(|finding| (finding.code, finding.severity));
    codes.filter(|(code, _)| *code != "etcd-slow-writes").collect()
}

const LEASE_BUG: (&str, Severity) = ("etcd-lease-bug", Severity::Warning);
const ONE_MEMBER: (&str, Severity) = ("etcd-one-member", Severity::Warning);

/// Returns options for etcd 3.6, without the bug of issue 15247.
fn options() -> testbed::etcd::Options {
    testbed::Etcd::options().version(Version::Current)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_cluster_of_three_has_nothing() {
    let cluster = options().start().unwrap();
    assert_eq!(found(&cluster.url()).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_revokes_live_leases_is_a_warning_at_each_member() {
    let cluster = testbed::Etcd::start().unwrap();
    assert_eq!(found(&cluster.url()).await, [LEASE_BUG; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn how_many_vote_is_counted() {
    let one = options().members(1).start().unwrap();
    assert_eq!(found(&one.url()).await, [ONE_MEMBER]);
    let two = options().members(2).start().unwrap();
    assert_eq!(found(&two.url()).await, [("etcd-even-size", Severity::Note)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_down_is_a_warning_and_the_loss_of_most_is_an_error() {
    let mut cluster = options().start().unwrap();
    let leader = cluster.leader().unwrap();
    let url = cluster.url();
    let sound = lockwright_etcd::Etcd::connect(&url).await.unwrap();
    cluster.members[(leader + 1) % 3].kill();
    let down = ("etcd-member-unreachable", Severity::Warning);
    let findings = eventually(async || {
        let findings = sound.doctor().await.unwrap();
        (codes(&findings) == [down]).then_some(findings)
    })
    .await;
    let named = cluster.members[(leader + 1) % 3].endpoint();
    assert!(findings.iter().any(|finding| finding.what.contains(&named)), "{findings:?}");

    cluster.members[(leader + 2) % 3].kill();
    // The leader notices the loss of its majority only after some time.
    let no_leader = ("etcd-no-leader", Severity::Error);
    eventually(async || {
        let etcd = Config::new(&url).unwrap().for_diagnosis().connect().await.unwrap();
        (codes(&etcd.doctor().await.unwrap()) == [no_leader, down, down]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_is_a_warning() {
    let mut cluster = testbed::Etcd::options().members(1).start().unwrap();
    tokio::task::block_in_place(|| cluster.add_learner()).unwrap();
    let learner = ("etcd-learner", Severity::Warning);
    assert_eq!(found(&cluster.url()).await, [LEASE_BUG, LEASE_BUG, learner, ONE_MEMBER]);
    let etcd = crate::common::connect(&cluster.url()).await;
    for number in 0..5 {
        grant(&etcd, &claim(&format!("lock {number}"))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_different_clusters_are_an_error() {
    let (one, other) =
        (options().members(1).start().unwrap(), options().members(1).start().unwrap());
    let url = one.url_through([one.members[0].port(), other.members[0].port()]);
    assert_eq!(found(&url).await, [("etcd-several-clusters", Severity::Error), ONE_MEMBER]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_nearly_full_is_a_warning_and_a_full_one_an_error() {
    // One write per commit: a batch could fill the database in one step.
    let quota = 52 << 20;
    let options = options()
        .members(1)
        .set("quota-backend-bytes", quota.to_string())
        .set("backend-batch-limit", "1");
    let cluster = options.start().unwrap();
    let client = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
    let fill = async |number: usize| {
        client.kv_client().put(format!("filler/{number}"), vec![0; 1 << 20], None).await.is_ok()
    };
    assert_eq!(found(&cluster.url()).await, [ONE_MEMBER]);
    let nearly = ("etcd-nearly-full", Severity::Warning);
    let (mut number, mut was_nearly_full) = (0, false);
    while fill(number).await {
        number += 1;
        assert!(number < 100, "it never was full");
        if !was_nearly_full {
            was_nearly_full = found(&cluster.url()).await.contains(&nearly);
        }
    }
    assert!(was_nearly_full);
    let all = found(&cluster.url()).await;
    assert!(all.contains(&("etcd-no-space", Severity::Error)), "{all:?}");
}

/// The member rejects every transaction, but reports its status.
#[tokio::test(flavor = "multi_thread")]
async fn failed_check_is_an_error_and_other_checks_still_run() {
    let cluster = options().members(1).set("max-txn-ops", "0").start().unwrap();
    assert_eq!(found(&cluster.url()).await, [("etcd-no-answer", Severity::Error), ONE_MEMBER]);
}

#[tokio::test(flavor = "multi_thread")]
async fn alarms_are_errors() {
    for version in [Version::Debian, Version::Current] {
        let cluster = testbed::Etcd::options().version(version).members(1).start().unwrap();
        let client = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
        for (alarm, code) in
            [(AlarmType::Nospace, "etcd-no-space"), (AlarmType::Corrupt, "etcd-corrupt")]
        {
            client.maintenance_client().alarm(AlarmAction::Activate, alarm, None).await.unwrap();
            let all = found(&cluster.url()).await;
            assert!(all.contains(&(code, Severity::Error)), "{version:?}: {all:?}");
            client.maintenance_client().alarm(AlarmAction::Deactivate, alarm, None).await.unwrap();
            let all = found(&cluster.url()).await;
            assert!(!all.iter().any(|(other, _)| *other == code), "{version:?}: {all:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_take_long_are_a_warning() {
    let cluster = options().members(1).start().unwrap();
    let proxy = Proxy::start(cluster.members[0].address()).unwrap();
    let etcd = crate::common::connect(&cluster.url_through([proxy.port()])).await;
    let slow_writes = async || {
        let findings = etcd.doctor().await.unwrap();
        findings.into_iter().find(|finding| finding.code == "etcd-slow-writes")
    };
    proxy.set(Traffic::Delay(Duration::from_millis(400)));
    assert_eq!(slow_writes().await.unwrap().severity, Severity::Warning);
    proxy.set(Traffic::Forward);
    eventually(async || slow_writes().await.is_none().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_snapshot_is_an_error_for_clients_that_saw_later_revisions() {
    let mut cluster = options().start().unwrap();
    let etcd = crate::common::connect(&cluster.url()).await;
    let before = claim("a");
    grant(&etcd, &before).await;
    let snapshot = cluster.snapshot().unwrap();
    etcd.release(&before, ReleaseMode::Plain).await.unwrap();
    for _ in 0..3 {
        let after = claim("a");
        grant(&etcd, &after).await;
        etcd.release(&after, ReleaseMode::Plain).await.unwrap();
    }
    tokio::task::block_in_place(|| cluster.restore(&snapshot)).unwrap();
    let fell = ("etcd-revision-fell", Severity::Error);
    eventually(async || {
        let findings = etcd.doctor().await.unwrap();
        (codes(&findings) == [fell]).then_some(())
    })
    .await;
    // A new client can't detect the restore: even the cluster's id is unchanged.
    assert_eq!(found(&cluster.url()).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn unencrypted_remote_connection_is_a_warning() {
    let cluster = options().start().unwrap();
    // 127.1 is this machine, but the doctor doesn't recognize it as local.
    let url = cluster.url().replace("127.0.0.1", "127.1");
    let warnings = [("etcd-no-tls", Severity::Warning), ("etcd-no-login", Severity::Warning)];
    assert_eq!(found(&url).await, warnings);
    let with_users = options().members(1).user("app", "secret", "lockwright/").start().unwrap();
    let url = with_users.url().replace("127.0.0.1", "127.1");
    assert_eq!(found(&url).await, [warnings[0], ONE_MEMBER]);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_without_permissions_is_an_error() {
    for prefix in ["other/", "lockwright/a"] {
        let options = options().members(1).user("app", "secret", prefix);
        let cluster = options.start().unwrap();
        let all = found(&cluster.url()).await;
        assert_eq!(all, [("etcd-denied", Severity::Error), ONE_MEMBER], "{prefix}");
    }
}
