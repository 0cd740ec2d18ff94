use super::WAITING;
use super::server::*;
use super::sessions::two;
use crate::rules::{self, Two, claim_as};
use crate::support::*;

pub(super) async fn start() -> (Server, Two) {
    let server = plain();
    let two = two(&server, "lease").await;
    (server, two)
}

rules::all!(start);

#[tokio::test]
async fn expired_rows_are_swept() {
    let (server, Two(one, _)) = start().await;
    rules::leave_behind(&*one).await;
    let rows = || count(&server, "SELECT count(*) FROM lockwright_shared_holder");
    one.sweep(Duration::ZERO).await.unwrap();
    assert_eq!(rows(), 3);
    server.sql("UPDATE lockwright_shared_holder SET expires = expires - 600000000").unwrap();
    one.sweep(Duration::ZERO).await.unwrap();
    assert_eq!(rows(), 0);
}

/// The break and the repeated claim both wait for the hold's row. The break comes first, so the
/// repeated claim must not extend the hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_revives_no_broken_hold() {
    let (server, Two(one, two)) = start().await;
    let held = claim_as("x", Mode::Shared);
    grant(&*one, &held).await;
    server.sql("UPDATE lockwright_shared_holder SET expires = expires - ttl / 2").unwrap();
    let locking = lock_row(&server, "lockwright_shared_holder", "name = 'x'").await;
    let breaking = tokio::spawn({
        let (name, seen) = (held.name.clone(), BreakTarget::Token(held.token));
        async move { two.break_lock(&name, seen, BreakMode::RunOut, "me", "to see").await }
    });
    within(LIMIT, "the break to wait", async || count(&server, WAITING) == 1).await;
    let repeating = acquiring(&one, &held, Wait::No);
    within(LIMIT, "the claim to wait", async || count(&server, WAITING) == 2).await;
    locking.close().await.unwrap();
    let Broken::RunsOut(left) = breaking.await.unwrap().unwrap() else { panic!("not broken") };
    let valid = granted(repeating).await.valid.expect("that it is broken");
    assert!(valid <= left, "{left:?} were left, and the repeat made {valid:?} of it");
    let shown = one.inspect(&held.name).await.unwrap();
    assert!(shown.holders[0].remaining <= Some(left), "{shown:?} after {left:?}");
}

/// Other permits keep the name's row live, so only the holder's own row decides.
#[tokio::test]
async fn expired_or_broken_permits_are_not_revived() {
    let (server, Two(one, two)) = start().await;
    let permits = || claim_as("x", Mode::Permits { count: 2, of: 3 });
    let (expired, held) = (permits(), permits());
    grant(&*one, &expired).await;
    let expire = || server.sql("UPDATE lockwright_shared_holder SET expires = updated").unwrap();
    expire();
    grant(&*two, &held).await;
    busy(&*one, &expired, Wait::No).await;
    break_x(&*two, held.token, BreakMode::RunOut).await.unwrap();
    for claim in [&expired, &held] {
        let swapped = one.swap(claim.token, &permits()).await.unwrap();
        assert!(matches!(swapped, AcquireOutcome::Busy(_)), "{swapped:?}");
    }
    expire();
    grant(&*two, &held).await;
    assert_eq!(renew(&*two, &held).await, Renewal::RENEWED, "a new hold isn't broken");
}

/// A later request of a waiting writer renews its record, also if other readers hold the name now.
#[tokio::test]
async fn waiting_writer_is_recorded_again() {
    let (server, Two(one, two)) = start().await;
    let writer = claim("x");
    grant(&*one, &claim_as("x", Mode::Shared)).await;
    for void in ["fence = 1", "expires = 1"] {
        busy(&*two, &writer, in_time(LIMIT)).await;
        let record = format!("UPDATE lockwright_shared_holder SET {void} WHERE mode = 'exclusive'");
        server.sql(&record).unwrap();
        busy(&*two, &writer, in_time(LIMIT)).await;
        busy(&*one, &claim_as("x", Mode::Shared), Wait::No).await;
    }
}

/// After an expiry, another client was granted the name, and then the server's clock went back.
#[tokio::test]
async fn step_of_the_clock_revives_no_reader() {
    let (server, Two(one, two)) = start().await;
    let expire_after = |micros: u32| {
        for table in ["lease", "shared_holder"] {
            let expiry = format!("UPDATE lockwright_{table} SET expires = updated + {micros}");
            server.sql(&expiry).unwrap();
        }
    };
    for mode in [Mode::Exclusive, Mode::Shared] {
        let name = mode.to_string();
        let (expired, next) = (claim_as(&name, Mode::Shared), claim_as(&name, mode));
        grant(&*one, &expired).await;
        expire_after(0);
        grant(&*two, &next).await;
        if mode == Mode::Shared {
            release(&*two, &next).await;
        }
        expire_after(60_000_000);
        if mode == Mode::Exclusive {
            busy(&*one, &expired, Wait::No).await;
        }
        assert_ne!(renew(&*one, &expired).await, Renewal::RENEWED, "{mode}");
    }
}

#[tokio::test]
async fn reader_after_a_broken_writer_is_not_shown_as_broken() {
    let (server, Two(one, _)) = start().await;
    grant(&*one, &claim("x")).await;
    break_x(&*one, None, BreakMode::RunOut).await.unwrap();
    server.sql("UPDATE lockwright_lease SET expires = updated").unwrap();
    grant(&*one, &claim_as("x", Mode::Shared)).await;
    assert_eq!(one.inspect(&name("x")).await.unwrap().holders[0].broken, None);
}

