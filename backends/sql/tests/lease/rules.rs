use std::time::UNIX_EPOCH;

use super::server::*;
use super::{SETTINGS, UNTIL};
use crate::support::*;

/// A time in the unit of the columns.
const FAR_FUTURE: u64 = 9_000_000_000_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn hold_that_expires_while_its_row_is_locked_is_not_revived() {
    let (server, backend) = start().await;
    let ttl = Duration::from_secs(1);
    for by_renewal in [true, false] {
        let held = claim_for("x", ttl);
        let first = grant(&backend, &held).await;
        let mut row = lock_lease(&server, "x").await;
        // The wait begins shortly before the hold expires, because no request waits for a row for a
        // whole TTL.
        sleep(ttl * 8 / 10).await;
        let asking = tokio::spawn({
            let (backend, held) = (Arc::clone(&backend), held.clone());
            async move {
                if by_renewal {
                    renew(&backend, &held).await == Renewal::RENEWED
                } else {
                    // A grant with a new fence is correct. A grant with the old fence would revive
                    // the expired hold.
                    let answer = backend.try_acquire(&held).await;
                    matches!(answer, Ok(AcquireOutcome::Granted(granted)) if granted.fence == first.fence)
                }
            }
        });
        sleep(ttl * 3 / 10).await;
        row.execute("COMMIT").await.unwrap();
        assert!(!asking.await.unwrap(), "it was revived, by a renewal: {by_renewal}");
        if by_renewal {
            assert_eq!(renew(&*backend, &held).await, Renewal::not_held(Reason::Expired));
        }
        let ended = backend.release(&held, ReleaseMode::Plain).await.unwrap();
        assert!(!by_renewal || ended == ReleaseOutcome::NotHeld, "{ended:?}");
    }
}

