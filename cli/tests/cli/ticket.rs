//! `acquire`, `renew` and `release`.

use lockwright_testbed::postgres::Postgres;
use lockwright_testbed::redis::Redis;
use serde_json::Value;

use crate::harness::{Finished, Sandbox, UNTIL_DONE, wait_until};

fn acquired(sandbox: &Sandbox, ttl: &str) -> (Value, String) {
    let document = sandbox.output(["acquire", "--json", "--ttl", ttl, "a"]).exits(0).json();
    let ticket = document["ticket"].as_str().unwrap().to_owned();
    (document, ticket)
}

fn from_stdin(sandbox: &Sandbox, command: &str, ticket: &str) -> Finished {
    let script = format!("echo {ticket} | \"$0\" {command} -");
    sandbox.finish(&mut sandbox.shell(&script))
}

#[test]
fn ticket_keeps_the_lock_without_a_process() {
    let sandbox = Sandbox::new();
    let ticket = sandbox.output(["acquire", "--ttl", "60s", "a"]).exits(0).stdout();
    let ticket = ticket.strip_suffix('\n').unwrap();
    assert!(ticket.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{ticket:?} is one word");
    sandbox.wait_until_empty();
    sandbox.output(["acquire", "-n", "-E", "9", "--ttl", "60s", "a"]).exits(9);
    assert_eq!(sandbox.output(["renew", ticket]).exits(0).stdout(), "");
    from_stdin(&sandbox, "renew", ticket).exits(0);
    sandbox.output(["run", "-n", "a", "--", "true"]).exits(1);
    from_stdin(&sandbox, "release", ticket).exits(0);
    sandbox.assert_free("a");
    sandbox.output(["release", ticket]).exits(75);
    sandbox.output(["renew", ticket]).exits(75).says("no longer exists");
}

#[test]
fn document_has_the_fence_of_the_hold() {
    let sandbox = Sandbox::new();
    let (document, ticket) = acquired(&sandbox, "60s");
    assert_eq!((&document["name"], &document["ttl_ms"]), (&"a".into(), &60_000.into()));
    sandbox.output(["renew", &ticket]).exits(0);
    let shown = sandbox.output(["show", "--json", "a"]).json();
    assert_eq!(shown["holders"][0]["fence"], document["fence"]);
    sandbox.output(["release", &ticket]).exits(0);
    let (next, _) = acquired(&sandbox, "60s");
    assert!(next["fence"].as_u64() > document["fence"].as_u64(), "{next}");
}

#[test]
fn renewal_restarts_the_ttl_and_ends_with_the_hold() {
    let sandbox = Sandbox::new();
    let (_, ticket) = acquired(&sandbox, "10s");
    let left = || {
        let shown = sandbox.output(["show", "--json", "a"]).json();
        shown["holders"][0]["remaining_ms"].as_u64().unwrap_or(0)
    };
    wait_until("a tenth of the TTL passes", || left() < 9_000);
    sandbox.output(["renew", &ticket]).exits(0);
    let renewed = left();
    assert!(renewed > 9_000, "late: {renewed} ms are left");
    sandbox.output(["break", "--yes", "--now", "a"]).exits(0);
    sandbox.output(["renew", &ticket]).exits(75);
    sandbox.output(["release", &ticket]).exits(75);
}

/// Redis offers a lock to a waiter for 2 s.
#[test]
fn ticket_of_a_waiter_holds_for_its_ttl_on_redis() {
    let redis = Redis::start().unwrap();
    let sandbox = Sandbox::at(&redis.url());
    let held = sandbox.hold(&["a", "--", "sh", "-c", UNTIL_DONE]);
    let script = "\"$0\" --json acquire --ttl 60s a 2>events & \
                  until grep -q waiting events; do sleep 0.02; done; touch done; wait $!";
    sandbox.finish(&mut sandbox.shell(script)).exits(0);
    let shown = sandbox.output(["show", "--json", "a"]).json();
    let left = shown["holders"][0]["remaining_ms"].as_u64().unwrap_or(0);
    assert!(left > 3_000, "{shown}");
    sandbox.end(held);
}

#[test]
fn waiting_acquire_ends_by_a_signal_and_holds_nothing() {
    let sandbox = Sandbox::new();
    let held = sandbox.hold(&["a", "--", "sh", "-c", UNTIL_DONE]);
    let script = "\"$0\" --json acquire --ttl 60s a 2>events & \
                  until grep -q waiting events; do sleep 0.02; done; kill $!; wait $!";
    sandbox.finish(&mut sandbox.shell(script)).exits(143);
    sandbox.end(held);
    sandbox.assert_free("a");
}

#[test]
fn lock_is_free_if_its_ticket_cannot_be_written() {
    let sandbox = Sandbox::new();
    let script = "\"$0\" acquire --ttl 60s a >/dev/full";
    sandbox.finish(&mut sandbox.shell(script)).exits(71).says("the ticket could not be written");
    sandbox.assert_free("a");
}

#[test]
fn unusable_input_is_rejected() {
    let sandbox = Sandbox::new();
    sandbox.output(["acquire", "a"]).exits(64).says("--ttl");
    for text in ["", "x", "7b7d", "é7", "--"] {
        sandbox.output(["release", "--", text]).exits(64).says("not a ticket");
    }
    let (_, ticket) = acquired(&sandbox, "60s");
    sandbox.output(["renew", "--namespace", "shop/", &ticket]).exits(64).says("shop/");
    sandbox.output(["release", &ticket]).exits(0);
}

#[test]
fn backend_without_tickets_is_rejected_on_postgres() {
    let postgres = Postgres::start().unwrap();
    let sandbox = Sandbox::at(&format!("{}?mode=session", postgres.url()));
    sandbox.output(["acquire", "--ttl", "60s", "a"]).exits(78).says("lockwright run");
    assert_eq!(sandbox.output(["show", "--json", "a"]).json()["fence"], Value::Null);
}
