//! A Cluster starts complete, fails over, reshards, and ends with its value.

use lockwright_testbed::{Cluster, Redis, wait};

mod support;
use support::assert_gone;

fn get(node: &Redis, key: &str) -> lockwright_testbed::Result<Option<String>> {
    node.command(&["GET", key])
}

fn set(node: &Redis, key: &str, value: &str) {
    node.command::<()>(&["SET", key, value]).unwrap();
}

/// Returns whether the answer redirects the client.
fn redirects(answer: lockwright_testbed::Result<Option<String>>, how: &str) -> bool {
    answer.is_err_and(|error| error.to_string().contains(how))
}

#[test]
fn it_is_whole_when_started_and_gone_when_dropped() {
    let cluster = Cluster::start().unwrap();
    let ports: Vec<_> =
        cluster.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    assert_eq!(cluster.url(), format!("redis+cluster://{}", ports.join(",")));
    assert_eq!(ports.len(), 6);
    // Their slots are 15495, 3300, 7365.
    for (key, master) in [("a", 2), ("b", 0), ("c", 1)] {
        assert_eq!(cluster.master_of(key).unwrap(), master, "{key}");
        assert_eq!(cluster.replica_of(master).unwrap(), master + 3);
        set(&cluster.nodes[master], key, "v");
        assert_eq!(get(&cluster.nodes[master], key).unwrap().as_deref(), Some("v"));
        assert!(redirects(get(&cluster.nodes[(master + 1) % 3], key), "Moved"));
    }
    assert_eq!(cluster.slot_of("a").unwrap(), 15_495);
    let pids: Vec<_> = cluster.nodes.iter().map(|node| node.process().pid()).collect();
    drop(cluster);
    pids.into_iter().for_each(assert_gone);
}

#[test]
fn a_replica_takes_over_from_a_killed_master_which_comes_back_as_a_replica() {
    let options = Redis::options().append_only("always");
    let mut cluster = Cluster::options().servers(options).start().unwrap();
    set(&cluster.nodes[2], "a", "v");
    let has_come = wait::until(wait::LIMIT, || {
        let size: u32 = cluster.nodes[5].command(&["DBSIZE"]).unwrap();
        (size == 1).then_some(())
    });
    assert!(has_come.is_some(), "it is replicated");
    cluster.nodes[2].kill();
    assert_eq!(cluster.wait_for_failover("a", 2).unwrap(), 5);
    assert_eq!(cluster.master_of("a").unwrap(), 5);
    assert_eq!(get(&cluster.nodes[5], "a").unwrap().as_deref(), Some("v"));

    cluster.nodes[2].restart(false).unwrap();
    cluster.wait_until_whole().unwrap();
    assert_eq!(cluster.replica_of(5).unwrap(), 2, "it knows the others, though its data are gone");
    cluster.nodes[5].kill();
    assert_eq!(cluster.wait_for_failover("a", 5).unwrap(), 2, "and back");
    assert_eq!(get(&cluster.nodes[2], "a").unwrap().as_deref(), Some("v"));
}

#[test]
fn a_frozen_master_is_replaced_and_makes_way_when_it_thaws() {
    let cluster = Cluster::start().unwrap();
    cluster.nodes[0].freeze();
    assert_eq!(cluster.wait_for_failover("b", 0).unwrap(), 3);
    cluster.nodes[0].thaw();
    cluster.wait_until_whole().unwrap();
    assert_eq!(cluster.replica_of(3).unwrap(), 0);
}

#[test]
fn a_master_that_restarts_quickly_is_still_the_master_and_empty() {
    let mut cluster = Cluster::start().unwrap();
    set(&cluster.nodes[0], "b", "v");
    cluster.nodes[0].kill();
    cluster.nodes[0].restart(false).unwrap();
    cluster.wait_until_whole().unwrap();
    assert_eq!(cluster.master_of("b").unwrap(), 0);
    assert_eq!(get(&cluster.nodes[0], "b").unwrap(), None);
}

#[test]
fn a_slot_moves_with_its_keys() {
    let cluster = Cluster::start().unwrap();
    set(&cluster.nodes[2], "a", "v");
    set(&cluster.nodes[2], "{a}:x", "w");
    let slot = cluster.begin_move("a", 0).unwrap();
    let (old, new) = (&cluster.nodes[2], &cluster.nodes[0]);
    assert_eq!(get(old, "a").unwrap().as_deref(), Some("v"), "what is there is answered");
    assert!(redirects(get(old, "{a}:new"), "Ask"), "what isn't is asked for elsewhere");
    assert_eq!(cluster.move_keys(&slot).unwrap(), 2);
    assert!(redirects(get(old, "a"), "Ask"));
    assert!(redirects(get(new, "a"), "Moved"), "it isn't the new master's yet");
    assert_eq!(cluster.master_of("a").unwrap(), 2);
    cluster.finish_move(slot).unwrap();
    assert!(redirects(get(old, "a"), "Moved"));
    assert_eq!(get(new, "a").unwrap().as_deref(), Some("v"));
    assert_eq!(cluster.master_of("a").unwrap(), 0);
    cluster.wait_until_whole().unwrap();

    let next = cluster.move_slot("a").unwrap();
    assert_ne!(next, 0);
    assert_eq!(get(&cluster.nodes[next], "{a}:x").unwrap().as_deref(), Some("w"));
}

#[test]
fn with_tls_and_users() {
    let options = Redis::options().tls().user("app", "hush", "~* &* +@all").without_default_user();
    let mut cluster = Cluster::options().servers(options).start().unwrap();
    assert!(cluster.url().starts_with("rediss+cluster://app:hush@127.0.0.1:"));
    set(&cluster.nodes[2], "a", "v");
    let to = cluster.move_slot("a").unwrap();
    assert_eq!(get(&cluster.nodes[to], "a").unwrap().as_deref(), Some("v"));
    let replica = cluster.replica_of(to).unwrap();
    cluster.nodes[to].kill();
    assert_eq!(cluster.wait_for_failover("a", to).unwrap(), replica);
}