#[tokio::test]
async fn fences_grow_past_what_was_reserved() {
    let (server, backend) = start().await;
    let held = Claim { fences: 7, ..claim("x") };
    let first = grant(&backend, &held).await.fence.get();
    let again = grant(&backend, &held).await;
    assert_eq!((again.fence.get(), again.fences), (first, 7));
    let shown = backend.inspect(&name("x")).await.unwrap();
    assert_eq!(shown.fence, Some(Fence::new(first + 6)));
    break_x(&backend, None, BreakMode::Now).await.unwrap();
    assert_eq!(renew(&backend, &held).await, Renewal::not_held(Reason::Broken));
    // The row's fence is ahead of the clock, as after a step back of the server's clock.
    server.sql("UPDATE lockwright_lease SET fence = 9000000000000000").unwrap();
    assert_eq!(grant(&backend, &claim("x")).await.fence, Fence::new(9_000_000_000_000_007));
    let last = "UPDATE lockwright_lease SET token = NULL, fences = 1, fence = 9007199254740991";
    server.sql(last).unwrap();
    refused(backend.try_acquire(&claim("x")).await, ErrorKind::Conflict, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_past_what_was_granted_during_a_wait() {
    let (server, backend) = start().await;
    let newcomer = Arc::new(connect(&server.url()).await);
    acquire_and_release(&backend, "x").await;
    // `backend` was granted the name before, so it sends `acquire_free` first. `newcomer` sends
    // `acquire` at once.
    for (backend, fence) in [(backend, 8_000_000_000_000_000), (newcomer, 9_000_000_000_000_000)] {
        let mut row = lock_lease(&server, "x").await;
        let asked = claim("x");
        let asking = acquiring(&backend, &asked, Wait::No);
        wait_for_blocked(&server, 1).await;
        let granted_elsewhere =
            format!("UPDATE lockwright_lease SET fence = {fence}, fences = 5; COMMIT");
        row.execute(sqlx::AssertSqlSafe(granted_elsewhere)).await.unwrap();
        assert_eq!(granted(asking).await.fence, Fence::new(fence + 5));
        release(&*backend, &asked).await;
    }
}

/// A failover may lose the last writes, or set the clock back. The client was granted the name
/// before, so it sends `acquire_free`.
#[tokio::test]
async fn fences_exceed_the_row_and_the_clock() {
    const AHEAD: u64 = 1_000_000_000_000;

    let (server, backend) = start().await;
    let last_of = |granted: &Granted| granted.fence.get() + u64::from(granted.fences) - 1;
    for (row, ahead) in [("1".to_owned(), 0), (format!("fence + {AHEAD}"), AHEAD)] {
        for mode in [Mode::Exclusive, Mode::Permits { count: 1, of: 2 }] {
            let mut held = Claim { mode, fences: 5, ..claim("x") };
            let mut last = last_of(&grant(&backend, &held).await);
            for is_swap in [true, false, false] {
                server.sql(&format!("UPDATE lockwright_lease SET fence = {row}")).unwrap();
                let next = Claim { token: Token::random(), ..held.clone() };
                let answer = if is_swap {
                    backend.swap(held.token, &next).await.unwrap()
                } else {
                    release(&*backend, &held).await;
                    backend.try_acquire(&next).await.unwrap()
                };
                let AcquireOutcome::Granted(granted) = answer else { panic!("{answer:?}") };
                let fence = granted.fence.get();
                assert!(fence > last + ahead, "{mode}, swap {is_swap}: {fence} after {last}");
                (held, last) = (next, last_of(&granted));
            }
            release(&*backend, &held).await;
        }
    }
}

/// `backend` was granted the name before, so it sends `acquire_free`. `newcomer` sends `acquire`.
#[tokio::test]
async fn grants_and_renewals_set_each_column() {
    let (server, backend) = start().await;
    let newcomer = connect(&server.url()).await;
    acquire_and_release(&*backend, "x").await;
    let mut held = Claim { fences: 7, ..claim("x") };
    let mut from = held.token;
    for how in [
        "acquire",
        "acquire_free",
        "swap",
        "swap again",
        "repeat",
        "renew",
        "acquire the first time",
    ] {
        let is_new = !matches!(how, "swap again" | "repeat" | "renew");
        let is_free = how.starts_with("acquire");
        let mut stale = "UPDATE lockwright_lease SET ttl = 1, updated = 1".to_owned();
        stale += if is_new { ", identity = '', fence = 1, fences = 3" } else { "" };
        stale += if is_free {
            ", mode = 'shared', broken = 'by me', expires = 1"
        } else {
            ", expires = expires + 3600000000"
        };
        if how == "acquire the first time" {
            stale = "DELETE FROM lockwright_lease".to_owned();
        }
        server.sql(&stale).unwrap();
        if is_new {
            from = std::mem::replace(&mut held.token, Token::random());
        }
        match how {
            "acquire_free" => drop(grant(&*backend, &held).await),
            "swap" | "swap again" => drop(backend.swap(from, &held).await.unwrap()),
            "renew" => assert_eq!(renew(&*backend, &held).await, Renewal::RENEWED),
            _ => drop(grant(&newcomer, &held).await),
        }
        let row = format!(
            "SELECT count(*) FROM lockwright_lease WHERE token = '{}' AND mode = 'exclusive' \
             AND fences = {} AND ttl = 30000000 AND abs(expires - updated - ttl) < 10000000 \
             AND fence > 1700000000000000 AND updated > 1700000000000000 AND identity <> '' \
             AND broken IS NULL",
            held.token,
            if is_free { 7 } else { 1 },
        );
        assert_eq!(count(&server, &row), 1, "{how}");
    }
}

/// When the claim gets the row's lock, another hold was granted, or the claim's own expired hold was
/// reconciled.
#[tokio::test(flavor = "multi_thread")]
async fn claim_rejected_after_a_wait_changes_no_hold() {
    let (server, backend) = start().await;
    let newcomer = Arc::new(connect(&server.url()).await);
    let held = hold(&*backend, "x").await;
    server.sql("UPDATE lockwright_lease SET expires = 1").unwrap();
    let other = Claim { fences: 5, ..claim("x") };
    for (asked, expires, ended) in
        [(other, FAR_FUTURE, String::new()), (held.clone(), 1, held.token.to_string())]
    {
        let mut row = lock_lease(&server, "x").await;
        let asking = acquiring(&newcomer, &asked, Wait::No);
        wait_for_blocked(&server, 1).await;
        let change = format!(
            "UPDATE lockwright_lease SET expires = {expires}, tombstones = '{ended}'; COMMIT"
        );
        run(&mut row, &change).await;
        let answer = asking.await.unwrap();
        assert!(!matches!(answer, Ok(AcquireOutcome::Granted(_))), "{answer:?}");
        let unchanged = format!(
            "SELECT count(*) FROM lockwright_lease WHERE token = '{}' AND expires = {expires} \
             AND fences = 1 AND ttl = 60000000",
            held.token
        );
        assert_eq!(count(&server, &unchanged), 1, "{answer:?}");
    }
}

/// On MySQL, only a client's first rejection after its own grant locks the row. On PostgreSQL, only
/// a waiter's first rejection locks the row, to record the waiter.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_rejection_needs_no_lock_of_the_row() {
    let (server, holder) = start().await;
    for wait in [Wait::No, in_time(ms(30_000))] {
        let rejected = claim("x");
        let other = connect(&server.url()).await;
        acquire_and_release(&other, "x").await;
        let held = hold(&*holder, "x").await;
        busy(&other, &rejected, wait).await;

        let mut row = lock_lease(&server, "x").await;
        busy(&other, &rejected, wait).await;
        if SCHEME == "mysql" {
            busy(&other, &reader("x", LONG), wait).await;
        }
        row.execute("COMMIT").await.unwrap();
        release(&*holder, &held).await;
    }
}

/// The acquire waits for the name's row, and doesn't see the release's tombstone. On MySQL, the
/// acquire begins first. PostgreSQL commits the tombstone only with the release.
#[tokio::test(flavor = "multi_thread")]
async fn claim_in_flight_is_reconciled() {
    let (server, backend) = start().await;
    let newcomer = Arc::new(connect(&server.url()).await);
    acquire_and_release(&backend, "x").await;

    // `backend` sends `acquire_free` first, because it was granted the name before.
    for backend in [backend, newcomer] {
        let late = claim("x");
        let mut row = lock_lease(&server, "x").await;
        let mut asking = None;
        if SCHEME == "mysql" {
            asking = Some(acquiring(&backend, &late, Wait::No));
            wait_for_blocked(&server, 1).await;
        }
        let settling = tokio::spawn({
            let (backend, late) = (Arc::clone(&backend), late.clone());
            async move { backend.release(&late, ReleaseMode::Reconcile).await.unwrap() }
        });
        wait_for_blocked(&server, 1 + usize::from(asking.is_some())).await;
        let asking = asking.unwrap_or_else(|| acquiring(&backend, &late, Wait::No));
        wait_for_blocked(&server, 2).await;
        row.execute("COMMIT").await.unwrap();
        let (settled, answer) = (settling.await.unwrap(), asking.await.unwrap());
        if SCHEME == "postgres" {
            assert_eq!(settled, ReleaseOutcome::NotHeld);
            refused(answer, ErrorKind::Lost(Reason::Gone), "");
        }
        refused(backend.try_acquire(&late).await, ErrorKind::Lost(Reason::Gone), "");
        // The name's row also records the released token, so the tombstone isn't needed here.
        server.sql("DELETE FROM lockwright_tombstone").unwrap();
        refused(backend.try_acquire(&late).await, ErrorKind::Lost(Reason::Gone), "");
        assert!(backend.inspect(&name("x")).await.unwrap().holders.is_empty(), "a ghost holds it");
    }
}

/// A late duplicate of the acquire may arrive until the hold would have expired. The token may have
/// a tombstone already, from another name.
#[tokio::test]
async fn tombstone_lasts_as_long_as_the_ttl() {
    const HOUR: Duration = Duration::from_secs(60 * 60);

    let (server, backend) = start().await;
    for (ttl, earlier) in [(2 * HOUR, None), (ms(20_000), Some(1)), (ms(20_000), Some(FAR_FUTURE))]
    {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits { count: 1, of: 2 }] {
            for ending in ["break", "transfer", "release"] {
                let held = Claim { mode, ..claim_for("x", ttl) };
                let next = Claim { token: Token::random(), ..held.clone() };
                grant(&backend, &held).await;
                let tombstone = format!("FROM lockwright_tombstone WHERE token = '{}'", held.token);
                if let Some(until) = earlier {
                    let note = if until == 1 { "NULL" } else { "'earlier'" };
                    let row = format!(
                        "INSERT INTO lockwright_tombstone (token, {UNTIL}, broken) \
                         VALUES ('{}', {until}, {note})",
                        held.token
                    );
                    server.sql(&row).unwrap();
                }
                match ending {
                    "break" => {
                        break_x(&backend, held.token, BreakMode::Now).await.unwrap();
                        let renewal = renew(&*backend, &held).await;
                        assert_eq!(renewal, Renewal::not_held(Reason::Broken));
                    }
                    "transfer" => {
                        backend.swap(held.token, &next).await.unwrap();
                        release(&*backend, &next).await;
                    }
                    _ => drop(backend.release(&held, ReleaseMode::Reconcile).await.unwrap()),
                }
                let until = count(&server, &format!("SELECT {UNTIL} {tombstone}")) as u64;
                if earlier == Some(FAR_FUTURE) {
                    let kept = format!("SELECT count(*) {tombstone} AND broken = 'earlier'");
                    assert_eq!((until, count(&server, &kept)), (FAR_FUTURE, 1), "{mode}, {ending}");
                }
                let left = Duration::from_micros(until) - UNIX_EPOCH.elapsed().unwrap();
                assert!(left > ttl.max(HOUR) * 3 / 4, "{mode}, {ending}: {left:?}");
                if mode == Mode::Exclusive {
                    // An acquire that waits for the row can see only the row's own tombstone.
                    server.sql("DELETE FROM lockwright_tombstone").unwrap();
                    refused(backend.try_acquire(&held).await, ErrorKind::Lost(Reason::Gone), "");
                }
            }
        }
    }
}