#[tokio::test]
async fn grants_and_renewals_set_each_column() {
    const GRANTED: [&str; 2] = [
        "identity = 'stale', mode = 'exclusive', fence = 1, fences = 3, expires = 1, broken = 'me'",
        "identity = '', mode = 'exclusive', permits = 9, size = 9, fence = 1, expires = 1, broken = 'me'",
    ];

    let (server, Two(one, _)) = start().await;
    for (mode, size) in [(Mode::Shared, 0), (Mode::Permits { count: 2, of: 3 }, 3)] {
        let mut held = claim_as(&mode.to_string().replace(' ', "-"), mode);
        let mut from = held.token;
        let other = Claim { token: Token::random(), ..held.clone() };
        let other = match mode {
            Mode::Permits { of, .. } => Claim { mode: Mode::Permits { count: 1, of }, ..other },
            _ => other,
        };
        for claim in [&held, &other] {
            grant(&*one, claim).await;
        }
        let of_other = format!("WHERE token = '{}'", other.token);
        let change = "broken = 'me', ttl = 1, updated = 1, expires = expires + 3600000000";
        server.sql(&format!("UPDATE lockwright_shared_holder SET {change} {of_other}")).unwrap();
        for how in ["acquire", "swap", "swap again", "repeat", "renew"] {
            let [lease, holder] = match how {
                "acquire" => GRANTED,
                "swap" => ["fence = 1", "identity = '', expires = expires + 3600000000"],
                "repeat" => [
                    "identity = 'stale', fences = 3, broken = 'me'",
                    "expires = expires + 3600000000",
                ],
                _ => ["fences = 1", "expires = expires + 3600000000"],
            };
            let of_name = format!("WHERE name = '{}'", held.name);
            let of_held = format!("WHERE token = '{}'", held.token);
            for (table, stale, row) in
                [("lease", lease, of_name), ("shared_holder", holder, of_held)]
            {
                let stale =
                    format!("UPDATE lockwright_{table} SET ttl = 1, updated = 1, {stale} {row}");
                server.sql(&stale).unwrap();
            }
            match how {
                "swap" | "swap again" => {
                    if how == "swap" {
                        from = std::mem::replace(&mut held.token, Token::random());
                    }
                    let answer = one.swap(from, &held).await.unwrap();
                    assert!(matches!(answer, AcquireOutcome::Granted(_)), "{mode}: {answer:?}");
                }
                "renew" => assert_eq!(renew(&*one, &held).await, Renewal::RENEWED, "{mode}"),
                _ => drop(grant(&*one, &held).await),
            }
            let is_grant = matches!(how, "acquire" | "repeat");
            let rows = format!(
                "SELECT count(*) FROM lockwright_lease JOIN lockwright_shared_holder AS holder \
                 USING (name) WHERE name = '{}' AND holder.token = '{}' \
                 AND holder.identity <> '' AND holder.mode = lockwright_lease.mode \
                 AND permits = {} AND size = {size} AND holder.fence > 1700000000000000 \
                 AND holder.ttl = 30000000 AND abs(holder.expires - holder.updated - 30000000) < 10000000 \
                 AND holder.updated > 1700000000000000 AND holder.broken IS NULL \
                 AND lockwright_lease.fence > 1700000000000000 AND lockwright_lease.mode <> 'exclusive' \
                 AND lockwright_lease.updated > 1700000000000000{}",
                held.name,
                held.token,
                if size == 0 { 0 } else { 2 },
                if is_grant {
                    " AND lockwright_lease.identity = '' AND fences = 1 \
                     AND lockwright_lease.ttl = 30000000 AND lockwright_lease.broken IS NULL"
                } else {
                    ""
                },
            );
            assert_eq!(count(&server, &rows), 1, "{mode}, {how}");
            let unchanged = format!(
                "SELECT count(*) FROM lockwright_shared_holder {of_other} AND ttl = 1 AND updated = 1"
            );
            assert_eq!(count(&server, &unchanged), 1, "{mode}, {how}: another hold");
        }
    }
}

/// The waiting writer's record is no permit or hold, but readers wait for its expiry.
#[tokio::test]
async fn rejected_claim_waits_for_the_first_expiry() {
    let (server, Two(one, two)) = start().await;
    for (count, ttl) in [(1, LIMIT), (2, 10 * LIMIT)] {
        let mode = Mode::Permits { count, of: 3 };
        grant(&*one, &Claim { mode, ..claim_for("some", ttl) }).await;
    }
    let mode = Mode::Permits { count: 1, of: 3 };
    let after = busy(&*two, &claim_as("some", mode), Wait::No).await.retry_after;
    assert!(after.unwrap() <= LIMIT, "{after:?}");

    let held = claim_as("read", Mode::Shared);
    grant(&*one, &held).await;
    busy(&*two, &claim("read"), in_time(LIMIT)).await;
    let longer = "UPDATE lockwright_shared_holder SET expires = expires + 60000000 \
                  WHERE mode = 'exclusive'";
    server.sql(longer).unwrap();
    release(&*one, &held).await;
    let after = busy(&*one, &claim_as("read", Mode::Shared), Wait::No).await.retry_after;
    assert!(after.unwrap() > ms(20_000), "{after:?}");
    let other = claim("read");
    grant(&*one, &other).await;
    let shown = two.inspect(&other.name).await.unwrap().holders;
    assert_eq!(shown.iter().map(|it| it.token).collect::<Vec<_>>(), [Some(other.token)]);
}
