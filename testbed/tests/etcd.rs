//! The etcd clusters of the testbed do what they say.

use std::time::{Duration, Instant};

use lockwright_testbed::etcd::Version;
use lockwright_testbed::{Etcd, wait};

mod support;
use support::{assert_gone_with_the_process_of, is_helper, tell_and_wait};

/// With a limit that fits a member which can't decide anything.
fn put(etcd: &Etcd, member: usize, key: &str, value: &str) -> bool {
    etcd.members[member].ctl(&["--command-timeout=2s", "put", key, value]).is_ok()
}

/// What a majority agrees on, if there is one.
fn get(etcd: &Etcd, member: usize, key: &str) -> Option<String> {
    let answer = etcd.members[member].ctl(&["--command-timeout=2s", "get", "-w=fields", key]);
    answer.ok().map(|answer| {
        let value = answer.lines().find_map(|line| line.strip_prefix("\"Value\" : "));
        value.unwrap_or_default().trim_matches('"').to_owned()
    })
}

/// A member that is whole again may still need a while for an answer.
fn all_have(etcd: &Etcd, key: &str, value: &str) {
    for member in 0..etcd.members.len() {
        let answer = wait::until(wait::LIMIT, || get(etcd, member, key));
        assert_eq!(answer.as_deref(), Some(value), "member {member}");
    }
}

#[test]
fn they_start_and_agree() {
    let start = Instant::now();
    let etcd = Etcd::start().unwrap();
    println!("started in {:?}", start.elapsed());
    let leader = etcd.leader().unwrap();
    assert_eq!(etcd.members.iter().filter(|member| member.is_leader()).count(), 1);
    assert!(etcd.members[leader].is_leader());
    assert!(put(&etcd, 0, "k", "v"));
    all_have(&etcd, "k", "v");
    assert_eq!(etcd.endpoints().len(), 3);
    assert_eq!(etcd.url(), format!("etcd:{}", etcd.endpoints().join(",")));
}

