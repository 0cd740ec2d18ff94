use lockwright_core::{
    BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, HoldState, Reason, ReleaseMode,
};
use sqlx::Connection as _;

use super::server::{
    Backend, Connection, HOUR, SCHEME, Server, add_user, backend, client, count, holding, lock,
    plain, run, sessions, sessions_of,
};
use crate::in_each_mode;
use crate::support::{LONG, break_x, claim_for, grant, hold, in_mode, ms, refused, within};

in_each_mode!(
    plain;
    a_break_ends_the_session_at_once_and_says_so,
    a_refusal_to_end_a_session_names_the_privilege,
    a_release_through_another_connection_ends_the_session,
    a_sweep_leaves_the_held_and_keeps_the_fences,
    nothing_is_left_behind,
);

async fn a_break_ends_the_session_at_once_and_says_so(server: &Server, mode: &str) {
    let (locks, operator) = (client(server, mode, LONG).await, backend(server, mode).await);
    let guard = locks.mutex("x").acquire().await.unwrap();
    let seen = BreakTarget::Token(guard.token());
    let broken = break_x(&operator, seen, BreakMode::Now).await.unwrap();
    assert!(matches!(broken, Broken::Freed(left) if left > LONG - ms(5_000)), "{broken:?}");
    assert_eq!(holding(server), 0, "it isn't free on the server");
    assert_eq!(guard.signal().ended().await, HoldState::Lost(Reason::Broken));
}

async fn a_refusal_to_end_a_session_names_the_privilege(server: &Server, mode: &str) {
    let one = backend(server, mode).await;
    let held = hold(&one, "x").await;
    add_user(server, "auditor", "secret");
    let url = format!("{SCHEME}://auditor:secret@{}/lockwright", server.address());
    let other = Backend::connect(&in_mode(&url, mode)).await.unwrap();
    let seen = BreakTarget::Token(held.token);
    let answer = break_x(&other, seen, BreakMode::Now).await;
    refused(answer, ErrorKind::Denied, "another user");
    assert_eq!(holding(server), 1);
    one.release(&held, ReleaseMode::Plain).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_is_only_broken_when_any_is_meant() {
    let server = Server::start().unwrap();
    let backend = backend(&server, "session").await;
    let mine = hold(&backend, "x").await;
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    let mut other = Connection::connect(&server.url()).await.unwrap();
    run(&mut other, &lock("x")).await;
    let how = BreakMode::Now;
    let seen = BreakTarget::Token(mine.token);
    let broken = break_x(&backend, seen, how).await.unwrap();
    assert_eq!(broken, Broken::NotHeld);
    let soft = break_x(&backend, BreakTarget::Any, BreakMode::RunOut).await;
    assert!(soft.unwrap_err().to_string().contains("end its session"));
    let broken = break_x(&backend, BreakTarget::Any, how).await.unwrap();
    assert!(matches!(broken, Broken::Freed(_)), "{broken:?}");
    assert!(other.ping().await.is_err(), "its session is still there");
    grant(&backend, &claim_for("x", LONG)).await;
}

async fn a_release_through_another_connection_ends_the_session(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, backend(server, mode).await);
    let held = hold(&one, "x").await;
    two.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(holding(server), 0);
    assert_eq!(sessions_of(server, held.token), 0);
    let next = hold(&two, "x").await;
    one.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(holding(server), 1);
    two.release(&next, ReleaseMode::Plain).await.unwrap();
}

async fn a_sweep_leaves_the_held_and_keeps_the_fences(server: &Server, mode: &str) {
    let backend = backend(server, mode).await;
    let (held, over) = (claim_for("held", LONG), claim_for("over", LONG));
    grant(&backend, &held).await;
    let before = grant(&backend, &over).await.fence;
    backend.release(&over, ReleaseMode::Plain).await.unwrap();
    let rows =
        || count(server, &format!("SELECT count(*) FROM lockwright_hold WHERE kind = '{mode}'"));
    assert_eq!(rows(), 2);
    backend.sweep(ms(0)).await.unwrap();
    assert_eq!(rows(), 2);
    let age = format!("UPDATE lockwright_hold SET updated = updated - {HOUR}");
    server.sql(&age).unwrap();
    let swept = backend.sweep(ms(0)).await.unwrap();
    assert_eq!(swept.rows, 1, "{swept:?}");
    assert_eq!(rows(), 1, "the held one went, or the other stayed");
    if mode == "row" {
        assert_eq!(count(server, "SELECT count(*) FROM lockwright_row"), 1);
    }
    let floor = count(server, "SELECT floor FROM lockwright_meta");
    assert!(floor as u64 >= before.get(), "the floor is {floor}");
    // A new fence is at least the server's time and above the floor. A floor far ahead of the time
    // shows that the floor counts.
    server.sql("UPDATE lockwright_meta SET floor = floor + 1000000000000000").unwrap();
    let again = claim_for("over", LONG);
    let fence = grant(&backend, &again).await.fence;
    assert!(fence.get() > floor as u64 + 1_000_000_000_000_000);
    server.sql("UPDATE lockwright_meta SET floor = 0").unwrap();
    for claim in [&held, &again] {
        backend.release(claim, ReleaseMode::Plain).await.unwrap();
    }
}

async fn nothing_is_left_behind(server: &Server, mode: &str) {
    let locks = client(server, mode, LONG).await;
    for number in 0..20 {
        locks.mutex(format!("x{number}")).acquire().await.unwrap().release().await.unwrap();
    }
    locks.close().await;
    drop(locks);
    within(ms(8_000), "the connections to be closed", async || sessions(server) == 0).await;
}
