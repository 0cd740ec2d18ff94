//! Tests of a picture's contents, and that they don't overlap.

use crate::history::journal::Signal;
use crate::history::tests::{EXCLUSIVE, Script, permits};
use crate::history::{Rules, check, timeline};

fn picture(script: &Script) -> String {
    let mut entries = script.0.clone();
    entries.sort_by_key(|entry| entry.at);
    let rules = Rules { must_show: false, ..Rules::default() };
    timeline(&entries, &check(&entries, &rules).violations)
}

fn texts(svg: &str) -> Vec<&str> {
    svg.split("</text>").filter_map(|part| part.rsplit('>').next()).map(str::trim).collect()
}

#[test]
fn picture_has_all_that_happened() {
    let script = Script::new()
        .asks(0, "client <1>", 1)
        .granted(100, "client <1>", 1, 7, 400)
        .signal(150, "client <1>", Signal::Stopped)
        .asks(120, "client 2", 2)
        .granted(300, "client 2", 2, 8, 900)
        .wrote(500, "client 2", (2, 8), true, false)
        .signal(600, "client <1>", Signal::Continued)
        .loses(620, "client <1>", 1)
        .wrote(650, "client <1>", (1, 7), false, true)
        .asks_for(10, "client 3", 3, "y", permits(2, 3))
        .granted(20, "client 3", 3, 1, 900)
        .signal(700, "client 3", Signal::Killed)
        .fault(50, "delay", true, None)
        .fault(950, "delay", false, Some("3 answers"))
        .ends(1_000, "client 2");
    let svg = picture(&script);
    let texts = texts(&svg);
    for text in [
        "A run with 1 violation",
        "client &lt;1&gt;",
        "client 2",
        "killed",
        "delay: server, 3 answers",
        "y, 2 of 3 permits",
        "x, fence 8",
        "1",
    ] {
        assert!(texts.contains(&text), "{text}: {texts:#?}");
    }
    assert!(svg.contains("two holds were valid at once: \"x\""), "{svg}");
}

#[test]
fn empty_run_is_drawn() {
    assert!(picture(&Script::new()).contains("A run without violations"));
}

#[test]
fn violation_in_a_long_run_is_enlarged() {
    let mut script = Script::new();
    for number in 0..100 {
        let from = number * 1_000;
        script = script.holds("a", number, number, EXCLUSIVE, (from, from + 900));
    }
    assert!(!picture(&script).contains("Around"));
    let wrong = script.holds("b", 500, 500, EXCLUSIVE, (50_100, 50_200));
    assert!(picture(&wrong).contains("Around violation 1: from"));
}
