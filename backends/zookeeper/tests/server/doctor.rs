use std::time::Duration;

use lockwright_core::{DistributedLock, ErrorKind, Finding, Severity};
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{Proxy, ZooKeeper};
use lockwright_zookeeper::Config;

use crate::common::{claim, connect, eventually, fails, grant, patient};

const WARNING: Severity = Severity::Warning;

/// The finding for all URLs without a login.
const OPEN: (&str, Severity) = ("zookeeper-open", Severity::Note);

const SLOW: &str = "zookeeper-slow-commits";

const UNNAMED: (&str, Severity) = ("zookeeper-servers-unnamed", WARNING);

/// Omits the finding about slow commits: the ticks are so short that a busy machine seems slow.
async fn diagnosed(config: Config) -> Vec<Finding> {
    let mut findings = config.for_diagnosis().connect().await.unwrap().doctor().await.unwrap();
    findings.retain(|finding| finding.code != SLOW);
    findings
}

async fn findings_at(url: &str) -> Vec<Finding> {
    diagnosed(patient(Config::new(url).unwrap())).await
}

/// Returns the findings with the short default timeouts, for which tests without a quorum wait.
async fn impatient(url: &str) -> Vec<Finding> {
    diagnosed(Config::new(url).unwrap()).await
}

fn codes(findings: &[Finding]) -> Vec<(&'static str, Severity)> {
    findings.iter().map(|finding| (finding.code, finding.severity)).collect()
}

async fn found(url: &str) -> Vec<(&'static str, Severity)> {
    codes(&findings_at(url).await)
}

