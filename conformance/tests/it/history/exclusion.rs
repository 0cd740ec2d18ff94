use lockwright_core::Mode;

use super::{EXCLUSIVE, Script, Signal, held, permits};

const OVERLAP: &str = "two holds were valid at once";

#[track_caller]
fn ends_at(end: u64, first: &Script) {
    first.clone().holds("b", 3, 2, EXCLUSIVE, (end, end + 10)).is_clean();
    first.clone().holds("b", 3, 2, EXCLUSIVE, (end - 1, end + 10)).breaks_once(OVERLAP);
}

#[test]
fn hold_ends_at_its_deadline_release_loss_or_with_its_process() {
    ends_at(20, &held(20));
    ends_at(20, &held(100).releases(20, "a", 1));
    ends_at(20, &held(100).loses(20, "a", 1));
    ends_at(20, &held(100).ends(20, "a"));
    held(20).releases(25, "a", 1).holds("b", 2, 2, EXCLUSIVE, (20, 24)).is_clean();
    for signal in [Signal::Killed, Signal::Stopped] {
        ends_at(20, &held(20).signal(12, "a", signal));
    }
}

#[test]
fn renewal_extends_a_hold_and_never_shortens_it() {
    ends_at(30, &held(20).renews(20, "a", 1, 30));
    ends_at(30, &held(30).renews(12, "a", 1, 20));
    let again = Script::new().asks_as(10, "a", 1, 7).granted(10, "a", 1, 1, 30);
    ends_at(30, &again.asks_as(11, "a", 2, 7).granted_again(12, "a", 2, 1, 20));
}

#[test]
fn renewal_counts_from_the_moment_it_is_written() {
    let between = held(20).renews(25, "a", 1, 40);
    let next = between.clone().holds("b", 2, 2, EXCLUSIVE, (20, 25)).found();
    assert!(next.iter().all(|violation| violation.title() != OVERLAP), "{next:?}");
    let next = between.holds("b", 2, 2, EXCLUSIVE, (20, 26)).found();
    assert!(next.iter().any(|violation| violation.title() == OVERLAP), "{next:?}");
}

#[test]
fn readers_exclude_writers_only() {
    let readers = Script::new().holds("a", 1, 1, Mode::Shared, (10, 30));
    let readers = readers.holds("b", 2, 1, Mode::Shared, (15, 20));
    readers.clone().holds("c", 3, 2, EXCLUSIVE, (30, 40)).is_clean();
    readers.clone().holds("c", 3, 2, EXCLUSIVE, (29, 40)).breaks_once(OVERLAP);
    held(20).holds("b", 2, 2, Mode::Shared, (20, 30)).is_clean();
    held(20).holds("b", 2, 2, Mode::Shared, (19, 30)).breaks_once(OVERLAP);
}

#[test]
fn permits_are_counted_at_each_instant() {
    let two = Script::new().holds("a", 1, 1, permits(2, 3), (10, 20));
    let two = two.holds("b", 2, 2, permits(1, 3), (12, 40));
    two.clone().holds("c", 3, 3, permits(2, 3), (20, 30)).is_clean();
    let three = two.holds("c", 3, 3, permits(2, 3), (19, 30));
    three.breaks_once("more than 3 permits were valid at once");
}

#[test]
fn each_request_has_its_own_size() {
    let one = Script::new().holds("a", 1, 1, permits(1, 3), (10, 20));
    one.clone().holds("b", 2, 2, permits(1, 2), (15, 25)).is_clean();
    let too_many = "more than 1 permits were valid at once";
    one.clone().holds("b", 2, 2, permits(1, 1), (15, 25)).breaks_once(too_many);
    // If the request of size 1 was sent before instant 10, the server may have granted it first.
    let late = |asked| {
        let script = Script::new().holds("a", 1, 1, permits(1, 3), (10, 20));
        let asks = script.asks_for(asked, "b", 2, "x", permits(1, 1));
        asks.granted(15, "b", 2, 2, 25)
    };
    late(9).is_clean();
    late(11).breaks_once(too_many);
    // One request of size 1 was granted after the other, so two permits exceed its size. The request
    // of size 3 doesn't matter.
    let first = Script::new().asks_for(0, "a", 1, "x", permits(1, 1)).granted(1, "a", 1, 1, 20);
    let larger =
        first.asks_for(2, "b", 2, "x", permits(1, 3)).asks_for(4, "c", 3, "x", permits(1, 1));
    larger.granted(5, "b", 2, 2, 20).granted(6, "c", 3, 3, 20).breaks_once(too_many);
}

