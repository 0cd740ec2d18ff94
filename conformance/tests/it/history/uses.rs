use super::{EXCLUSIVE, Signal, held};

const USED: &str = "a hold was used after its end";
const RENEWED: &str = "a hold was renewed after its deadline and the next grant";

#[test]
fn check_after_the_deadline_is_a_use() {
    let looked = |looked| held(20).writing(25, "a", 1, looked).wrote(26, "a", (1, 1), true, false);
    looked(19).is_clean();
    looked(20).breaks_once(USED);
}

#[test]
fn check_after_the_reported_loss_is_a_use() {
    let looked = |looked| held(40).loses(20, "a", 1).writing(25, "a", 1, looked);
    looked(19).is_clean();
    looked(20).breaks_once(USED);
}

/// Without an entry `Writing`, the holder may have checked its hold as early as the register's last
/// answer.
#[test]
fn second_write_after_the_deadline_is_a_use() {
    let two = |first| {
        held(20).wrote(first, "a", (1, 1), true, false).wrote(30, "a", (1, 1), false, false)
    };
    two(19).is_clean();
    two(20).breaks_once(USED);
}

#[test]
fn renewed_hold_is_used_until_its_new_deadline() {
    let script = held(20).renews(19, "a", 1, 40);
    script.clone().writing(30, "a", 1, 39).is_clean();
    script.writing(50, "a", 1, 40).breaks_once(USED);
}

#[test]
fn late_write_is_no_use() {
    held(20).wrote(25, "a", (1, 1), true, true).wrote(30, "a", (1, 1), true, true).is_clean();
}

#[test]
fn renewal_after_the_deadline_and_the_next_grant_is_a_use() {
    let renewed = |renewed, deadline| {
        held(20)
            .holds("b", 2, 2, EXCLUSIVE, (30, 40))
            .releases(31, "b", 2)
            .renews(renewed, "a", 1, deadline)
    };
    // A renewal after the next grant is a violation, even if the next hold has ended.
    renewed(32, 50).breaks_once(RENEWED);
    // A renewal recorded only at its new deadline doesn't extend the hold.
    renewed(32, 32).is_clean();
    held(20)
        .signal(15, "a", Signal::Stopped)
        .signal(25, "a", Signal::Continued)
        .renews(26, "a", 1, 40)
        .holds("b", 2, 2, EXCLUSIVE, (40, 50))
        .is_clean();
}
