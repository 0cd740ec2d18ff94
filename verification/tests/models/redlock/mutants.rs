//! Mutants: protocols without one of the rules. Almost all break a promise. The documentation page
//! must have each broken promise's shortest trace.

use lockwright_verification::Protocol;

use super::model::Redlock;
use super::rules::{Bounds, Missing, Promise};
use super::story;
use crate::{has_refutation, traces};

fn refuted(title: &str, without: Missing, bounds: Bounds) {
    refuted_as(title, without, bounds, |_| true);
}

fn refuted_as(title: &str, without: Missing, bounds: Bounds, wanted: impl Fn(Promise) -> bool) {
    crate::refuted_as(title, &Redlock::<3> { without, bounds }, wanted);
}

fn holds(title: &str, without: Missing, bounds: Bounds) {
    crate::explored(title, &Redlock::<3> { without, bounds });
}

const ALL_RULES: fn() -> Missing = Missing::default;

fn two() -> Bounds {
    Bounds { rounds: 2, ..Bounds::default() }
}

fn three() -> Bounds {
    Bounds::default()
}

fn one_loss(bounds: Bounds) -> Bounds {
    Bounds { losses: 1, ..bounds }
}

refuted! {
    no_write_back: "No write-back", Missing { write_back: true, ..ALL_RULES() }, three();
    write_back_without_the_token_check: "Write-back without the token check",
        Missing { raise_checks_token: true, writes_to_voters: true, ..ALL_RULES() }, three();
    late_attempts_are_not_abandoned: "A late round isn't abandoned",
        Missing { abandons_late: true, ..ALL_RULES() }, two();
    a_deadline_anchored_at_the_reply: "A deadline anchored at the reply",
        Missing { anchored_at_start: true, ..ALL_RULES() }, two();
    half_of_the_nodes_for_a_quorum: "A quorum of N/2",
        Missing { majority: true, ..ALL_RULES() }, two();
    restarted_empty_without_quarantine: "Restarted empty, without quarantine",
        Missing { quarantine: true, ..ALL_RULES() }, one_loss(two());
    quarantine_without_the_incarnation: "Quarantine, but the incarnation isn't compared",
        Missing { compares_incarnation: true, ..ALL_RULES() }, one_loss(two());
    a_candidate_from_before_the_look: "A candidate from before the check",
        Missing { looks_before_candidate: true, ..ALL_RULES() }, one_loss(two());
    clocks_a_largest_ttl_apart: "Clients' clocks a largest TTL apart",
        Missing { clocks_are_near: true, ..ALL_RULES() }, one_loss(two());
    a_renewal_that_revives: "A renewal that revives",
        Missing { tops_up_after_quorum: true, renewal_ends_with_validity: true, ..ALL_RULES() },
        Bounds { renewals: true, ..three() };
    a_renewal_answered_after_the_deadline: "A renewal answered after the deadline",
        Missing { renewal_ends_with_validity: true, ..ALL_RULES() },
        Bounds { renewals: true, ..three() };
    a_release_that_does_not_compare_the_token: "A release that doesn't compare the token",
        Missing { release_checks_token: true, ..ALL_RULES() },
        Bounds { candidates: 1, releases: true, ..three() };
    asked_again_while_a_release_is_on_its_way: "Requested again while a release is in flight",
        Missing { release_before_repeat: true, ..ALL_RULES() },
        Bounds { releases: true, repeats: true, claims: 2, candidates: 1, ..three() };
    a_release_without_a_tombstone: "A release without a tombstone",
        Missing { tombstones: true, ..ALL_RULES() }, Bounds { releases: true, ..two() };
    a_clock_that_jumps: "A node's clock jumps forward", ALL_RULES(), Bounds { jumps: 1, ..two() };
}

#[test]
fn write_back_to_all_with_the_token_check() {
    let without = Missing { writes_to_voters: true, ..ALL_RULES() };
    holds("with the check it may go to all", without, Bounds { candidates: 1, ..three() });
}

#[test]
fn late_attempts_break_the_fence_even_without_validity() {
    let without = Missing { abandons_late: true, ..ALL_RULES() };
    let fences = |promise| matches!(promise, Promise::FencesDiffer | Promise::FencesGrow);
    refuted_as("A late round isn't abandoned, and the fence", without, two(), fences);
}

#[test]
fn a_clock_that_jumps_and_the_fence() {
    let bounds = Bounds { jumps: 1, candidates: 1, ..three() };
    let differ = |promise| promise == Promise::FencesDiffer;
    refuted_as("A node's clock jumps forward, and the fence", ALL_RULES(), bounds, differ);
}

const LATE_NOTE: &str = "Requested again while a request is unanswered";

fn late_note() -> Redlock<3> {
    let without = Missing { answer_before_repeat: true, ..ALL_RULES() };
    let bounds = Bounds { rounds: 4, claims: 2, candidates: 1, repeats: true, ..three() };
    Redlock { without, bounds }
}

/// The search takes too long for a usual test run, so this test follows the page's trace.
#[test]
fn asked_again_while_a_request_is_unanswered() {
    let trace = traces::<Redlock<3>>().trace_of(LATE_NOTE);
    let broken = walk(&late_note(), &trace).unwrap().expect("a promise is broken");
    has_refutation::<Redlock<3>>(LATE_NOTE, broken, &trace);
    for without in [ALL_RULES(), Missing { note_replaces: true, ..late_note().without }] {
        let mended = Redlock { without, ..late_note() };
        assert!(walk(&mended, &trace).is_err(), "with either rule, this trace is impossible");
    }
}

#[test]
#[ignore = "takes a minute: cargo test --release -p lockwright-verification --test models -- --ignored"]
fn asked_again_by_the_shortest_way() {
    let Redlock { without, bounds } = late_note();
    refuted(LATE_NOTE, without, bounds);
}

/// Follows a trace. Returns the promise that its last step breaks.
fn walk(protocol: &Redlock<3>, trace: &str) -> Result<Option<Promise>, String> {
    let mut state = protocol.initial();
    let mut broken = None;
    let mut steps = Vec::new();
    for line in trace.lines() {
        steps.clear();
        protocol.steps(&state, &mut steps);
        let (_, wanted) = line.split_once(". ").expect("steps are numbered");
        let found = steps.iter().find(|step| {
            let mut text = String::new();
            story::tell(&state, step.action, &step.next, &mut text);
            text == wanted
        });
        let step = found.ok_or_else(|| format!("no such step: {line}"))?;
        state = step.next;
        broken = step.broken;
    }
    Ok(broken)
}

/// This mutant breaks no promise. A renewal may count nodes that lost the token and acquired it
/// again, as long as the hold is still valid.
#[test]
fn topping_up_to_a_quorum_is_safe_as_long_as_validity_lasts() {
    let without = Missing { tops_up_after_quorum: true, ..ALL_RULES() };
    let bounds = Bounds { renewals: true, losses: 1, candidates: 1, ..three() };
    holds("the page must describe this result", without, bounds);
}
