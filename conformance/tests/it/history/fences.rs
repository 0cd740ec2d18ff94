use lockwright_core::Mode;

use super::{EXCLUSIVE, Script, Signal, Violation, held, permits};

const SAME: &str = "two holds had one fence";
const FELL: &str = "a later hold had a smaller fence";
const REFUSED: &str = "the register refused the write of a valid hold";
const STALE: &str = "the register accepted a stale write";

#[test]
fn fences_are_unique() {
    let first = Script::new().holds("a", 1, 7, EXCLUSIVE, (10, 20));
    let next = |fence| first.clone().holds("b", 2, fence, EXCLUSIVE, (20, 30));
    next(8).is_clean();
    next(7).breaks_once(SAME);
    assert_eq!(next(7).found_with(|rules| rules.fences = false), []);
}

#[test]
fn readers_share_a_fence_with_readers_only() {
    let readers = Script::new().holds("a", 1, 7, Mode::Shared, (10, 20));
    let readers = readers.holds("b", 2, 7, Mode::Shared, (15, 25));
    readers.is_clean();
    readers.clone().holds("c", 3, 8, EXCLUSIVE, (25, 30)).is_clean();
    readers.holds("c", 3, 7, EXCLUSIVE, (25, 30)).breaks_once(SAME);
}

#[test]
fn later_request_has_a_larger_fence() {
    let first = Script::new().asks(5, "a", 1).granted(10, "a", 1, 7, 20);
    let pair = |asked, fence| first.clone().asks(asked, "b", 2).granted(20, "b", 2, fence, 30);
    pair(11, 8).is_clean();
    pair(11, 6).breaks_once(FELL);
    assert_eq!(pair(11, 6).found_with(|rules| rules.fences = false), []);
    // With both at 10, the second request may precede the first grant.
    assert_eq!(pair(10, 6).found_with(|rules| rules.exclusion = false), []);
    assert_eq!(pair(11, 6).found_with(|rules| rules.exclusion = false).len(), 1);
}

#[test]
fn grant_after_the_end_of_a_hold_has_a_larger_fence() {
    let pair = |granted, fence, until| {
        let script = Script::new().asks(5, "b", 2).asks(6, "a", 1).granted(10, "a", 1, 7, 20);
        script.granted(granted, "b", 2, fence, until)
    };
    pair(20, 8, 30).is_clean();
    pair(20, 6, 30).breaks_once(FELL);
    pair(20, 6, 21).breaks_once(FELL);
    // The grant of `b` returned at its hold's deadline, so on the server this hold may have ended
    // before the grant to `a`.
    pair(20, 6, 20).is_clean();
    // The hold of `a` hadn't ended, so the holds overlap, whatever their fences.
    pair(19, 6, 30).breaks_once("two holds were valid at once");
    pair(19, 8, 30).breaks_once("two holds were valid at once");
    // Readers and permits may be held concurrently, so this rule skips them.
    let reader =
        Script::new().asks_for(5, "b", 2, "x", Mode::Shared).holds("a", 1, 7, EXCLUSIVE, (10, 20));
    reader.granted(20, "b", 2, 6, 30).is_clean();
    // An operator broke the hold of `b` before the grant to `b` returned.
    pair(20, 6, 30).breaks(19, true).is_clean();
    pair(20, 6, 30).breaks(20, true).is_clean();
    pair(20, 6, 30).breaks(21, true).breaks_once(FELL);
    pair(20, 6, 30).breaks(19, false).breaks_once(FELL);
    assert_eq!(pair(20, 6, 30).found_with(|rules| rules.exclusion = false), []);
}

#[test]
fn grant_after_many_ended_holds_is_compared_with_the_largest_fence() {
    let script = Script::new().asks(5, "d", 4);
    let script = script.holds("a", 1, 7, EXCLUSIVE, (10, 20)).holds("b", 2, 9, EXCLUSIVE, (20, 30));
    let script = script.holds("c", 3, 10, EXCLUSIVE, (30, 40));
    script.clone().granted(40, "d", 4, 11, 50).is_clean();
    script.granted(40, "d", 4, 8, 50).breaks_once(FELL);
}

#[test]
fn readers_fences_are_in_order_with_writers() {
    let writer = Script::new().holds("a", 1, 7, EXCLUSIVE, (10, 20));
    let reader = |fence| writer.clone().holds("b", 2, fence, Mode::Shared, (20, 30));
    reader(8).is_clean();
    reader(6).breaks_once(FELL);
}

#[test]
fn permits_have_unique_ids_in_no_order() {
    let first = Script::new().holds("a", 1, 7, permits(1, 3), (10, 20));
    let pair = |id| first.clone().holds("b", 2, id, permits(1, 3), (15, 30));
    pair(3).is_clean();
    pair(7).breaks_once(SAME);
}

