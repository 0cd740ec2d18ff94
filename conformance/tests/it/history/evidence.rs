use lockwright_core::Mode;

use super::{EXCLUSIVE, Script, Signal, held};
use lockwright_conformance::history::{Kind, Rule, Rules};

const CONTENTION: &str = "no client asked for a lock that another process held";
const HAND_OVERS: &str = "no waiter was granted a lock after another process's hold";

fn late_write(process: &str) -> String {
    format!("{process} was paused beyond its deadline, and no write after it was refused")
}

#[track_caller]
fn lacks(script: &Script, missing: &[&str]) {
    let found = script.found_by(&Rules::default());
    assert!(found.iter().all(|one| one.rule == Rule::ShowedNothing), "{found:?}");
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let missing: Vec<String> =
        missing.iter().map(|what| format!("the run showed nothing: {what}")).collect();
    assert_eq!(found, missing);
}

fn hand_over() -> Script {
    held(40).asks(15, "b", 2).releases(20, "a", 1).granted(21, "b", 2, 2, 60)
}

#[test]
fn run_with_a_hand_over_shows_something() {
    lacks(&hand_over(), &[]);
}

#[test]
fn run_without_contention_shows_nothing() {
    let apart = held(20).holds("b", 2, 2, EXCLUSIVE, (30, 40));
    lacks(&apart, &[CONTENTION, HAND_OVERS]);
    // Requests of one process aren't contention.
    let alone = held(40).asks(15, "a", 2);
    let alone = alone.releases(20, "a", 1).granted(21, "a", 2, 2, 60);
    lacks(&alone, &[CONTENTION, HAND_OVERS]);
}

#[test]
fn run_without_a_hand_over_shows_nothing() {
    let refused = held(40).asks(15, "b", 2);
    lacks(&refused.fails(20, "b", 2), &[HAND_OVERS]);
}

#[test]
fn fault_without_an_effect_shows_nothing() {
    let missing = "the fault cut on server began, and no effect was recorded";
    let cut = |effect| hand_over().fault(12, "cut", true, None).fault(14, "cut", false, effect);
    lacks(&cut(Some("3 connections")), &[]);
    lacks(&cut(None), &[missing]);
    lacks(&hand_over().fault(12, "cut", true, Some("1")), &[]);
}

#[test]
fn pause_without_a_refused_late_write_shows_nothing() {
    let paused = |mode, go| {
        let script = Script::new().holds("a", 1, 1, mode, (10, 40)).asks(15, "b", 2);
        let script = script.signal(30, "a", Signal::Stopped).granted(45, "b", 2, 2, 90);
        script.signal(go, "a", Signal::Continued).ends(80, "b")
    };
    let script = paused(EXCLUSIVE, 50).loses(51, "a", 1);
    lacks(&script, &[&late_write("a")]);
    let wrote = |accepted| script.clone().wrote(52, "a", (1, 1), accepted, true);
    lacks(&wrote(true), &[&late_write("a")]);
    lacks(&wrote(false), &[]);
    // The process continued at 50, so a write sent before isn't a late write.
    let sent = |sent| {
        let script = paused(EXCLUSIVE, 50).writing(sent, "a", 1, 29);
        script.wrote(52, "a", (1, 1), false, false)
    };
    lacks(&sent(49), &[&late_write("a")]);
    lacks(&sent(50), &[]);
    lacks(&paused(Mode::Shared, 50), &[]);
    // No late write is required if the holder continued before its deadline, or died suspended.
    lacks(&paused(EXCLUSIVE, 39).loses(41, "a", 1), &[]);
    lacks(&paused(EXCLUSIVE, 50).signal(48, "a", Signal::Killed), &[]);
    let rules = Rules { fences: false, ..Rules::default() };
    assert_eq!(script.found_by(&rules), []);
}

#[test]
fn each_process_needs_a_refused_write_after_its_pause() {
    let script = held(40).asks(15, "b", 2);
    let script = script.signal(30, "a", Signal::Stopped).granted(45, "b", 2, 2, 90);
    let script = script.signal(50, "a", Signal::Continued).wrote(52, "a", (1, 1), false, true);
    let script = script.signal(60, "b", Signal::Stopped).holds("c", 3, 3, EXCLUSIVE, (90, 200));
    let script = script.signal(100, "b", Signal::Continued).ends(200, "c");
    lacks(&script, &[&late_write("b")]);
    lacks(&script.wrote(110, "b", (2, 2), false, true), &[]);
}

#[test]
fn journal_contradicts_itself() {
    for (script, problem) in [
        (Script::new().granted(10, "a", 1, 1, 20), "ended request 1 without asking"),
        (Script::new().asks(10, "a", 1).asks(11, "a", 1).fails(12, "a", 1), "has two requests"),
        (
            Script::new().asks(10, "a", 1).fails(11, "a", 1).fails(12, "a", 1),
            "ended request 1 twice",
        ),
        (Script::new().releases(10, "a", 1), "which it wasn't granted"),
        (Script::new().signal(10, "a", Signal::Killed).ends(11, "a"), "after it was killed"),
        (Script::new().fault(10, "cut", false, Some("1")), "which hadn't begun"),
    ] {
        let found = script.found();
        let says = found.iter().find(|violation| violation.to_string().contains(problem));
        let says = says.unwrap_or_else(|| panic!("{problem}: {found:?}"));
        assert_eq!(says.kind(), Kind::Evidence);
    }
}
