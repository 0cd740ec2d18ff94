use lockwright_core::HoldState;

use super::server::*;
use crate::support::*;

in_each_mode!(plain; holder_gets_broken_despite_a_next_holder,
    claim_gets_broken_through_another_connection,
    broken_hold_lasts_for_no_time_through_another_client,
    broken_hold_is_shown_with_the_rest_of_its_time,
    tombstone_of_a_broken_hold_is_swept);

/// The claim `next` waits in the server, so it is granted before the holder's client reads the loss
/// reason.
async fn holder_gets_broken_despite_a_next_holder(server: &Server, mode: &str) {
    let operator = shared(server, mode).await;
    let locks = client(server, mode, LONG).await;
    for _ in 0..10 {
        let guard = locks.mutex("x").acquire().await.unwrap();
        let next = claim_for("x", LONG);
        let waiting = acquiring(&operator, &next, in_time(LONG));
        until_one_waits(&*operator).await;
        break_x(&operator, guard.token(), BreakMode::Now).await.unwrap();
        let ended = guard.signal().ended().await;
        assert_eq!(ended, HoldState::Lost(Reason::Broken), "{mode}");
        granted(waiting).await;
        operator.release(&next, ReleaseMode::Plain).await.unwrap();
    }
}

/// After the next grant, a client other than the holder's renews the broken hold.
async fn claim_gets_broken_through_another_connection(server: &Server, mode: &str) {
    let (one, two) = (shared(server, mode).await, shared(server, mode).await);
    let (held, next) = (claim_for("x", LONG), claim_for("x", LONG));
    grant(&*one, &held).await;
    break_x(&two, held.token, BreakMode::Now).await.unwrap();
    grant(&*two, &next).await;
    assert_eq!(renew(&*two, &held).await, Renewal::not_held(Reason::Broken), "{mode}");
    let inspection = two.inspect(&name("x")).await.unwrap();
    assert_eq!(inspection.holders.len(), 1, "{mode}: {inspection:?}");
    assert_eq!(inspection.holders[0].token, Some(next.token));
    two.release(&next, ReleaseMode::Plain).await.unwrap();
}

/// The holder's client shortens its session's idle timeout, so another client can't determine the
/// hold's remaining time.
async fn broken_hold_lasts_for_no_time_through_another_client(server: &Server, mode: &str) {
    let (one, two) = (shared(server, mode).await, shared(server, mode).await);
    let held = hold(&*one, "x").await;
    break_x(&two, held.token, BreakMode::RunOut).await.unwrap();
    assert_eq!(renew(&*one, &held).await, Renewal::not_held(Reason::Broken), "{mode}");
    assert_eq!(grant(&*two, &held).await.valid, Some(Duration::ZERO), "{mode}");
    one.release(&held, ReleaseMode::Plain).await.unwrap();
}

/// The renewal that reads the break restarts the session's idle time. The shown remaining time must
/// not grow by the restart.
async fn broken_hold_is_shown_with_the_rest_of_its_time(server: &Server, mode: &str) {
    let (one, two) = (shared(server, mode).await, shared(server, mode).await);
    let held = claim_for("x", ms(20_000));
    grant(&*one, &held).await;
    let ends = Instant::now() + held.ttl;
    tokio::time::sleep(ms(4_000)).await;
    let left = async || {
        let left = ends - Instant::now();
        let shown = two.inspect(&name("x")).await.unwrap().holders[0].remaining.unwrap();
        (shown, left)
    };
    break_x(&two, held.token, BreakMode::RunOut).await.unwrap();
    assert_eq!(renew(&*one, &held).await, Renewal::not_held(Reason::Broken), "{mode}");
    let is_noted = async || {
        let (shown, left) = left().await;
        shown < left + ms(1_000)
    };
    within(ms(5_000), "the rest to be noted", is_noted).await;
    for _ in 0..2 {
        let (shown, left) = left().await;
        assert!(shown < left + ms(1_000), "{mode}: {shown:?} is shown, and {left:?} is left");
        assert!(shown > left - ms(3_000), "{mode}: {shown:?} is shown, and {left:?} is left");
        break_x(&two, held.token, BreakMode::RunOut).await.unwrap();
    }
    one.release(&held, ReleaseMode::Plain).await.unwrap();
}

async fn tombstone_of_a_broken_hold_is_swept(server: &Server, mode: &str) {
    let one = shared(server, mode).await;
    let held = hold(&*one, "x").await;
    break_x(&one, held.token, BreakMode::Now).await.unwrap();
    let rows =
        "SELECT (SELECT count(*) FROM lockwright_hold) + (SELECT count(*) FROM lockwright_reader)";
    assert_eq!(count(server, rows), 2, "{mode}");
    // Makes the rows older than the least age that a sweep requires.
    for table in ["hold", "reader"] {
        let old = format!("updated = updated - 24 * {HOUR}, fence = 1");
        server.sql(&format!("UPDATE lockwright_{table} SET {old}")).unwrap();
    }
    for _ in 0..2 {
        one.sweep(ms(60_000)).await.unwrap();
    }
    assert_eq!(count(server, rows), 0, "{mode}");
}