/// The name's row has only the last tombstones. `backend` sends `acquire_free` first.
#[tokio::test]
async fn tombstone_missing_in_the_row_counts() {
    let (server, backend) = start().await;
    let newcomer = connect(&server.url()).await;
    let ended = hold(&*backend, "x").await;
    backend.release(&ended, ReleaseMode::Reconcile).await.unwrap();
    server.sql("UPDATE lockwright_lease SET tombstones = ''").unwrap();
    for backend in [&*backend, &newcomer] {
        refused(backend.try_acquire(&ended).await, ErrorKind::Lost(Reason::Gone), "");
        assert!(backend.inspect(&name("x")).await.unwrap().holders.is_empty(), "a ghost holds it");
    }
}

#[tokio::test]
async fn expired_hold_is_not_broken() {
    let (server, backend) = start().await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        for how in [BreakMode::RunOut, BreakMode::Now] {
            let held = Claim { mode, ..claim("x") };
            grant(&*backend, &held).await;
            for table in ["lease", "shared_holder"] {
                server.sql(&format!("UPDATE lockwright_{table} SET expires = updated")).unwrap();
            }
            assert_eq!(break_x(&*backend, held.token, how).await.unwrap(), Broken::NotHeld);
            let renewal = renew(&*backend, &held).await;
            assert_ne!(renewal, Renewal::not_held(Reason::Broken), "{mode}, {how:?}");
            let released = backend.release(&held, ReleaseMode::Reconcile).await.unwrap();
            assert_eq!(released, ReleaseOutcome::NotHeld, "{mode}, {how:?}");
        }
    }
}