#[test]
fn name_is_a_semaphore_or_a_lock() {
    let three = Script::new().holds("a", 1, 1, permits(1, 3), (10, 20));
    three.holds("b", 2, 2, EXCLUSIVE, (15, 25)).breaks_once(OVERLAP);
}

#[test]
fn names_are_separate() {
    held(20).asks_for(11, "b", 2, "y", EXCLUSIVE).granted(12, "b", 2, 1, 30).is_clean();
}

#[test]
fn second_guard_on_a_hold_is_no_second_hold() {
    let first = || Script::new().asks_as(10, "a", 1, 7).granted(10, "a", 1, 1, 20);
    let twice = first().asks_as(11, "a", 2, 7).granted_again(12, "a", 2, 1, 20);
    twice.is_clean();
    twice.clone().releases(15, "a", 1).holds("b", 3, 2, EXCLUSIVE, (15, 30)).is_clean();
    // Another task's release, or the hold's deadline, may precede the second grant in the journal.
    let late = |script: Script| script.granted_again(25, "a", 2, 1, 40);
    late(first().asks_as(11, "a", 2, 7).releases(15, "a", 1)).is_clean();
    late(first().asks_as(11, "a", 2, 7)).is_clean();
    // Another process with the same token is a different holder.
    let other = first().asks_as(11, "b", 2, 7).granted_again(12, "b", 2, 1, 20);
    assert!(other.found().iter().any(|found| found.title() == OVERLAP));
}

#[test]
fn token_that_two_tasks_are_granted_is_two_holds() {
    let pair = |first: Option<u64>, second: Option<u64>, granted| {
        let asks = |script: Script, instant, request, owner| match owner {
            Some(owner) => script.asks_as(instant, "a", request, owner),
            None => script.asks(instant, "a", request),
        };
        let script = asks(Script::new(), 10, 1, first).granted(10, "a", 1, 1, 20);
        let script = asks(script, 11, 2, second).granted_again(granted, "a", 2, 2, 40);
        script.found().iter().any(|found| found.title() == OVERLAP)
    };
    for (first, second) in [(None, None), (None, Some(7)), (Some(7), None), (Some(7), Some(8))] {
        assert!(pair(first, second, 19), "{first:?} and {second:?}");
        assert!(!pair(first, second, 20), "{first:?} and {second:?}");
    }
    let found = held(20).asks(11, "a", 2).granted_again(12, "a", 2, 1, 20).found();
    let titles: Vec<&str> = found.iter().map(|found| found.title()).collect();
    assert_eq!(titles, [OVERLAP, "two holds had one fence"]);
}

#[test]
fn hold_may_be_given_away_and_resumed_in_one_process() {
    held(40).releases(20, "a", 1).holds("a", 2, 2, EXCLUSIVE, (20, 40)).is_clean();
}

#[test]
fn breaking_at_once_excuses_the_overlap_from_then_on() {
    let both = |broken, at_once, granted| {
        held(30).breaks(broken, at_once).holds("b", 2, 2, EXCLUSIVE, (granted, 40))
    };
    both(20, true, 20).is_clean();
    both(20, true, 19).breaks_once(OVERLAP);
    both(20, false, 20).breaks_once(OVERLAP);
    // The break at 9 precedes the hold's request, so it excuses nothing.
    both(9, true, 20).breaks_once(OVERLAP);
}

/// The client doesn't know yet that its hold was broken, and hands it over to another request.
#[test]
fn break_excuses_a_hold_that_is_handed_over_later() {
    let both = |broken| {
        let script = held(30).releases(12, "a", 1).breaks(broken, true);
        let script = script.holds("b", 2, 5, EXCLUSIVE, (26, 40)).asks(27, "a", 3);
        script.granted_again(28, "a", 3, 2, 30)
    };
    both(25).is_clean();
    both(9).breaks_once(OVERLAP);
}

#[test]
fn break_that_failed_excuses_nothing() {
    let both = held(30).breaks(20, true).holds("b", 2, 2, EXCLUSIVE, (20, 40));
    both.clone().break_answered(25, 1, true).is_clean();
    both.clone().break_answered(25, 1, false).breaks_once(OVERLAP);
    // The breaking process was killed before an answer, so the break may have succeeded.
    both.clone().signal(21, "runner", Signal::Killed).is_clean();
    // Another break was answered, so this one may have succeeded.
    both.clone().break_answered(25, 2, false).is_clean();
    let number = 1;
    both.add(25, "c", super::Event::BreakAnswered { number, broke: false }).is_clean();
}

#[test]
fn exclusion_is_checked_where_it_is_promised() {
    let both = held(20).holds("b", 2, 2, EXCLUSIVE, (15, 30));
    assert_eq!(both.found_with(|rules| rules.exclusion = false), []);
}
