use std::collections::BTreeSet;

use super::server::*;
use super::{IDLE, NO_RECORDS};
use crate::support::*;

in_each_mode!(plain; a_young_hold_is_shown_listed_and_broken,
    the_time_of_the_grant_is_shown,
    listing_waits_for_the_records_of_its_client,
    a_refusal_to_end_a_session_names_the_privilege,
    a_release_through_another_connection_ends_the_session,
    a_sweep_leaves_the_held_and_keeps_the_fences,
    an_idle_session_outlives_the_ttl_of_its_last_claim);

/// A hold is recorded at the age of 20 ms, so these requests usually precede the record.
async fn a_young_hold_is_shown_listed_and_broken(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, backend(server, mode).await);
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let held = hold(&one, "young").await;
        let shown = two.inspect(&held.name).await.unwrap();
        let holder = shown.holders.first().unwrap();
        assert_eq!((holder.token, holder.fence.is_some()), (Some(held.token), true));
        assert!(holder.identity.is_some() && holder.remaining.is_some());
        one.release(&held, ReleaseMode::Plain).await.unwrap();

        let held = hold(&one, "young").await;
        let seen = BreakTarget::Token(held.token);
        two.break_lock(&held.name, seen, how, "us", "test").await.unwrap();
        let broken = Renewal::not_held(Reason::Broken);
        assert_eq!(renew(&one, &held).await, broken, "{mode}, {how:?}");
        one.release(&held, ReleaseMode::Plain).await.unwrap();

        let held = hold(&one, "young").await;
        let listed = two.list("", None).await.unwrap();
        let tokens = listed.names.iter().flat_map(|name| &name.holders).map(|it| it.token);
        assert!(tokens.collect::<Vec<_>>().contains(&Some(held.token)), "{mode}: {listed:?}");
        one.release(&held, ReleaseMode::Plain).await.unwrap();
    }
}

async fn the_time_of_the_grant_is_shown(server: &Server, mode: &str) {
    let backend = backend(server, mode).await;
    let held = hold(&backend, &format!("since-{mode}")).await;
    let age = async || {
        let shown = backend.inspect(&held.name).await.unwrap().holders[0].since.unwrap();
        let listed = backend.list("since-", None).await.unwrap();
        assert_eq!(listed.names[0].holders[0].since, Some(shown));
        shown.elapsed().unwrap().as_secs()
    };
    assert!(age().await < 60);
    server.sql(&format!("UPDATE lockwright_hold SET updated = updated - {HOUR}")).unwrap();
    assert!((3600..3660).contains(&age().await), "{mode}");
    release(&backend, &held).await;
}

/// The record can't be written for 400 ms, longer than a listing's usual wait.
async fn listing_waits_for_the_records_of_its_client(server: &Server, mode: &str) {
    let one = backend(server, mode).await;
    let locking = session_after(server, NO_RECORDS).await;
    let held = hold(&one, &format!("new-{mode}")).await;
    let (page, ()) = tokio::join!(one.list("new-", None), async {
        sleep(ms(400)).await;
        drop(locking);
    });
    assert!(page.unwrap().names.iter().any(|shown| shown.name == held.name), "{mode}");
    one.release(&held, ReleaseMode::Plain).await.unwrap();
}

async fn a_refusal_to_end_a_session_names_the_privilege(server: &Server, mode: &str) {
    let one = backend(server, mode).await;
    let held = hold(&one, "x").await;
    add_user(server, "auditor", "secret");
    let url = format!("{SCHEME}://auditor:secret@{}/lockwright", server.address());
    let other = Backend::connect(&in_mode(&url, mode)).await.unwrap();
    let answer = break_x(&other, held.token, BreakMode::Now).await;
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
    let broken = break_x(&backend, mine.token, how).await.unwrap();
    assert_eq!(broken, Broken::NotHeld);
    let soft = break_x(&backend, None, BreakMode::RunOut).await;
    assert!(soft.unwrap_err().to_string().contains("end its session"));
    let broken = break_x(&backend, None, how).await.unwrap();
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
    let rows =
        || count(server, &format!("SELECT count(*) FROM lockwright_hold WHERE kind = '{mode}'"));
    within(ms(2_000), "the records", async || rows() == 2).await;
    backend.release(&over, ReleaseMode::Plain).await.unwrap();
    backend.sweep(ms(0)).await.unwrap();
    assert_eq!(rows(), 2);
    let age = format!(
        "UPDATE lockwright_hold SET updated = updated - {HOUR}, fence = fence - 3600000000"
    );
    server.sql(&age).unwrap();
    let swept = backend.sweep(ms(0)).await.unwrap();
    assert_eq!(swept.rows, 1, "{swept:?}");
    assert_eq!(rows(), 1, "the held one went, or the other stayed");
    if mode == "row" {
        assert_eq!(count(server, "SELECT count(*) FROM lockwright_row"), 1);
    }
    let last = floor(server);
    assert!(last >= before.get() - 3_600_000_000, "the floor is {last}");
    // A new fence may come from the server's time. Only the floor can raise a fence far above
    // that time.
    set_floor(server, last + 1_000_000_000_000_000);
    let again = claim_for("over", LONG);
    let fence = grant(&backend, &again).await.fence;
    assert!(fence.get() > last + 1_000_000_000_000_000);
    for claim in [&held, &again] {
        backend.release(claim, ReleaseMode::Plain).await.unwrap();
    }
    set_floor(server, last);
}

async fn an_idle_session_outlives_the_ttl_of_its_last_claim(server: &Server, mode: &str) {
    let idle = || {
        let ids = server.sql(IDLE).unwrap();
        ids.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let ttl = ms(1_000);
    let (one, two) = (backend(server, mode).await, backend(server, mode).await);
    // Each backend opens several connections at first, and keeps one.
    within(ms(10_000), "two connections", async || idle().len() <= 2).await;
    for held in [claim_for("x", ttl), reader("x", ttl)] {
        // On MySQL, `IDLE` also lists a session that a reader's client uses briefly and doesn't
        // keep.
        if held.mode == Mode::Shared && SCHEME == "mysql" {
            continue;
        }
        grant(&one, &held).await;
        assert!(is_busy(&two, &claim_for("x", ttl)).await);
        release(&one, &held).await;
        let before = idle();
        assert!(before.len() >= 2, "{before:?} are kept");
        sleep(ms(2_500)).await;
        let after = idle();
        assert!(before.is_subset(&after), "{mode}: of {before:?}, the server has left {after:?}");
    }
    drop((one, two));
    within(ms(10_000), "the connections to go", async || idle().is_empty()).await;
}
