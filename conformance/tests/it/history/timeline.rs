use super::{EXCLUSIVE, Script, permits};
use lockwright_conformance::history::journal::Signal;
use lockwright_conformance::history::{Rules, check, timeline};

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

#[test]
fn ticks_are_round_and_few() {
    for (nanos, first, last) in [(1_000_000_000, "0.0", "1.0"), (3_500_000_000, "0.0", "3.5")] {
        let run = Script::new().holds("a", 1, 1, EXCLUSIVE, (5, 50)).ends(5 + nanos, "a");
        let svg = picture(&run);
        let ticks: Vec<&str> =
            texts(&svg).into_iter().filter(|text| text.parse::<f64>().is_ok()).collect();
        assert!((4..=13).contains(&ticks.len()), "{ticks:?}");
        assert_eq!((ticks[0], ticks[ticks.len() - 1]), (first, last), "{ticks:?}");
    }
}

#[test]
fn bars_in_one_row_do_not_touch() {
    let mut script = Script::new();
    for (request, (from, until)) in
        (1..).zip([(0, 10), (5, 8), (8, 20), (9, 11), (10, 12)].map(|(a, b)| (a * 100, b * 100)))
    {
        let name = format!("n{request}");
        script = script.asks_for(from, "a", request, &name, EXCLUSIVE);
        script = script.granted(from, "a", request, request, until).releases(until, "a", request);
    }
    let svg = picture(&script);
    let row = |request: u64| {
        let (before, _) = svg.split_once(&format!("\nn{request}, fence {request}\n")).unwrap();
        before.rsplit("y=\"").next().unwrap().trim_end_matches("\">").parse::<u32>().unwrap()
    };
    let rows = [1, 2, 3, 4, 5].map(row);
    assert_eq!((rows[1], rows[4]), (rows[2], rows[0]), "{rows:?}");
    assert!(rows[0] < rows[1] && rows[1] < rows[3], "{rows:?}");
}
