//! Tests of the etcd clusters.

use std::time::Instant;

use lockwright_testbed::etcd::Version;
use lockwright_testbed::{Etcd, wait};

mod support;
use support::{assert_gone_with_the_process_of, is_helper, tell_and_wait};

/// Writes with a time limit that suits a member without a majority.
fn put(etcd: &Etcd, member: usize, key: &str, value: &str) -> bool {
    etcd.members[member].ctl(&["--command-timeout=2s", "put", key, value]).is_ok()
}

/// Reads through a majority, if there is one.
fn get(etcd: &Etcd, member: usize, key: &str) -> Option<String> {
    let answer = etcd.members[member].ctl(&["--command-timeout=2s", "get", "-w=fields", key]);
    answer.ok().map(|answer| {
        let value = answer.lines().find_map(|line| line.strip_prefix("\"Value\" : "));
        value.unwrap_or_default().trim_matches('"').to_owned()
    })
}

/// Retries, as a member that has just rejoined may not answer at once.
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

/// A helper process: `they_are_gone_when_the_test_process_is_killed` starts and kills it.
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
