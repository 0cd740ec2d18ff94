//! A Sentinel set starts complete, fails over, and ends with its value.

use std::time::Duration;

use lockwright_testbed::{Redis, Sentinels, wait};

mod support;
use support::assert_gone;

fn role(server: &Redis) -> String {
    let answer: Vec<redis::Value> = server.command(&["ROLE"]).unwrap();
    redis::from_redis_value_ref(&answer[0]).unwrap()
}

fn get(server: &Redis, key: &str) -> Option<String> {
    server.command(&["GET", key]).unwrap()
}

fn wait_for(server: &Redis, key: &str, value: &str) {
    let has_come =
        wait::until(wait::LIMIT, || (get(server, key).as_deref() == Some(value)).then_some(()));
    assert!(has_come.is_some(), "{key} is replicated");
}

#[test]
fn it_is_whole_when_started_and_gone_when_dropped() {
    let set = Sentinels::start().unwrap();
    assert_eq!((set.servers.len(), set.sentinels.len()), (2, 3));
    assert_eq!(set.master().unwrap(), 0);
    assert_eq!(
        (role(&set.servers[0]).as_str(), role(&set.servers[1]).as_str()),
        ("master", "slave")
    );
    let ports: Vec<_> = set.sentinels.iter().map(|one| one.port().to_string()).collect();
    let [a, b, c] = &ports[..] else { panic!("{ports:?}") };
    let url = format!("redis+sentinel://127.0.0.1:{a},127.0.0.1:{b},127.0.0.1:{c}/lockwright");
    assert_eq!(set.url(), url);
    for one in &set.sentinels {
        let usable: String = one.command(&["SENTINEL", "CKQUORUM", set.master_name()]).unwrap();
        assert!(usable.starts_with("OK 3 usable"), "{usable}");
    }
    let servers = set.servers.iter().map(|server| server.process().pid());
    let pids: Vec<_> = servers.chain(set.sentinels.iter().map(|one| one.process().pid())).collect();
    drop(set);
    pids.into_iter().for_each(assert_gone);
}

#[test]
fn a_replica_takes_over_from_a_killed_master_which_comes_back_as_a_replica() {
    let options = Redis::options().append_only("always");
    let mut set = Sentinels::options().servers(options).start().unwrap();
    set.servers[0].command::<()>(&["SET", "k", "v"]).unwrap();
    wait_for(&set.servers[1], "k", "v");
    set.servers[0].kill();
    assert_eq!(set.wait_for_failover(0).unwrap(), 1);
    assert_eq!(role(&set.servers[1]), "master");
    set.servers[1].command::<()>(&["SET", "k", "w"]).unwrap();

    set.servers[0].restart(true).unwrap();
    assert_eq!(get(&set.servers[0], "k").as_deref(), Some("v"), "it has its data");
    set.wait_until_whole().unwrap();
    assert_eq!(set.master().unwrap(), 1);
    assert_eq!(role(&set.servers[0]), "slave");
    wait_for(&set.servers[0], "k", "w");

    // It keeps its role after a restart.
    set.servers[0].restart(true).unwrap();
    assert_eq!(role(&set.servers[0]), "slave");
    set.wait_until_whole().unwrap();
    set.servers[1].kill();
    assert_eq!(set.wait_for_failover(1).unwrap(), 0, "and back");
}

#[test]
fn a_master_that_lost_its_data_is_still_the_master() {
    let options = Redis::options().append_only("always");
    let patient = Sentinels::options().servers(options).down_after(Duration::from_secs(60));
    let mut set = patient.start().unwrap();
    set.servers[0].command::<()>(&["SET", "k", "v"]).unwrap();
    set.servers[0].restart(false).unwrap();
    assert_eq!(get(&set.servers[0], "k"), None);
    assert_eq!(role(&set.servers[0]), "master");
    set.wait_until_whole().unwrap();
    assert_eq!(get(&set.servers[1], "k"), None, "its replica follows");
}

#[test]
fn a_frozen_master_is_replaced_and_makes_way_when_it_thaws() {
    let set = Sentinels::options().replicas(2).start().unwrap();
    set.servers[0].freeze();
    let master = set.wait_for_failover(0).unwrap();
    assert_ne!(master, 0);
    set.servers[0].thaw();
    set.wait_until_whole().unwrap();
    assert_eq!(role(&set.servers[0]), "slave");
}

#[test]
fn two_sentinels_will_do_and_one_will_not() {
    let mut set = Sentinels::start().unwrap();
    set.sentinels[0].freeze();
    set.servers[0].kill();
    assert_eq!(set.wait_for_failover(0).unwrap(), 1);
    set.sentinels[1].kill();
    assert!(set.master().is_err(), "one alone can't say");
    set.sentinels[0].thaw();
    set.sentinels[1].restart().unwrap();
    set.servers[0].restart(true).unwrap();
    set.wait_until_whole().unwrap();
    assert_eq!(set.master().unwrap(), 1);
}

#[test]
fn with_tls_users_and_a_password_of_the_sentinels() {
    let options = Redis::options().tls().user("app", "p@ss", "~* &* +@all").without_default_user();
    let mut set = Sentinels::options().servers(options).sentinel_password("hush").start().unwrap();
    assert!(set.url().starts_with("rediss+sentinel://app:p%40ss@127.0.0.1:"), "{}", set.url());
    assert_eq!(set.servers[0].authority(), set.servers[1].authority());
    set.servers[0].kill();
    assert_eq!(set.wait_for_failover(0).unwrap(), 1);
    set.servers[0].restart(true).unwrap();
    set.wait_until_whole().unwrap();
}