fn as_user(url: &str, login: &str) -> String {
    url.replace("zookeeper:", &format!("zookeeper:{login}@"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_ensemble_of_three_has_nothing() {
    let ensemble = ZooKeeper::options().tick(Duration::from_secs(2)).start().unwrap();
    let ours = as_user(&ensemble.url(), "app:secret");
    assert_eq!(findings_at(&ours).await, []);
    let zookeeper = connect(&ours).await;
    let claim = crate::common::claim_for("a", Duration::from_secs(30));
    grant(&zookeeper, &claim).await;
    assert_eq!(zookeeper.doctor().await.unwrap(), []);
    assert_eq!(zookeeper.inspect(&claim.name).await.unwrap().holders.len(), 1);

    let url = format!("{}?prefix=/free", ensemble.url());
    assert_eq!(found(&url).await, [OPEN]);
    for stranger in [as_user(&ensemble.url(), "other:secret"), ensemble.url()] {
        let findings = findings_at(&stranger).await;
        assert_eq!(findings[0].code, "zookeeper-denied", "{findings:?}");
        assert_eq!(findings[0].severity, Severity::Error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_that_is_not_there_is_an_error() {
    let server = ZooKeeper::options().members(1).start().unwrap();
    let findings = findings_at(&format!("{}/nowhere/up", server.url())).await;
    let first = &findings[0];
    assert_eq!((first.code, first.severity), ("zookeeper-no-chroot", Severity::Error));
    assert!(first.what.contains("/nowhere/up"), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_server_is_too_few_and_its_sessions_may_be_too_short() {
    let (shortest, longest) = (Duration::from_secs(1), Duration::from_secs(20));
    let server = ZooKeeper::options().members(1).sessions(shortest, longest).start().unwrap();
    let few = ("zookeeper-too-few-servers", WARNING);
    let findings = findings_at(&server.url()).await;
    assert_eq!(codes(&findings), [("zookeeper-session-limits", WARNING), few, OPEN]);
    assert!(findings[0].what.contains("20s"), "{findings:?}");
    let long = Duration::from_secs(40);
    let server = ZooKeeper::options().members(1).sessions(long, long).start().unwrap();
    assert!(found(&server.url()).await.contains(&("zookeeper-session-limits", WARNING)));
}

/// The shortest session is shorter than two ticks, so the client assumes too short a tick.
#[tokio::test(flavor = "multi_thread")]
async fn a_tick_that_is_longer_than_it_is_taken_for_is_an_error() {
    let (tick, shortest) = (Duration::from_secs(1), Duration::from_millis(400));
    let longest = Duration::from_secs(40);
    let options = ZooKeeper::options().members(1).tick(tick).sessions(shortest, longest);
    let server = options.clone().start().unwrap();
    let few = ("zookeeper-too-few-servers", WARNING);
    let findings = findings_at(&server.url()).await;
    assert_eq!(codes(&findings), [("zookeeper-tick", Severity::Error), few, OPEN]);
    let what = &findings[0].what;
    // The assumed tick is 200 ms, or more if slow connecting led to a longer session.
    assert!(what.contains("is 1s") && what.contains("ms is taken"), "{what}");
    let url = |tick: &str| format!("{}?tick={tick}", server.url());
    assert_eq!(found(&url("1s")).await, [few, OPEN]);
    assert_eq!(found(&url("999ms")).await[0], ("zookeeper-tick", Severity::Error));

    let server = options.set("4lw.commands.whitelist", "srvr,ruok").start().unwrap();
    let unseen = ("zookeeper-not-looked-at", Severity::Note);
    let findings = findings_at(&server.url()).await;
    assert_eq!(codes(&findings), [few, unseen, OPEN]);
    assert!(findings[1].what.contains("conf"), "{findings:?}");
    assert_eq!(found(&format!("{}?tick=1s", server.url())).await, [few, OPEN]);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_grant_different_sessions_are_a_warning() {
    let mut ensemble = ZooKeeper::start().unwrap();
    assert_eq!(found(&ensemble.url()).await, [OPEN]);
    let settings = ensemble.members[1].settings();
    let text = std::fs::read_to_string(&settings).unwrap();
    let lower = text.replace("maxSessionTimeout=40000", "maxSessionTimeout=35000");
    assert_ne!(text, lower);
    std::fs::write(&settings, lower).unwrap();
    ensemble.members[1].restart(true).unwrap();
    ensemble.wait_until_whole().unwrap();
    let findings = findings_at(&ensemble.url()).await;
    assert_eq!(codes(&findings), [("zookeeper-limits-differ", WARNING), OPEN]);
    let (one, what) = (format!("{} grants", ensemble.members[1].address()), &findings[0].what);
    assert!(what.contains(&one) && what.contains("35s") && what.contains("40s"), "{what}");
    // A client of any server uses the lowest limits of all servers.
    for _ in 0..4 {
        let zookeeper = connect(&ensemble.url()).await;
        assert_eq!(*zookeeper.profile().ttl.end(), Duration::from_secs(35));
    }
    let others = [0, 2].map(|member| ensemble.members[member].port());
    assert_eq!(found(&ensemble.url_through(others)).await, [UNNAMED, OPEN]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_even_number_and_observers_are_noted() {
    let ensemble = ZooKeeper::options().members(4).observers(1).start().unwrap();
    let notes =
        [("zookeeper-even-number", Severity::Note), ("zookeeper-observers", Severity::Note), OPEN];
    let voters = ensemble.url_through(ensemble.members[..4].iter().map(|member| member.port()));
    assert_eq!(found(&voters).await, notes);
    let observer = ensemble.url_through([ensemble.members[4].port()]);
    let findings = findings_at(&observer).await;
    assert_eq!(codes(&findings)[0], ("zookeeper-observer", WARNING));
    assert!(findings[0].what.contains(&ensemble.members[4].port().to_string()), "{findings:?}");
    assert_eq!(codes(&findings)[1..], [&[UNNAMED], notes.as_slice()].concat());
}

/// The limits of servers behind a common address can't be checked one by one.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_the_url_does_not_name_are_a_warning() {
    let ensemble = ZooKeeper::start().unwrap();
    let one = ensemble.url_through([ensemble.members[1].port()]);
    let findings = findings_at(&one).await;
    assert_eq!(codes(&findings), [UNNAMED, OPEN]);
    assert!(findings[0].what.contains("names 1 ") && findings[0].what.contains("are 3"));
    // The client can't read the list of servers, but the mode shows that there are others.
    ensemble.members[1].cli(&["setAcl", "/zookeeper/config", "auth:super:r"]).unwrap();
    let unseen = ("zookeeper-not-looked-at", WARNING);
    assert_eq!(found(&one).await, [unseen, UNNAMED, OPEN]);
    assert_eq!(found(&ensemble.url()).await, [unseen, OPEN]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_quorum_and_servers_that_only_read_are_errors() {
    let options = ZooKeeper::options().property("readonlymode.enabled", "true");
    let mut ensemble = options.start().unwrap();
    let zookeeper = lockwright_zookeeper::ZooKeeper::connect(&ensemble.url()).await.unwrap();
    ensemble.members[0].kill();
    let down = ("zookeeper-server-down", WARNING);
    eventually(|| async { ensemble.leader().ok() }).await;
    let findings = impatient(&ensemble.url()).await;
    assert!(codes(&findings).contains(&down), "{findings:?}");
    assert!(!codes(&findings).iter().any(|found| found.1 == Severity::Error), "{findings:?}");

    ensemble.members[1].kill();
    let quorum = ("zookeeper-no-quorum", Severity::Error);
    eventually(|| async { ensemble.leader().is_err().then_some(()) }).await;
    let findings = impatient(&ensemble.url()).await;
    assert_eq!(codes(&findings).iter().filter(|found| **found == quorum).count(), 1);
    eventually(|| async {
        (ensemble.members[2].mode().as_deref() == Some("read-only")).then_some(())
    })
    .await;
    let read_only = ("zookeeper-read-only", Severity::Error);
    assert_eq!(codes(&impatient(&ensemble.url()).await), [read_only, quorum, down, down, OPEN]);

    ensemble.members[2].kill();
    fails(zookeeper.doctor().await, ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_take_long_are_a_warning() {
    let server = ZooKeeper::options().members(1).start().unwrap();
    let slow = Proxy::start(server.members[0].address()).unwrap();
    let url = server.url_through([slow.port()]);
    let slow_commits =
        |findings: Vec<Finding>| findings.into_iter().find(|finding| finding.code == SLOW);
    // If connecting takes too long, the client assumes too long a tick, so connect again.
    let zookeeper = eventually(|| async {
        slow.set(Traffic::Forward);
        let zookeeper = patient(Config::new(&url).unwrap()).connect().await.unwrap();
        slow.set(Traffic::Delay(Duration::from_millis(200)));
        let finding = slow_commits(zookeeper.doctor().await.unwrap()).expect("a quarter of a tick");
        assert_eq!(finding.severity, WARNING);
        finding.what.contains("where a tick is 200ms").then_some(zookeeper)
    })
    .await;
    slow.set(Traffic::Forward);
    eventually(|| async {
        slow_commits(zookeeper.doctor().await.unwrap()).is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_data_are_found_by_clients_that_saw_later_ones() {
    let back = ("zookeeper-data-went-back", Severity::Error);
    let mut ensemble = ZooKeeper::start().unwrap();
    let zookeeper = connect(&ensemble.url()).await;
    grant(&zookeeper, &claim("a")).await;
    let snapshot = ensemble.snapshot().unwrap();
    // No leader was elected since the snapshot, so no client can detect the restore (see
    // `Shared::highest_zxid`).
    let before = grant(&zookeeper, &claim("b")).await.fence;
    ensemble.restore(&snapshot).unwrap();
    assert!(!codes(&zookeeper.doctor().await.unwrap()).contains(&back));
    assert!(grant(&connect(&ensemble.url()).await, &claim("c")).await.fence > before);
    for _ in 0..2 {
        let old = ensemble.leader().unwrap();
        ensemble.members[old].kill();
        ensemble.wait_for_another_leader(old).unwrap();
        ensemble.members[old].restart(true).unwrap();
        ensemble.wait_until_whole().unwrap();
    }
    eventually(|| async { zookeeper.try_acquire(&claim("d")).await.ok() }).await;
    assert!(!codes(&zookeeper.doctor().await.unwrap()).contains(&back));
    ensemble.restore(&snapshot).unwrap();
    assert!(codes(&zookeeper.doctor().await.unwrap()).contains(&back));
    // A client that started after the restore can't detect it.
    assert!(!found(&ensemble.url()).await.contains(&back));

    ensemble.restart(false).unwrap();
    let findings = zookeeper.doctor().await.unwrap();
    assert!(findings[0].what.contains("/lockwright is gone"), "{findings:?}");
    assert_eq!(codes(&findings)[0], back);
}