#[tokio::test]
async fn broken_hold_keeps_its_expiry_and_first_reason() {
    let (server, backend) = start().await;
    for (mode, table) in [(Mode::Exclusive, "lease"), (Mode::Shared, "shared_holder")] {
        let held = Claim { mode, ..claim("x") };
        grant(&*backend, &held).await;
        let set =
            |what: &str| server.sql(&format!("UPDATE lockwright_{table} SET {what}")).unwrap();
        set("broken = 'earlier', expires = updated + 3600000000");
        break_x(&*backend, held.token, BreakMode::RunOut).await.unwrap();
        let other = break_x(&*backend, Token::random(), BreakMode::RunOut).await;
        assert_eq!(other.unwrap(), Broken::NotHeld, "{mode}");
        assert_eq!(renew(&*backend, &held).await, Renewal::not_held(Reason::Broken), "{mode}");
        let unchanged = format!(
            "SELECT count(*) FROM lockwright_{table} \
             WHERE broken = 'earlier' AND expires = updated + 3600000000"
        );
        assert_eq!(count(&server, &unchanged), 1, "{mode}");
        set("expires = updated");
        let expired = break_x(&*backend, held.token, BreakMode::RunOut).await;
        assert_eq!(expired.unwrap(), Broken::NotHeld, "{mode}");
        server.sql("UPDATE lockwright_lease SET expires = updated").unwrap();
    }
}

