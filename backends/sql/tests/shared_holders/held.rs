//! Rules for readers whose holds are in sessions of a server.

use std::sync::Arc;
use std::time::Duration;

use lockwright_conformance::test_helpers::{LIMIT, busy, claim, claim_for, grant};
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Clock, DistributedLock, Mode, Reason,
    ReleaseMode, ReleaseOutcome, Renew, RenewalOutcome, Wait,
};

use crate::rules::{Two, claim_as};

pub(crate) type Asks<'a> = &'a (dyn Fn(&str) -> String + Sync);

fn reader() -> Claim {
    claim_as("x", Mode::Shared)
}

fn within(time: Duration) -> Wait {
    Wait::Until(Clock::boot().now() + time)
}

fn wait_for(
    backend: &Arc<dyn DistributedLock>,
    claim: &Claim,
) -> tokio::task::JoinHandle<lockwright_core::Result<AcquireOutcome>> {
    let (backend, claim) = (Arc::clone(backend), claim.clone());
    tokio::spawn(async move { backend.acquire(&claim, within(LIMIT)).await })
}

async fn is_granted(
    waiting: tokio::task::JoinHandle<lockwright_core::Result<AcquireOutcome>>,
    who: &str,
) {
    let Ok(answer) = tokio::time::timeout(LIMIT, waiting).await else { panic!("{who} waits on") };
    let answer = answer.unwrap().unwrap();
    assert!(matches!(answer, AcquireOutcome::Granted(_)), "{who}: {answer:?}");
}

async fn release(backend: &dyn DistributedLock, claim: &Claim) {
    assert_eq!(backend.release(claim, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::Released);
}

async fn until_readers_are_refused(backend: &dyn DistributedLock) {
    let limit = Clock::boot().now() + LIMIT;
    loop {
        let next = reader();
        let AcquireOutcome::Granted(_) = backend.try_acquire(&next).await.unwrap() else { return };
        release(backend, &next).await;
        assert!(Clock::boot().now() < limit, "the writer that waits stops no readers");
    }
}

/// Between the slices of its wait no reader is granted, neither a polling one nor one queued behind
/// it.
pub(crate) async fn a_writer_that_waits_stays_ahead(Two(one, two): Two) {
    let slice = Duration::from_secs(2);
    let (first, late) = (reader(), reader());
    let writer = claim_for("x", slice);
    grant(&*one, &first).await;
    let writes = wait_for(&two, &writer);
    until_readers_are_refused(&*one).await;
    let reads = wait_for(&one, &late);
    let until = Clock::boot().now() + slice * 3;
    while Clock::boot().now() < until {
        busy(&*one, &reader(), Wait::No).await;
        assert!(!reads.is_finished(), "a reader that waits was let in");
        assert!(!writes.is_finished(), "the writer was let in beside a reader");
    }
    release(&*one, &first).await;
    is_granted(writes, "the writer").await;
    assert!(!reads.is_finished(), "a reader was let in beside the writer");
    release(&*two, &writer).await;
    is_granted(reads, "the reader").await;
    release(&*one, &late).await;
}

/// At once, though the writer's connection is kept for another claim.
pub(crate) async fn a_writer_that_gives_up_lets_readers_in(Two(one, two): Two) {
    let (first, late, writer) = (reader(), reader(), claim("x"));
    grant(&*one, &first).await;
    busy(&*two, &writer, within(Duration::from_millis(500))).await;
    grant(&*one, &late).await;
    release(&*one, &first).await;
    release(&*one, &late).await;
}

/// A claim repeated through another connection could get two sessions, of which a release ends one.
pub(crate) async fn one_session_reads_for_a_claim(Two(one, two): Two) {
    let held = reader();
    let fence = grant(&*one, &held).await.fence;
    let again = grant(&*two, &held).await;
    assert_eq!(again.fence, fence);
    assert!(again.valid.is_some(), "it can't be renewed from there: {again:?}");
    release(&*one, &held).await;
    let writer = claim("x");
    grant(&*two, &writer).await;
    release(&*two, &writer).await;
    for round in 0..8 {
        let held = reader();
        let wait = || if round % 2 == 0 { Wait::No } else { within(Duration::from_secs(1)) };
        let (a, b) = tokio::join!(one.acquire(&held, wait()), two.acquire(&held, wait()));
        let granted = [&a, &b].map(|answer| matches!(answer, Ok(AcquireOutcome::Granted(_))));
        assert_ne!(granted, [false; 2], "nobody got it: {a:?}, {b:?}");
        let carrier = if matches!(&a, Ok(AcquireOutcome::Granted(granted)) if granted.valid.is_none())
        {
            &one
        } else {
            &two
        };
        release(&**carrier, &held).await;
        let writer = claim("x");
        grant(&*one, &writer).await;
        release(&*one, &writer).await;
    }
}

/// Without a writer the name's row is untouched for long, but the shared fence must stay. Dead
/// readers are deleted first, and then the name.
pub(crate) async fn a_sweep_leaves_what_is_read(Two(one, two): Two, ask: Asks<'_>, hour: &str) {
    let rows = |table: &str| ask(&format!("SELECT count(*) FROM lockwright_{table}"));
    let age = || {
        for table in ["hold", "reader"] {
            ask(&format!("UPDATE lockwright_{table} SET updated = updated - {hour}"));
        }
    };
    let (stays, goes) = (reader(), reader());
    let fence = grant(&*one, &stays).await.fence;
    grant(&*one, &goes).await;
    assert_eq!(rows("reader"), "2");
    release(&*one, &goes).await;
    assert_eq!(rows("reader"), "1", "the row of one that has released stays");
    age();
    two.sweep(Duration::ZERO).await.unwrap();
    assert_eq!((rows("hold"), rows("reader")), ("1".to_owned(), "1".to_owned()));
    let beside = reader();
    assert_eq!(grant(&*two, &beside).await.fence, fence, "readers beside each other");
    release(&*two, &beside).await;
    // Its session is ended by the other backend, so it doesn't delete its row.
    release(&*two, &stays).await;
    assert_eq!(rows("reader"), "1");
    age();
    two.sweep(Duration::ZERO).await.unwrap();
    two.sweep(Duration::ZERO).await.unwrap();
    assert_eq!((rows("hold"), rows("reader")), ("0".to_owned(), "0".to_owned()));
    let next = reader();
    assert!(grant(&*two, &next).await.fence > fence);
    release(&*two, &next).await;
}

/// Inspection and listing show the readers too.
pub(crate) async fn all_are_broken_if_any_will_do(Two(one, two): Two) {
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let readers = [reader(), reader(), reader()];
        for reader in &readers {
            grant(&*one, reader).await;
        }
        let name = &readers[0].name;
        let shown = two.inspect(name).await.unwrap();
        assert_eq!(shown.holders.len(), 3, "{shown:?}");
        for holder in &shown.holders {
            assert_eq!((holder.mode, holder.fence), (Mode::Shared, shown.fence), "{holder:?}");
            assert!(holder.identity.is_some() && holder.remaining.is_some(), "{holder:?}");
        }
        let listed = two.list("", None).await.unwrap().names;
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0].holders.len(), 3, "{listed:?}");
        let broken = two.break_lock(name, BreakTarget::Any, how, "me", "to see").await.unwrap();
        match how {
            BreakMode::RunOut => assert!(matches!(broken, Broken::RunsOut(_)), "{broken:?}"),
            _ => assert!(matches!(broken, Broken::Freed(_)), "{broken:?}"),
        }
        for reader in &readers {
            let answers = one.renew(&[Renew::of(reader)]).await.unwrap();
            assert_eq!(answers[0].outcome, RenewalOutcome::NotHeld(Reason::Broken));
        }
        if how == BreakMode::RunOut {
            let shown = two.inspect(name).await.unwrap();
            let reasons = shown.holders.iter().filter(|holder| holder.broken.is_some());
            assert_eq!(reasons.count(), 3, "{shown:?}");
            for reader in &readers {
                release(&*one, reader).await;
            }
        }
        let writer = claim("x");
        grant(&*two, &writer).await;
        release(&*two, &writer).await;
    }
}

