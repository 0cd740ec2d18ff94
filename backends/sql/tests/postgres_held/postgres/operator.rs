//! Inspection, breaks and sweeps by operators.

use lockwright_core::{
    BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, HoldState, Reason, ReleaseMode,
    ReleaseOutcome, Renew, Renewal,
};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::Connection;
use sqlx::postgres::PgConnection;

use crate::support::{
    LONG, MODES, backend, claim, client, count, granted, holding, ms, name, server, sessions_of,
    within,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_break_ends_the_session_at_once_and_says_so() {
    let server = server();
    for mode in MODES {
        let (locks, operator) = (client(&server, mode, LONG).await, backend(&server, mode).await);
        let guard = locks.mutex("x").acquire().await.unwrap();
        let seen = BreakTarget::Token(guard.token());
        let broken =
            operator.break_lock(&name("x"), seen, BreakMode::Now, "ada", "stuck").await.unwrap();
        assert!(matches!(broken, Broken::Freed(left) if left > LONG - ms(5_000)), "{broken:?}");
        assert_eq!(holding(&server), 0, "it isn't free on the server");
        assert_eq!(guard.signal().ended().await, HoldState::Lost(Reason::Broken));
    }
}

/// A renewal sees later commits.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_hold_runs_out_at_every_level_of_isolation() {
    let server = server();
    server
        .sql("ALTER ROLE lockwright SET default_transaction_isolation = 'repeatable read'")
        .unwrap();
    for mode in MODES {
        let backend = backend(&server, mode).await;
        let held = claim("x", LONG);
        granted(&backend, &held).await;
        backend
            .break_lock(&held.name, BreakTarget::Token(held.token), BreakMode::RunOut, "us", "test")
            .await
            .unwrap();
        let renewed = backend.renew(&[Renew::of(&held)]).await.unwrap();
        assert_eq!(renewed, [Renewal::not_held(Reason::Broken)], "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_end_a_session_is_told_what_it_takes() {
    let server = server();
    for mode in MODES {
        let one = backend(&server, mode).await;
        let held = claim("x", LONG);
        granted(&one, &held).await;
        server.sql("DROP OWNED BY auditor; DROP ROLE auditor").ok();
        server
            .sql(
                "CREATE ROLE auditor LOGIN PASSWORD 'secret'; \
                 GRANT ALL ON ALL TABLES IN SCHEMA public TO auditor",
            )
            .unwrap();
        let url = format!("postgres://auditor:secret@127.0.0.1:{}/lockwright", server.port());
        let other =
            lockwright_sql::Postgres::connect(&crate::support::in_mode(&url, mode)).await.unwrap();
        let seen = BreakTarget::Token(held.token);
        let error =
            other.break_lock(&name("x"), seen, BreakMode::Now, "ada", "stuck").await.unwrap_err();
        assert_eq!(error.kind(), lockwright_core::ErrorKind::Denied, "{error:?}");
        assert!(error.to_string().contains("another user"), "{error}");
        assert_eq!(holding(&server), 1);
        one.release(&held, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_is_only_broken_when_any_is_meant() {
    let server = server();
    let backend = backend(&server, "session").await;
    let mine = claim("x", LONG);
    granted(&backend, &mine).await;
    backend.release(&mine, ReleaseMode::Plain).await.unwrap();
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    sqlx::raw_sql(
        "SELECT pg_advisory_lock(('x' || substr(encode(sha256('x'), 'hex'), 1, 16))::bit(64)::bigint)",
    )
    .execute(&mut other)
    .await
    .unwrap();
    let how = BreakMode::Now;
    let seen = BreakTarget::Token(mine.token);
    let broken = backend.break_lock(&name("x"), seen, how, "ada", "stuck").await.unwrap();
    assert_eq!(broken, Broken::NotHeld);
    let soft =
        backend.break_lock(&name("x"), BreakTarget::Any, BreakMode::RunOut, "ada", "stuck").await;
    assert!(soft.unwrap_err().to_string().contains("end its session"));
    let broken =
        backend.break_lock(&name("x"), BreakTarget::Any, how, "ada", "stuck").await.unwrap();
    assert!(matches!(broken, Broken::Freed(_)), "{broken:?}");
    assert!(other.ping().await.is_err(), "its session is still there");
    granted(&backend, &claim("x", LONG)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_through_another_connection_ends_the_session() {
    let server = server();
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, backend(&server, mode).await);
        let held = claim("x", LONG);
        granted(&one, &held).await;
        two.release(&held, ReleaseMode::Plain).await.unwrap();
        assert_eq!(holding(&server), 0);
        assert_eq!(sessions_of(&server, held.token), 0);
        let next = claim("x", LONG);
        granted(&two, &next).await;
        // A late release doesn't affect the next hold.
        one.release(&held, ReleaseMode::Plain).await.unwrap();
        assert_eq!(holding(&server), 1);
        two.release(&next, ReleaseMode::Plain).await.unwrap();
    }
}

/// A stuck server process can't be ended either.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_ended_is_not_said_to_be_free() {
    let server = server();
    for mode in MODES {
        let (one, two) = (backend(&server, mode).await, backend(&server, mode).await);
        let held = claim("x", LONG);
        granted(&one, &held).await;
        let stuck = server.sql(&format!(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'lockwright/{}/%'",
            held.token
        ));
        let stuck = Pid::from_raw(stuck.unwrap().trim().parse().unwrap()).unwrap();
        kill_process(stuck, Signal::STOP).unwrap();
        let released = two.release(&held, ReleaseMode::Plain).await;
        let broken = two
            .break_lock(&held.name, BreakTarget::Token(held.token), BreakMode::Now, "ada", "stuck")
            .await;
        let holding = holding(&server);
        kill_process(stuck, Signal::CONT).unwrap();
        assert_eq!(released.unwrap_err().kind(), ErrorKind::Indeterminate);
        assert_eq!(broken.unwrap_err().kind(), ErrorKind::Indeterminate);
        assert_eq!(holding, 1, "it was free");
        within(ms(5_000), "its end", async || sessions_of(&server, held.token) == 0).await;
        assert_eq!(two.release(&held, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_session_that_has_not_ended_is_not_said_to_be_free() {
    let server = server();
    let backend = backend(&server, "session").await;
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    let lock = "SELECT pg_advisory_lock(('x' || substr(encode(sha256('x'), 'hex'), 1, 16))::bit(64)::bigint)";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let stuck: i32 =
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut other).await.unwrap();
    let stuck = Pid::from_raw(stuck).unwrap();
    kill_process(stuck, Signal::STOP).unwrap();
    let broken =
        backend.break_lock(&name("x"), BreakTarget::Any, BreakMode::Now, "ada", "stuck").await;
    kill_process(stuck, Signal::CONT).unwrap();
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Indeterminate);
    within(ms(5_000), "its end", async || holding(&server) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_leaves_the_held_and_keeps_the_fences() {
    let server = server();
    for mode in MODES {
        let backend = backend(&server, mode).await;
        let (held, over) = (claim("held", LONG), claim("over", LONG));
        granted(&backend, &held).await;
        let before = granted(&backend, &over).await.fence;
        backend.release(&over, ReleaseMode::Plain).await.unwrap();
        let rows = || {
            count(&server, &format!("SELECT count(*) FROM lockwright_hold WHERE kind = '{mode}'"))
        };
        assert_eq!(rows(), 2);
        backend.sweep(ms(0)).await.unwrap();
        assert_eq!(rows(), 2);
        server.sql("UPDATE lockwright_hold SET updated = updated - interval '1 hour'").unwrap();
        let swept = backend.sweep(ms(0)).await.unwrap();
        assert_eq!(swept.rows, 1, "{swept:?}");
        assert_eq!(rows(), 1, "the held one went, or the other stayed");
        if mode == "row" {
            assert_eq!(count(&server, "SELECT count(*) FROM lockwright_row"), 1);
        }
        let floor = count(&server, "SELECT floor FROM lockwright_meta");
        assert!(floor as u64 >= before.get(), "the floor is {floor}");
        // Ahead of the clock, so that the floor decides.
        server.sql("UPDATE lockwright_meta SET floor = floor + 1000000000000000").unwrap();
        let again = claim("over", LONG);
        let fence = granted(&backend, &again).await.fence;
        assert!(fence.get() > floor as u64 + 1_000_000_000_000_000);
        server.sql("UPDATE lockwright_meta SET floor = 0").unwrap();
        for claim in [&held, &again] {
            backend.release(claim, ReleaseMode::Plain).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind() {
    let server = server();
    for mode in MODES {
        let locks = client(&server, mode, LONG).await;
        for number in 0..20 {
            locks.mutex(format!("x{number}")).acquire().await.unwrap().release().await.unwrap();
        }
        locks.close().await;
        drop(locks);
        within(ms(8_000), "the connections to be closed", async || {
            count(&server, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'lockwright'")
                == 0
        })
        .await;
    }
}