#[tokio::test]
async fn rejected_swap_changes_no_hold() {
    let (server, backend) = start().await;
    for (mode, table) in [(Mode::Exclusive, "lease"), (Mode::Shared, "shared_holder")] {
        for why in ["expired", "broken", "ended", "ended, by the row"] {
            let held = Claim { mode, ..claim("x") };
            let next = Claim { token: Token::random(), ..held.clone() };
            grant(&*backend, &held).await;
            let change = match why {
                "expired" => format!("UPDATE lockwright_{table} SET expires = updated"),
                "broken" => format!("UPDATE lockwright_{table} SET broken = 'me'"),
                "ended" => format!(
                    "INSERT INTO lockwright_tombstone (token, {UNTIL}) VALUES ('{}', {FAR_FUTURE})",
                    next.token
                ),
                _ => format!("UPDATE lockwright_lease SET tombstones = '{}'", next.token),
            };
            server.sql(&change).unwrap();
            let answer = backend.swap(held.token, &next).await.unwrap();
            assert!(matches!(answer, AcquireOutcome::Busy(_)), "{mode}, {why}: {answer:?}");
            let unchanged =
                format!("SELECT count(*) FROM lockwright_{table} WHERE token = '{}'", held.token);
            assert_eq!(count(&server, &unchanged), 1, "{mode}, {why}");
            for table in ["lease", "shared_holder", "tombstone"] {
                server.sql(&format!("DELETE FROM lockwright_{table}")).unwrap();
            }
        }
    }
}

/// A sweep deletes the row of a recent grant if the server's clock stepped. Until the client's
/// `acquire_free`, another request makes the row again.
#[tokio::test(flavor = "multi_thread")]
async fn row_made_without_a_grant_has_the_last_fence() {
    let (server, backend) = start().await;
    let reader = Claim { mode: Mode::Shared, ..claim("x") };
    for request in ["reconcile", "shared_reconcile", "shared_acquire"] {
        let making = || {
            let (backend, reader) = (Arc::clone(&backend), reader.clone());
            tokio::spawn(async move {
                match request {
                    "reconcile" => {
                        _ = backend.release(&claim("x"), ReleaseMode::Reconcile).await.unwrap()
                    }
                    "shared_reconcile" => {
                        _ = backend.release(&reader, ReleaseMode::Reconcile).await.unwrap()
                    }
                    _ => drop(backend.try_acquire(&reader).await.unwrap_err()),
                }
            })
        };
        let held = Claim { fences: 1_000_000_000, ..claim("x") };
        let last = grant(&*backend, &held).await.fence.get() + 999_999_999;
        release(&*backend, &held).await;
        let mut sweeper = session(&server).await;
        sweeper.execute("BEGIN; DELETE FROM lockwright_lease").await.unwrap();
        let request_waits = making();
        wait_for_blocked(&server, 1).await;
        sweeper.execute("COMMIT").await.unwrap();
        request_waits.await.unwrap();
        let next = claim("x");
        let fence = grant(&*backend, &next).await.fence.get();
        assert!(fence > last, "{request}: {fence} after {last}");
        release(&*backend, &next).await;

        let floor = last + 1_000_000_000;
        let sweep =
            format!("UPDATE lockwright_meta SET floor = {floor}; DELETE FROM lockwright_lease");
        server.sql(&sweep).unwrap();
        making().await.unwrap();
        let fence = grant(&*backend, &next).await.fence.get();
        assert!(fence > floor, "{request}: {fence} after {floor}");
        release(&*backend, &next).await;
    }
}

