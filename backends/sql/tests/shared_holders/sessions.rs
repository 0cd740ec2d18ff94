//! Tests of readers whose holds are in sessions of a server.

use super::server::*;
use crate::rules::{Two, claim_as};
use crate::support::*;

pub(super) async fn two(server: &Server, mode: &str) -> Two {
    let url = in_mode(&server.url(), mode);
    Two::new(connect(&url).await, connect(&url).await)
}

fn reader() -> Claim {
    claim_as("x", Mode::Shared)
}

/// The writer waits in several statements, each for one TTL. No reader is granted between two
/// statements, whether the reader polls or is queued behind the writer.
pub(super) async fn a_writer_that_waits_stays_ahead(Two(one, two): Two) {
    let slice = Duration::from_secs(2);
    let (first, late) = (reader(), reader());
    let writer = claim_for("x", slice);
    grant(&*one, &first).await;
    let writes = acquiring(&two, &writer, in_time(LIMIT));
    within(LIMIT, "the writer to stop readers", async || !can_read(&*one).await).await;
    let reads = acquiring(&one, &late, in_time(LIMIT));
    let until = Clock::boot().now() + slice * 3;
    while Clock::boot().now() < until {
        busy(&*one, &reader(), Wait::No).await;
        assert!(!reads.is_finished(), "a reader that waits was let in");
        assert!(!writes.is_finished(), "the writer was let in beside a reader");
    }
    release(&*one, &first).await;
    granted(writes).await;
    assert!(!reads.is_finished(), "a reader was let in beside the writer");
    release(&*two, &writer).await;
    granted(reads).await;
    release(&*one, &late).await;
}

/// A writer that gave up keeps its session open, but readers must be granted at once.
pub(super) async fn a_writer_that_gives_up_lets_readers_in(Two(one, two): Two) {
    let (first, late, writer) = (reader(), reader(), claim("x"));
    grant(&*one, &first).await;
    busy(&*two, &writer, in_time(ms(500))).await;
    grant(&*one, &late).await;
    release(&*one, &first).await;
    release(&*one, &late).await;
}

/// A claim that is repeated through another client must not get a second session, because a release
/// ends only one.
pub(super) async fn one_session_reads_for_a_claim(Two(one, two): Two) {
    let held = reader();
    let fence = grant(&*one, &held).await.fence;
    let again = grant(&*two, &held).await;
    assert_eq!(again.fence, fence);
    assert!(again.valid.is_some(), "it can't be renewed from there: {again:?}");
    release(&*one, &held).await;
    acquire_and_release(&*two, "x").await;
    for round in 0..8 {
        let held = reader();
        let wait = || if round % 2 == 0 { Wait::No } else { in_time(Duration::from_secs(1)) };
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
        acquire_and_release(&*one, "x").await;
    }
}

/// Readers' renewals don't update the name's row. A sweep must keep this old row, which has the
/// readers' fence. A name's row may outlast its ended readers by one sweep, so the test sweeps
/// twice.
pub(super) async fn a_sweep_leaves_what_is_read(server: &Server, Two(one, two): Two) {
    let rows = |table: &str| count(server, &format!("SELECT count(*) FROM lockwright_{table}"));
    let age = || {
        for table in ["hold", "reader"] {
            let age = format!("UPDATE lockwright_{table} SET updated = updated - {HOUR}");
            server.sql(&age).unwrap();
        }
    };
    let (stays, goes) = (reader(), reader());
    let fence = grant(&*one, &stays).await.fence;
    grant(&*one, &goes).await;
    assert_eq!(rows("reader"), 2);
    release(&*one, &goes).await;
    assert_eq!(rows("reader"), 1, "the row of one that has released stays");
    age();
    two.sweep(Duration::ZERO).await.unwrap();
    assert_eq!((rows("hold"), rows("reader")), (1, 1));
    let second = reader();
    assert_eq!(grant(&*two, &second).await.fence, fence, "readers beside each other");
    release(&*two, &second).await;
    // `two` ends the reader's session, so the reader's own client doesn't delete the row.
    release(&*two, &stays).await;
    assert_eq!(rows("reader"), 1);
    age();
    two.sweep(Duration::ZERO).await.unwrap();
    two.sweep(Duration::ZERO).await.unwrap();
    assert_eq!((rows("hold"), rows("reader")), (0, 0));
    let next = reader();
    assert!(grant(&*two, &next).await.fence > fence);
    release(&*two, &next).await;
}

macro_rules! tests_in {
    ($($mode:ident),*) => {
        $(
            mod $mode {
                use super::sessions::{self, two};
                use super::server::{Server, plain};
                use crate::rules::{self, Two};

                async fn start() -> (Server, Two) {
                    let server = plain();
                    let two = two(&server, stringify!($mode)).await;
                    (server, two)
                }

                rules::tests!(
                    start; rules: writer_excludes_all_others, all_are_broken_if_any_will_do
                );
                rules::tests!(
                    start;
                    sessions:
                    a_writer_that_waits_stays_ahead,
                    a_writer_that_gives_up_lets_readers_in,
                    one_session_reads_for_a_claim
                );

                #[tokio::test(flavor = "multi_thread")]
                async fn a_sweep_leaves_what_is_read() {
                    let (server, two) = start().await;
                    sessions::a_sweep_leaves_what_is_read(&server, two).await;
                }
            }
        )*
    };
}
pub(super) use tests_in;
