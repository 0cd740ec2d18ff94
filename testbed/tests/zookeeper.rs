//! The ZooKeeper ensembles of the testbed do what they say.

use std::process::Command;
use std::time::{Duration, Instant};

use lockwright_testbed::{ZooKeeper, wait};

mod support;
use support::{assert_gone_with_the_process_of, is_helper, tell_and_wait};

fn create(zookeeper: &ZooKeeper, member: usize, path: &str) {
    zookeeper.members[member].cli(&["create", path, "value"]).unwrap();
}

/// Through each member.
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

fn follower(zookeeper: &ZooKeeper) -> usize {
    (zookeeper.leader().unwrap() + 1) % 3
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
fn a_leader_that_is_cut_off_steps_down() {
    let zookeeper = ZooKeeper::start().unwrap();
    let old = zookeeper.leader().unwrap();
    zookeeper.isolate(old);
    let new = zookeeper.wait_for_another_leader(old).unwrap();
    assert_ne!(old, new);
    // It serves nobody.
    wait_for(|| zookeeper.members[old].mode().is_none().then_some(()));
    create(&zookeeper, new, "/k");
    assert!(zookeeper.four_letter(old, "srvr").unwrap().contains("not currently serving"));
    zookeeper.heal(old);
    zookeeper.wait_until_whole().unwrap();
    all_have(&zookeeper, "/k");
}

#[test]
fn a_follower_that_is_cut_off_answers_without_knowing_anything() {
    let zookeeper = ZooKeeper::options().sync_limit(50).start().unwrap();
    let (leader, follower) = (zookeeper.leader().unwrap(), follower(&zookeeper));
    let member = &zookeeper.members[follower];
    // On a machine so busy that it finds out before all is looked at, once more.
    let looked_at_in_time = (0..5).any(|attempt| {
        zookeeper.isolate(follower);
        let before = member.zxid().unwrap();
        create(&zookeeper, leader, &format!("/k{attempt}"));
        let (after, ruok) = (member.zxid(), member.four_letter("ruok"));
        let others = zookeeper.members[leader].zxid();
        let doesnt_know_yet = member.mode().as_deref() == Some("follower");
        if doesnt_know_yet {
            assert_eq!(ruok.unwrap(), "imok");
            assert_eq!(after.unwrap(), before, "what the others decided didn't reach it");
            assert!(others.unwrap() > before);
        } else {
            zookeeper.heal(follower);
            zookeeper.wait_until_whole().unwrap();
        }
        doesnt_know_yet
    });
    assert!(looked_at_in_time);
    // It finds out, after 50 ticks.
    wait_for(|| member.mode().is_none().then_some(()));
    assert_eq!(zookeeper.leader().unwrap(), leader, "the others go on");
    zookeeper.heal(follower);
    zookeeper.wait_until_whole().unwrap();
    all_have(&zookeeper, "/k0");
}

#[test]
fn a_short_cut_loses_nothing() {
    let zookeeper = ZooKeeper::start().unwrap();
    let (leader, follower) = (zookeeper.leader().unwrap(), follower(&zookeeper));
    zookeeper.isolate(follower);
    create(&zookeeper, leader, "/k");
    zookeeper.heal(follower);
    zookeeper.wait_until_whole().unwrap();
    all_have(&zookeeper, "/k");
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back() {
    let mut zookeeper = ZooKeeper::start().unwrap();
    let old = zookeeper.leader().unwrap();
    zookeeper.members[old].kill();
    let new = zookeeper.wait_for_another_leader(old).unwrap();
    create(&zookeeper, new, "/k");
    zookeeper.members[old].restart(true).unwrap();
    zookeeper.wait_until_whole().unwrap();
    all_have(&zookeeper, "/k");
}

#[test]
fn a_frozen_leader_is_replaced_and_follows() {
    let zookeeper = ZooKeeper::start().unwrap();
    let old = zookeeper.leader().unwrap();
    zookeeper.members[old].freeze();
    let new = zookeeper.wait_for_another_leader(old).unwrap();
    create(&zookeeper, new, "/k");
    zookeeper.members[old].thaw();
    zookeeper.wait_until_whole().unwrap();
    all_have(&zookeeper, "/k");
}

#[test]
fn a_majority_is_restarted_and_data_are_kept_or_forgotten() {
    let mut zookeeper = ZooKeeper::start().unwrap();
    create(&zookeeper, 0, "/k");
    zookeeper.members[0].kill();
    zookeeper.members[1].kill();
    // One of three is no majority.
    wait_for(|| zookeeper.leader().is_err().then_some(()));
    zookeeper.members[0].restart(true).unwrap();
    zookeeper.members[1].restart(false).unwrap();
    zookeeper.wait_until_whole().unwrap();
    all_have(&zookeeper, "/k");
    zookeeper.restart(true).unwrap();
    all_have(&zookeeper, "/k");
    zookeeper.restart(false).unwrap();
    assert!(!has(&zookeeper, "/k"));
}

#[test]
fn a_snapshot_is_restored() {
    let mut zookeeper = ZooKeeper::start().unwrap();
    create(&zookeeper, 0, "/before");
    let snapshot = zookeeper.snapshot().unwrap();
    create(&zookeeper, 0, "/after");
    zookeeper.restore(&snapshot).unwrap();
    all_have(&zookeeper, "/before");
    assert!(!has(&zookeeper, "/after"));
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

/// Not a test of its own: what `they_are_gone_when_the_test_process_is_killed` starts and kills.
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