#[tokio::test]
async fn cancelled_waiter_is_lost_while_another_holds() {
    let (_server, backend) = start().await;
    let (held, waiting, cancelled) = (claim("x"), claim("x"), claim("x"));
    grant(&backend, &held).await;
    busy(&backend, &waiting, in_time(ms(10_000))).await;
    backend.release(&cancelled, ReleaseMode::Reconcile).await.unwrap();
    let answer = backend.acquire(&cancelled, in_time(ms(10_000))).await;
    refused(answer, ErrorKind::Lost(Reason::Gone), "");
}

/// At the level `serializable`, concurrent requests make each other fail, and the backend retries
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn serializable_transactions_are_no_obstacle() {
    let (server, _) = start().await;
    set_isolation(&server, "serializable");
    let clients = [connect(&server.url()).await, connect(&server.url()).await].map(Arc::new);
    for _ in 0..20 {
        let claims = [(); 8].map(|()| claim("x"));
        let requests: Vec<_> = claims
            .iter()
            .zip(clients.iter().cycle())
            .map(|(x, on)| acquiring(on, x, Wait::No))
            .collect();
        let mut granted = Vec::new();
        for (request, claim) in requests.into_iter().zip(&claims) {
            match request.await.unwrap() {
                Ok(AcquireOutcome::Granted(_)) => granted.push(claim),
                Ok(AcquireOutcome::Busy(_)) => {}
                // The error after the last attempt must say that the request had no effect.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
            }
        }
        assert_eq!(granted.len(), 1);
        release(&clients[0], granted[0]).await;
    }
}

#[tokio::test]
async fn nothing_in_a_value_is_taken_for_sql() {
    let (server, _backend) = start().await;
    for setting in SETTINGS {
        server.sql(setting).unwrap();
        let backend = connect(&server.url()).await;
        for odd in [
            "'; DROP TABLE lockwright_lease; --",
            "\\'; DROP TABLE lockwright_lease; --",
            "\\",
            "x\\'",
            ":name",
            "$1",
            "{lease}",
            "%_%",
            "naïve 🔒 \u{10FFFF}",
        ] {
            let held = claim(odd);
            grant(&backend, &held).await;
            let shown = backend.inspect(&name(odd)).await.unwrap();
            assert_eq!(shown.holders.len(), 1, "{odd:?}");
            let listed = backend.list(odd, None).await.unwrap();
            assert_eq!(listed.names.len(), 1, "{odd:?}");
            let broken =
                backend.break_lock(&held.name, BreakTarget::Any, BreakMode::RunOut, odd, odd);
            broken.await.unwrap();
            let shown = backend.inspect(&name(odd)).await.unwrap();
            assert_eq!(shown.holders[0].broken.as_deref(), Some(&*format!("{odd}: {odd}")));
            assert_eq!(renew(&backend, &held).await, Renewal::not_held(Reason::Broken));
            backend.release(&held, ReleaseMode::Reconcile).await.unwrap();
        }
    }
}