macro_rules! all {
    ($start:path) => {
        $crate::held::all!(
            $start,
            a_writer_that_waits_stays_ahead,
            a_writer_that_gives_up_lets_readers_in,
            one_session_reads_for_a_claim,
            all_are_broken_if_any_will_do
        );
    };
    ($start:path, $($rule:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $rule() {
                let (_server, two) = $start().await;
                $crate::held::$rule(two).await;
            }
        )*
    };
}
pub(crate) use all;

/// All tests of one mode of a server. The parent module has `connect_in`. `$hour` is in the unit of
/// the tables' times.
macro_rules! mode {
    ($mode:ident, $server:ty, $hour:literal) => {
        mod $mode {
            use super::*;
            use crate::held;

            async fn start() -> ($server, Two) {
                let server = <$server>::start().unwrap();
                let two = two(&server).await;
                (server, two)
            }

            async fn two(server: &$server) -> Two {
                let mode = stringify!($mode);
                Two::new(connect_in(server, mode).await, connect_in(server, mode).await)
            }

            rules::all!(start, nobody_gets_in_beside_a_writer);
            held::all!(start);

            #[tokio::test(flavor = "multi_thread")]
            async fn a_sweep_leaves_what_is_read() {
                let (server, two) = start().await;
                let ask = |sql: &str| server.sql(sql).unwrap();
                held::a_sweep_leaves_what_is_read(two, &ask, $hour).await;
            }

            #[tokio::test]
            async fn tables_of_an_earlier_layout_are_completed() {
                let (server, two) = start().await;
                drop(two);
                server.sql("DROP TABLE lockwright_reader").unwrap();
                held::all_are_broken_if_any_will_do(self::two(&server).await).await;
            }
        }
    };
}
pub(crate) use mode;