#[test]
fn one_alone_will_do() {
    let mut etcd = Etcd::options().members(1).start().unwrap();
    assert_eq!(etcd.leader().unwrap(), 0);
    assert!(put(&etcd, 0, "k", "v"));
    etcd.members[0].restart(true).unwrap();
    etcd.wait_until_whole().unwrap();
    all_have(&etcd, "k", "v");
    etcd.members[0].restart(false).unwrap();
    etcd.wait_until_whole().unwrap();
    all_have(&etcd, "k", "");
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back() {
    let mut etcd = Etcd::start().unwrap();
    let old = etcd.leader().unwrap();
    etcd.members[old].kill();
    let new = etcd.wait_for_another_leader(old).unwrap();
    assert!(put(&etcd, new, "k", "v"));
    etcd.members[old].restart(true).unwrap();
    etcd.wait_until_whole().unwrap();
    all_have(&etcd, "k", "v");
}

#[test]
fn a_frozen_leader_is_replaced_and_follows() {
    let etcd = Etcd::start().unwrap();
    let old = etcd.leader().unwrap();
    etcd.members[old].freeze();
    let new = etcd.wait_for_another_leader(old).unwrap();
    assert!(put(&etcd, new, "k", "v"));
    etcd.members[old].thaw();
    etcd.wait_until_whole().unwrap();
    all_have(&etcd, "k", "v");
}

#[test]
fn a_leader_that_is_cut_off_decides_nothing() {
    for version in [Version::Debian, Version::Current] {
        let etcd = Etcd::options().version(version).start().unwrap();
        let old = etcd.leader().unwrap();
        assert!(put(&etcd, old, "k", "before"));
        etcd.isolate(old);
        assert!(!put(&etcd, old, "k", "lost"), "{version:?}: it has no majority");
        let new = etcd.wait_for_another_leader(old).unwrap();
        assert!(put(&etcd, new, "k", "after"));
        let steps_down =
            wait::until(wait::LIMIT, || (!etcd.members[old].is_leader()).then_some(()));
        assert!(steps_down.is_some(), "{version:?}");
        assert_eq!(
            get(&etcd, old, "k"),
            None,
            "{version:?}: its clients reach it, and it knows nothing"
        );
        etcd.heal(old);
        etcd.wait_until_whole().unwrap();
        all_have(&etcd, "k", "after");
    }
}

#[test]
fn a_follower_that_is_cut_off_knows_nothing() {
    let etcd = Etcd::start().unwrap();
    let leader = etcd.leader().unwrap();
    let follower = (leader + 1) % 3;
    assert!(put(&etcd, follower, "k", "before"));
    etcd.isolate(follower);
    assert_eq!(get(&etcd, follower, "k"), None);
    assert!(!put(&etcd, follower, "k", "lost"));
    let old = etcd.members[follower].ctl(&["get", "--consistency=s", "k"]).unwrap();
    assert!(old.contains("before"), "its clients reach it: {old}");
    assert!(put(&etcd, leader, "k", "after"), "the others go on");
    etcd.heal(follower);
    etcd.wait_until_whole().unwrap();
    all_have(&etcd, "k", "after");
}

#[test]
fn a_short_cut_loses_nothing() {
    let etcd = Etcd::start().unwrap();
    let follower = (etcd.leader().unwrap() + 1) % 3;
    etcd.isolate(follower);
    std::thread::sleep(Duration::from_millis(200));
    etcd.heal(follower);
    etcd.wait_until_whole().unwrap();
    assert!(put(&etcd, follower, "k", "v"));
    all_have(&etcd, "k", "v");
}

#[test]
fn a_majority_is_restarted() {
    let mut etcd = Etcd::start().unwrap();
    assert!(put(&etcd, 0, "k", "v"));
    etcd.members[0].kill();
    etcd.members[1].kill();
    assert_eq!(get(&etcd, 2, "k"), None, "one of three is no majority");
    assert!(etcd.leader().is_err());
    etcd.members[0].restart(true).unwrap();
    etcd.members[1].restart(true).unwrap();
    etcd.wait_until_whole().unwrap();
    all_have(&etcd, "k", "v");
    etcd.restart(true).unwrap();
    all_have(&etcd, "k", "v");
    etcd.restart(false).unwrap();
    all_have(&etcd, "k", "");
}

#[test]
fn a_member_that_lost_its_data_learns_them_again() {
    let mut etcd = Etcd::start().unwrap();
    assert!(put(&etcd, 0, "k", "v"));
    etcd.members[1].restart(false).unwrap();
    etcd.wait_until_whole().unwrap();
    all_have(&etcd, "k", "v");
    etcd.isolate(1);
    assert_eq!(get(&etcd, 1, "k"), None, "it can be cut off again");
    etcd.heal(1);
    etcd.wait_until_whole().unwrap();
}

#[test]
fn a_learner_learns_and_decides_nothing() {
    let mut etcd = Etcd::start().unwrap();
    assert!(put(&etcd, 0, "k", "v"));
    let learner = etcd.add_learner().unwrap();
    assert!(etcd.members[learner].is_learner());
    assert_eq!(etcd.url().matches("http://").count(), 4);
    let refused = etcd.members[learner].ctl(&["get", "k"]).unwrap_err();
    assert!(refused.to_string().contains("learner"), "{refused}");
    etcd.members[learner].restart(true).unwrap();
    etcd.wait_until_whole().unwrap();
    etcd.members[learner].restart(false).unwrap();
    etcd.wait_until_whole().unwrap();
    assert!(etcd.restart(false).is_err());
}

#[test]
fn a_snapshot_is_restored() {
    for version in [Version::Debian, Version::Current] {
        let mut etcd = Etcd::options().version(version).start().unwrap();
        assert!(put(&etcd, 0, "k", "before"));
        let snapshot = etcd.snapshot().unwrap();
        assert!(put(&etcd, 0, "k", "after"));
        etcd.restore(&snapshot).unwrap();
        all_have(&etcd, "k", "before");
    }
}

#[test]
fn tls_and_users() {
    for version in [Version::Debian, Version::Current] {
        let options = Etcd::options().version(version).members(1);
        let mut etcd =
            options.tls_with_client_certificates().user("app", "p@ss", "locks/").start().unwrap();
        let url = etcd.url();
        assert!(url.starts_with("etcd:https://app:p%40ss@127.0.0.1:"), "{url}");
        for _ in 0..2 {
            assert!(put(&etcd, 0, "anywhere", "v"));
            let as_app = ["--user=app:p@ss", "put", "locks/x", "v"];
            etcd.members[0].ctl(&as_app).unwrap();
            let denied = etcd.members[0].ctl(&["--user=app:p@ss", "put", "other", "v"]);
            assert!(denied.unwrap_err().to_string().contains("permission denied"));
            etcd.members[0].restart(true).unwrap();
            etcd.wait_until_whole().unwrap();
        }
    }
}

#[test]
fn a_current_one_starts() {
    let start = Instant::now();
    let etcd = Etcd::options().version(Version::Current).start().unwrap();
    println!("started in {:?}", start.elapsed());
    let status = etcd.ctl(&["endpoint", "status"]).unwrap();
    assert!(status.lines().all(|line| line.contains(" 3.6.")), "{status}");
    let debian = Etcd::options().members(1).start().unwrap();
    let status = debian.ctl(&["endpoint", "status"]).unwrap();
    assert!(!status.contains(" 3.6."), "{status}");
}

/// Not a test of its own: what `they_are_gone_when_the_test_process_is_killed` starts and kills.
#[test]
fn helper_that_starts_a_cluster_and_waits() {
    if !is_helper() {
        return;
    }
    let etcd = std::thread::spawn(|| Etcd::start().unwrap()).join().unwrap();
    let pids: Vec<u32> = etcd.members.iter().map(|member| member.process().pid()).collect();
    tell_and_wait(&pids);
}

#[test]
fn they_are_gone_when_the_test_process_is_killed() {
    assert_gone_with_the_process_of("helper_that_starts_a_cluster_and_waits");
}
