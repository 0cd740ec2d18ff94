//! Tests of the ZooKeeper ensembles.

use std::process::Command;
use std::time::{Duration, Instant};

use lockwright_testbed::{ZooKeeper, wait};

mod support;
use support::{assert_gone_with_the_process_of, is_helper, tell_and_wait};

fn create(zookeeper: &ZooKeeper, member: usize, path: &str) {
    zookeeper.members[member].cli(&["create", path, "value"]).unwrap();
}

fn all_have(zookeeper: &ZooKeeper, path: &str) {
    for (index, member) in zookeeper.members.iter().enumerate() {
        let found = member.cli(&["get", path]).unwrap();
        assert!(found.contains("value"), "member {index}: {found}");
    }
}

fn has(zookeeper: &ZooKeeper, path: &str) -> bool {
    match zookeeper.members[0].cli(&["get", path]) {
        Ok(found) => {
            assert!(found.contains("value"), "{found}");
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("Node does not exist"), "{error}");
            false
        }
    }
}

fn wait_for(what: impl FnMut() -> Option<()>) {
    assert!(wait::until(wait::LIMIT, what).is_some());
}

#[test]
fn they_start_and_follow() {
    let start = Instant::now();
    let zookeeper = ZooKeeper::start().unwrap();
    println!("started in {:?}", start.elapsed());
    let leader = zookeeper.leader().unwrap();
    for (index, member) in zookeeper.members.iter().enumerate() {
        let mode = member.mode();
        assert_eq!(mode.as_deref(), Some(if index == leader { "leader" } else { "follower" }));
        assert_eq!(zookeeper.four_letter(index, "ruok").unwrap(), "imok");
    }
    assert!(zookeeper.url().starts_with("zookeeper:127.0.0.1:"), "{}", zookeeper.url());
}

#[test]
fn one_alone_will_do() {
    let mut zookeeper = ZooKeeper::options().members(1).start().unwrap();
    assert_eq!(zookeeper.leader().unwrap(), 0);
    create(&zookeeper, 0, "/k");
    zookeeper.members[0].restart(true).unwrap();
    zookeeper.wait_until_whole().unwrap();
    assert!(has(&zookeeper, "/k"));
    zookeeper.members[0].restart(false).unwrap();
    zookeeper.wait_until_whole().unwrap();
    assert!(!has(&zookeeper, "/k"));
}

#[test]
fn an_observer_follows_and_has_no_vote() {
    let mut zookeeper = ZooKeeper::options().observers(1).start().unwrap();
    assert_eq!(zookeeper.members.len(), 4);
    assert!(zookeeper.members[3].is_observer());
    assert_eq!(zookeeper.members[3].mode().as_deref(), Some("observer"));
    create(&zookeeper, 3, "/k");
    all_have(&zookeeper, "/k");
    let others: Vec<usize> = (0..3).filter(|index| *index != zookeeper.leader().unwrap()).collect();
    for index in others {
        zookeeper.members[index].kill();
    }
    wait_for(|| zookeeper.leader().is_err().then_some(()));
}

#[test]
fn tls_is_spoken_with_a_certificate_of_its_authority() {
    for wants_certificates in [false, true] {
        let options = ZooKeeper::options().members(1);
        let options =
            if wants_certificates { options.tls_with_client_certificates() } else { options.tls() };
        let zookeeper = options.start().unwrap();
        let handshake = |with_certificate: bool| {
            let mut client = Command::new("openssl");
            client.args(["s_client", "-verify_return_error", "-tls1_2", "-connect"]);
            client.arg(zookeeper.members[0].address().to_string());
            client.arg("-CAfile").arg(zookeeper.authority());
            if with_certificate {
                let (certificate, key) = zookeeper.client_certificate();
                client.arg("-cert").arg(certificate).arg("-key").arg(key);
            }
            client.stdin(std::process::Stdio::null()).output().unwrap()
        };
        let known = handshake(true);
        assert!(known.status.success(), "{known:?}");
        let unknown = handshake(false);
        assert_eq!(unknown.status.success(), !wants_certificates, "{unknown:?}");
    }
}

#[test]
fn sessions_have_the_lengths_that_were_asked_for() {
    let (shortest, longest) = (Duration::from_secs(3), Duration::from_secs(7));
    let options = ZooKeeper::options().members(1).tick(Duration::from_millis(500));
    let zookeeper = options.sessions(shortest, longest).start().unwrap();
    let settings = zookeeper.four_letter(0, "conf").unwrap();
    for line in ["tickTime=500", "minSessionTimeout=3000", "maxSessionTimeout=7000"] {
        assert!(settings.lines().any(|found| found == line), "{line} in {settings}");
    }
}

/// A helper process: `they_are_gone_when_the_test_process_is_killed` starts and kills it.
#[test]
fn helper_that_starts_an_ensemble_and_waits() {
    if !is_helper() {
        return;
    }
    let zookeeper = std::thread::spawn(|| ZooKeeper::start().unwrap()).join().unwrap();
    let pids: Vec<u32> = zookeeper.members.iter().map(|member| member.process().pid()).collect();
    tell_and_wait(&pids);
}

#[test]
fn they_are_gone_when_the_test_process_is_killed() {
    assert_gone_with_the_process_of("helper_that_starts_an_ensemble_and_waits");
}