#[test]
fn each_name_has_fences_of_its_own() {
    let script = Script::new().holds("a", 1, 7, EXCLUSIVE, (10, 20));
    script.asks_for(21, "a", 2, "y", EXCLUSIVE).granted(22, "a", 2, 3, 30).is_clean();
}

fn paused(continued: u64, accepted: bool) -> Script {
    held(20)
        .signal(15, "a", Signal::Stopped)
        .holds("b", 2, 2, EXCLUSIVE, (20, 100))
        .wrote(30, "b", (2, 2), true, false)
        .signal(continued, "a", Signal::Continued)
        .wrote(40, "a", (1, 1), accepted, true)
}

#[test]
fn late_write_after_a_pause_is_refused() {
    paused(31, false).is_clean();
    paused(31, true).breaks_once(STALE);
    // Process `a` continued at the instant of the answer to `b`, so the write of `a` may have
    // arrived first.
    paused(30, true).is_clean();
}

#[test]
fn late_write_before_the_next_holders_may_be_accepted() {
    let script = held(20).loses(20, "a", 1);
    let late = |wrote| {
        let script = script.clone().wrote(wrote, "a", (1, 1), true, true);
        script.holds("b", 2, 2, EXCLUSIVE, (20, 60)).wrote(30, "b", (2, 2), true, false)
    };
    late(25).is_clean();
    // The first holder's loss preceded the second holder's write, so the first holder may have
    // written first.
    late(35).is_clean();
}

#[test]
fn write_is_sent_after_the_registers_last_answer() {
    let two = |first| {
        held(20)
            .loses(20, "a", 1)
            .holds("b", 2, 2, EXCLUSIVE, (20, 60))
            .wrote(30, "b", (2, 2), true, false)
            .wrote(first, "a", (1, 1), false, true)
            .wrote(40, "a", (1, 1), true, true)
    };
    two(29).is_clean();
    two(30).is_clean();
    two(31).breaks_once(STALE);
}

#[test]
fn stale_write_is_found_by_its_beginning() {
    let stale = |began| {
        Script::new()
            .asks(5, "a", 1)
            .holds("b", 2, 2, EXCLUSIVE, (10, 20))
            .wrote(25, "b", (2, 2), true, false)
            .granted(20, "a", 1, 1, 60)
            .writing(began, "a", 1, began)
            .wrote(40, "a", (1, 1), true, false)
    };
    // Without the rules for fences, only the write is a violation.
    let found = |began| stale(began).found_with(|rules| rules.fences = false);
    assert_eq!(found(25), []);
    let found = found(26);
    let titles: Vec<&str> = found.iter().map(Violation::title).collect();
    assert_eq!(titles, [STALE]);
}

#[test]
fn writers_of_one_fence_and_of_larger_ones_are_accepted() {
    held(20)
        .wrote(12, "a", (1, 1), true, false)
        .wrote(14, "a", (1, 1), true, false)
        .holds("b", 2, 2, EXCLUSIVE, (20, 60))
        .wrote(30, "b", (2, 2), true, false)
        .is_clean();
}

fn refused(looked: u64, answered: u64) -> Script {
    let script =
        Script::new().holds("a", 1, 5, EXCLUSIVE, (10, 40)).writing(looked, "a", 1, looked);
    script.wrote(answered, "a", (1, 5), false, false)
}

#[test]
fn write_of_a_valid_hold_is_accepted() {
    refused(20, 39).breaks_once(REFUSED);
    // The hold ended before the answer, so another holder may have written.
    refused(20, 40).is_clean();
    refused(20, 30).loses(31, "a", 1).breaks_once(REFUSED);
    refused(20, 30).loses(30, "a", 1).is_clean();
    refused(20, 30).releases(31, "a", 1).breaks_once(REFUSED);
    refused(20, 30).releases(30, "a", 1).is_clean();
    refused(20, 30).breaks(30, true).is_clean();
    refused(20, 30).breaks(31, true).breaks_once(REFUSED);
    refused(20, 30).breaks(29, false).breaks_once(REFUSED);
    // Without a `Writing` entry, the time of the holder's check is unknown.
    let unchecked = Script::new().holds("a", 1, 5, EXCLUSIVE, (10, 40));
    unchecked.wrote(20, "a", (1, 5), false, false).is_clean();
    let refused = refused(20, 39);
    assert_eq!(refused.found_with(|rules| rules.exclusion = false), []);
    assert_eq!(refused.found_with(|rules| rules.fences = false), []);
}

#[test]
fn write_may_be_refused_after_a_later_grant() {
    let next = |granted| {
        let script = refused(20, 30).holds("b", 2, 6, EXCLUSIVE, (granted, 60));
        script.found().iter().map(|found| found.title().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(next(30), ["two holds were valid at once"]);
    assert_eq!(next(31), ["two holds were valid at once", REFUSED]);
}
