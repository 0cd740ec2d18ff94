//! Tests of sessions that several holds share.

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

use super::server::*;
use super::{LOCK_FENCES, SHORT_TTL, kill_joint_sessions};
use crate::support::*;

const CONNECTIONS: usize = 10;

/// The fewest connections with which holds share a session.
const FEWEST: usize = 5;

const TTL: Duration = ms(6_000);

fn url(server: &Server, connections: usize) -> String {
    format!("{}?mode=session&connections={connections}", server.url())
}

async fn backend(server: &Server, connections: usize) -> Arc<Backend> {
    Arc::new(Backend::connect(&url(server, connections)).await.unwrap())
}

async fn client(server: &Server, connections: usize, ttl: Duration) -> Locks {
    locks(&url(server, connections), ttl).await
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn has_all(backend: &dyn DistributedLock, claims: &[&Claim]) -> bool {
    let holds: Vec<_> = claims.iter().map(|claim| Renew::of(claim)).collect();
    let renewals = backend.renew(&holds).await.unwrap();
    renewals.iter().all(|one| matches!(one.outcome, RenewalOutcome::Renewed { .. }))
}

async fn until_recorded(backend: &dyn DistributedLock, of: &str) {
    within(ms(5_000), "the record", async || {
        let inspection = backend.inspect(&name(of)).await.unwrap();
        inspection.holders.iter().any(|holder| holder.identity.is_some())
    })
    .await;
}

async fn listed(backend: &Arc<Backend>) -> usize {
    let names = Locks::new(Arc::clone(backend)).unwrap().list("").await.unwrap();
    let recorded = |holder: &lockwright_core::Holder| holder.identity.is_some();
    names.iter().filter(|one| one.holders.iter().any(recorded)).count()
}

/// On a busy machine, one of many requests may fail because it is late.
fn on_time<T>(answer: Result<T, Error>) -> T {
    answer.unwrap_or_else(|error| panic!("late: {error:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_holds_need_ten_connections() {
    const HOLDS: usize = 1_000;

    let server = plain();
    // On a busy machine, a renewal of all holds may take seconds.
    let locks = client(&server, CONNECTIONS, TTL * 2).await;
    let acquiring = (0..HOLDS).map(|number| {
        let mutex = locks.mutex(format!("x{number}"));
        async move { on_time(mutex.wait_for(LONG).acquire().await) }
    });
    // At most 20 requests run at once, because each request has a time limit, and MySQL writes to
    // the disk for each grant and release.
    let guards: Vec<_> = stream::iter(acquiring).buffered(20).collect().await;
    let (mut most, begun) = (0, Instant::now());
    while begun.elapsed() < ms(9_000) {
        most = most.max(sessions(&server));
        sleep(ms(20)).await;
    }
    assert!(most <= CONNECTIONS, "{most} sessions");
    guards.iter().for_each(|guard| on_time(guard.check()));
    let other = backend(&server, CONNECTIONS).await;
    assert_eq!(listed(&other).await, HOLDS);
    for number in [0, HOLDS / 2, HOLDS - 1] {
        assert!(is_busy(&*other, &claim_for(&format!("x{number}"), LONG)).await);
    }
    let releasing = guards.into_iter().map(async |guard| on_time(guard.release().await));
    stream::iter(releasing).buffered(20).collect::<()>().await;
    assert_eq!(listed(&other).await, 0);
}

/// The server's locks are re-entrant within a session, but a second claim must be rejected.
#[tokio::test(flavor = "multi_thread")]
async fn name_is_held_once_in_a_session() {
    let server = plain();
    let one = backend(&server, FEWEST).await;
    let held = hold(&*one, "x").await;
    assert!(is_busy(&*one, &claim_for("x", LONG)).await);
    let same_token = Claim { name: name("y"), ..held.clone() };
    grant(&*one, &same_token).await;
    release(&*one, &same_token).await;
    assert!(has_all(&*one, &[&held]).await);
    release(&*one, &held).await;
    let two = backend(&server, FEWEST).await;
    let next = hold(&*two, "x").await;
    assert!(is_busy(&*one, &claim_for("x", LONG)).await);
    release(&*two, &next).await;
}

/// A joint session outlasts an expired hold, so another client can't determine a hold's remaining
/// time.
#[tokio::test(flavor = "multi_thread")]
async fn repeat_through_another_client_lasts_for_no_time() {
    let server = plain();
    let (one, other) = (backend(&server, FEWEST).await, backend(&server, FEWEST).await);
    let claim = claim_for("x", LONG);
    let first = grant(&*one, &claim).await;
    let repeated = grant(&*other, &claim).await;
    assert_eq!((repeated.fence, repeated.valid), (first.fence, Some(Duration::ZERO)));
    let expected = RenewalOutcome::Renewed { valid: Some(Duration::ZERO) };
    assert_eq!(renew(&*other, &claim).await.outcome, expected);
    assert!(has_all(&*one, &[&claim]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_hold_leaves_the_others() {
    let server = plain();
    let other = backend(&server, FEWEST).await;
    let one = client(&server, FEWEST, LONG).await;
    for case in ["young", "recorded", "busy"] {
        let kept = one.mutex("kept").acquire().await.unwrap();
        let broken = one.mutex("x").acquire().await.unwrap();
        let mut busy = JoinSet::new();
        match case {
            "recorded" => until_recorded(&*other, "x").await,
            "busy" => (0..30).for_each(|number| drop(busy.spawn(keep_busy(one.clone(), number)))),
            _ => {}
        }
        // The break ends the session only if the holder's client doesn't release the hold.
        let answer = break_x(&*other, broken.token(), BreakMode::Now).await;
        assert!(matches!(answer, Ok(Broken::Freed(_))), "{case}: {answer:?}");
        busy.shutdown().await;
        let next = hold(&*other, "x").await;
        let ended = timeout(ms(2_000), broken.signal().ended()).await.unwrap();
        assert_eq!(ended, HoldState::Lost(Reason::Broken));
        kept.check().unwrap();
        assert!(is_busy(&*other, &claim_for("kept", LONG)).await);
        release(&*other, &next).await;
        kept.release().await.unwrap();
    }
}

async fn keep_busy(locks: Locks, number: u32) {
    loop {
        let attempt = locks.mutex(format!("busy{number}")).try_acquire().await;
        if let Ok(Some(guard)) = attempt {
            let _ = guard.release().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_runs_out_beside_others() {
    let server = plain();
    let (one, other) = (backend(&server, FEWEST).await, backend(&server, FEWEST).await);
    let claims = ["expires", "x", "kept"].map(|of| claim_for(of, SHORT_TTL));
    for claim in &claims {
        grant(&*one, claim).await;
    }
    let [expires, broken, kept] = &claims;
    until_recorded(&*other, "x").await;
    let answer = break_x(&*other, broken.token, BreakMode::RunOut).await;
    assert!(matches!(answer, Ok(Broken::RunsOut(_))), "{answer:?}");
    let ended = within(SHORT_TTL * 2, "the holds to end", async || {
        assert!(has_all(&*one, &[kept]).await);
        is_free(&*other, "expires").await && is_free(&*other, "x").await
    })
    .await;
    assert!(ended > SHORT_TTL / 2, "{ended:?}");
    assert!(!has_all(&*one, &[expires]).await && !has_all(&*one, &[broken]).await);
    assert!(has_all(&*one, &[kept]).await);
    assert!(!is_free(&*other, "kept").await);
}

/// With this long TTL, the client polls most rarely for other clients' requests. If the client
/// missed a request, its session would end, with all holds.
#[tokio::test(flavor = "multi_thread")]
async fn hold_is_released_by_another_client() {
    let server = plain();
    let (one, other) = (client(&server, FEWEST, LONG).await, backend(&server, FEWEST).await);
    let kept = one.mutex("kept").acquire().await.unwrap();
    for _ in 0..5 {
        let guard = one.mutex("x").acquire().await.unwrap();
        let claim = Claim { token: guard.token(), ..claim_for("x", LONG) };
        let answer = other.release(&claim, ReleaseMode::Plain).await.unwrap();
        assert_eq!(answer, ReleaseOutcome::Released);
        assert!(is_free(&*other, "x").await);
        let ended = timeout(ms(2_000), guard.signal().ended()).await.unwrap();
        assert_eq!(ended, HoldState::Lost(Reason::Gone));
    }
    kept.check().unwrap();
}

/// A client that doesn't run can't release a hold, so its session ends, with all holds.
#[test]
fn stuck_clients_session_ends() {
    let server = plain();
    let (stuck, running) = (runtime(), runtime());
    let (one, held, kept) = stuck.block_on(async {
        let one = backend(&server, FEWEST).await;
        let (held, kept) = (hold(&*one, "x").await, hold(&*one, "kept").await);
        until_recorded(&*one, "x").await;
        (one, held, kept)
    });
    running.block_on(async {
        // On MySQL, asking the holder's client takes longer than this limit.
        let other = Config::new(&url(&server, FEWEST)).unwrap().response_timeout(ms(1_000));
        let other = Arc::new(other.connect().await.unwrap());
        let answer = break_x(&*other, held.token, BreakMode::Now).await;
        assert!(matches!(answer, Ok(Broken::Freed(_))), "{answer:?}");
        let next = hold(&*other, "x").await;
        assert!(is_free(&*other, "kept").await);
        release(&*other, &next).await;
    });
    stuck.block_on(async {
        within(ms(5_000), "the loss", async || !has_all(&*one, &[&kept]).await).await;
        assert!(!has_all(&*one, &[&held]).await);
    });
}

/// A client that doesn't run can't record its hold, so the remaining time is unknown.
#[test]
fn break_of_an_unrecorded_hold_reports_an_overlap() {
    let server = plain();
    let (stuck, running) = (runtime(), runtime());
    let (_one, held) = stuck.block_on(async {
        let one = backend(&server, CONNECTIONS).await;
        acquire_and_release(&*one, "y").await;
        let held = hold(&*one, "x").await;
        (one, held)
    });
    running.block_on(async {
        let other = backend(&server, FEWEST).await;
        let answer = break_x(&*other, held.token, BreakMode::Now).await;
        match answer {
            Ok(Broken::Freed(left)) => assert!(left > LONG / 2, "{left:?}"),
            // Without the record, MySQL and a joint session don't show the token.
            answer => assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable),
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_session_loses_all_its_holds() {
    let server = plain();
    let (one, other) = (client(&server, FEWEST, TTL).await, backend(&server, FEWEST).await);
    let guards = join_all(
        (0..20).map(async |number| one.mutex(format!("x{number}")).acquire().await.unwrap()),
    )
    .await;
    kill_joint_sessions(&server);
    for guard in &guards {
        let ended = timeout(ms(3_000), guard.signal().ended()).await.unwrap();
        assert_eq!(ended, HoldState::Lost(Reason::SessionEnded));
    }
    for number in 0..20 {
        within(ms(2_000), "the name to be free", async || {
            is_free(&*other, &format!("x{number}")).await
        })
        .await;
    }
    one.mutex("x0").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_attempt_loses_no_hold() {
    let server = plain();
    let locks = client(&server, FEWEST, TTL).await;
    let kept = locks.mutex("kept").acquire().await.unwrap();
    let other = backend(&server, FEWEST).await;
    until_recorded(&*other, "kept").await;
    let operator = session_after(&server, LOCK_FENCES).await;
    let names = [0, 1, 2, 3].map(|number| format!("x{number}"));
    let attempts = names.each_ref().map(|name| tokio::spawn(locks.mutex(name).try_acquire()));
    // To last two TTLs, `kept` needs renewals.
    sleep(TTL * 2).await;
    kept.check().unwrap();
    drop(operator);
    for attempt in attempts {
        drop(attempt.await.unwrap());
    }
    for name in &names {
        within(ms(10_000), "the name to be free", async || is_free(&*other, name).await).await;
    }
    kept.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_attempt_holds_nothing() {
    let server = plain();
    let (one, other) = (backend(&server, FEWEST).await, backend(&server, FEWEST).await);
    let kept = hold(&*one, "kept").await;
    for round in 0..60u64 {
        let claim = claim_for("x", LONG);
        let _ = timeout(Duration::from_micros(round * 20), one.try_acquire(&claim)).await;
        one.release(&claim, ReleaseMode::Plain).await.unwrap();
        within(ms(3_000), "the name to be free", async || is_free(&*other, "x").await).await;
    }
    assert!(has_all(&*one, &[&kept]).await);
}

/// A waiter gets a session of its own, and the next holds share again.
#[tokio::test(flavor = "multi_thread")]
async fn waiter_follows_a_hold_in_a_joint_session() {
    let server = plain();
    let (one, other) = (client(&server, FEWEST, TTL).await, client(&server, FEWEST, TTL).await);
    let mut fence = 0;
    for round in 0..20 {
        let (from, to) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let held = from.mutex("x").acquire().await.unwrap();
        let waiting = tokio::spawn(to.mutex("x").no_limit().acquire());
        within(ms(3_000), "the waiter to block", async || {
            from.inspect("x").await.unwrap().waiters == Some(1)
        })
        .await;
        assert!(held.fence().get() > fence);
        fence = held.fence().get();
        held.release().await.unwrap();
        let next = timeout(ms(3_000), waiting).await.unwrap().unwrap().unwrap();
        assert!(next.fence().get() > fence);
        fence = next.fence().get();
        next.release().await.unwrap();
    }
}

/// The client waits for more names than it has sessions for waits.
#[tokio::test(flavor = "multi_thread")]
async fn waits_leave_a_session_for_holds() {
    /// Five of the client's eight sessions have other uses: one is joint, two are for requests, one
    /// listens, and one ends sessions.
    const FOR_WAITS: u64 = 3;

    let server = plain();
    let (one, other) = (backend(&server, 8).await, backend(&server, FEWEST).await);
    let names = ["a", "b", "c", "d", "e"];
    let mut waits = JoinSet::new();
    for name in names {
        hold(&*other, name).await;
        let (one, claim) = (Arc::clone(&one), claim_for(name, LONG));
        let limit = Clock::boot().now() + LONG;
        waits.spawn(async move { while one.acquire(&claim, Wait::Until(limit)).await.is_err() {} });
    }
    within(ms(5_000), "the waits to have their sessions", async || {
        let mut blocked = 0;
        for of in names {
            blocked += other.inspect(&name(of)).await.unwrap().waiters.unwrap();
        }
        blocked == FOR_WAITS
    })
    .await;
    let held = hold(&*one, "x").await;
    release(&*one, &held).await;
    // `y` has another TTL, so it needs another joint session. To free a permit, the client closes
    // the first joint session, which has no holds.
    let claim = claim_for("y", TTL);
    within(ms(5_000), "a session", async || one.try_acquire(&claim).await.is_ok()).await;
}

/// The server ends the holds of a client that doesn't run, each within its own TTL. A reused
/// session may have the idle timeout of an earlier claim.
#[test]
fn each_hold_expires_within_its_own_ttl() {
    /// The shortest idle timeout that a released session keeps.
    const REUSED: Duration = ms(10_000);

    let server = plain();
    let (stuck, running) = (runtime(), runtime());
    let _one = stuck.block_on(async {
        let one = backend(&server, 8).await;
        acquire_and_release(&*one, "x").await;
        grant(&*one, &claim_for("reused", REUSED)).await;
        hold(&*one, "long").await;
        grant(&*one, &claim_for("short", SHORT_TTL)).await;
        one
    });
    running.block_on(async {
        let other = backend(&server, FEWEST).await;
        for (of, limit) in [("short", SHORT_TTL * 3), ("reused", REUSED * 2)] {
            within(limit, "the hold to end", async || is_free(&*other, of).await).await;
        }
        assert!(!is_free(&*other, "long").await);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_dont_share_a_session() {
    let server = plain();
    let (one, other) = (backend(&server, 8).await, backend(&server, 8).await);
    if !one.profile().modes.contains(Mode::Shared) {
        return;
    }
    hold(&*one, "filler").await;
    let held = hold(&*one, "x").await;
    grant(&*one, &reader("read", LONG)).await;
    grant(&*other, &reader("read", LONG)).await;
    assert!(is_busy(&*other, &claim_for("read", LONG)).await);
    assert!(has_all(&*one, &[&held]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_leaves_the_held() {
    let server = plain();
    let one = backend(&server, FEWEST).await;
    let (kept, freed) = (hold(&*one, "kept").await, hold(&*one, "freed").await);
    within(ms(5_000), "the records", async || listed(&one).await == 2).await;
    release(&*one, &freed).await;
    server.sql(&format!("UPDATE lockwright_hold SET updated = updated - 24 * {HOUR}")).unwrap();
    one.sweep(ms(60_000)).await.unwrap();
    assert_eq!(listed(&one).await, 1);
    let rows = count(&server, "SELECT count(*) FROM lockwright_hold");
    assert_eq!(rows, 1);
    assert!(has_all(&*one, &[&kept]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unrecorded_hold_is_not_broken_with_the_others() {
    let server = plain();
    let other = backend(&server, FEWEST).await;
    let one = client(&server, FEWEST, LONG).await;
    let kept = one.mutex("kept").acquire().await.unwrap();
    let first = one.mutex("x").acquire().await.unwrap();
    until_recorded(&*other, "x").await;
    first.release().await.unwrap();
    let _locking = lock_row(&server, "lockwright_hold", "name = 'x'").await;
    // MySQL has no sequences, and so records a hold before the grant. There, the acquire fails.
    let Ok(guard) = one.mutex("x").acquire().await else { return };
    for seen in [Some(guard.token()), None] {
        let answer = break_x(&*other, seen, BreakMode::Now).await;
        assert!(answer.unwrap_err().is_transient());
    }
    guard.check().unwrap();
    kept.check().unwrap();
    assert!(is_busy(&*other, &claim_for("kept", LONG)).await);
}

/// The server ends a session that is idle for a TTL, so the client closes it earlier.
#[tokio::test(flavor = "multi_thread")]
async fn session_without_holds_is_not_used_after_its_end() {
    let server = plain();
    let mut clients = JoinSet::new();
    for client in 0..16 {
        let one = backend(&server, FEWEST).await;
        clients.spawn(async move {
            for _ in 0..3 {
                let claim = claim_for(&format!("x{client}"), ms(1_000));
                grant(&*one, &claim).await;
                release(&*one, &claim).await;
                sleep(ms(960 + client * 20)).await;
            }
        });
    }
    clients.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_without_holds_makes_room() {
    let server = plain();
    let one = backend(&server, FEWEST).await;
    for seconds in 10..16 {
        let claim = claim_for("x", Duration::from_secs(seconds));
        grant(&*one, &claim).await;
        release(&*one, &claim).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_room_is_a_definite_error() {
    let server = plain();
    let one = backend(&server, FEWEST).await;
    let client = |ttl| Locks::builder(Arc::clone(&one)).ttl(ttl).build().unwrap();
    let (first, second, third) = (client(LONG), client(LONG / 2), client(ms(2_000)));
    let _held = (
        first.mutex("a").wait_for(LONG).acquire().await.unwrap(),
        second.mutex("b").wait_for(LONG).acquire().await.unwrap(),
    );
    let attempts =
        (0..12).map(async |number| third.mutex(format!("c{number}")).try_acquire().await);
    for answer in join_all(attempts).await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
