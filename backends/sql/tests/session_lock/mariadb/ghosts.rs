//! Tests of failures that could leave a ghost, a hold that no client uses.

use std::sync::Mutex;

use super::server::*;
use crate::support::meddler::{Fate, meddle};
use crate::support::*;

in_each_mode!(plain; a_wait_that_ends_as_it_is_granted_leaves_nothing,
    a_wait_that_may_yet_be_cut_off_is_no_grant,
    a_wait_for_ones_own_ghost_is_no_hot_loop);

/// The texts of the next request to disturb, and the request's fate.
type Plan = Arc<Mutex<Option<(&'static [&'static str], Fate)>>>;

async fn meddler(server: &Server) -> (u16, Plan) {
    let plan = Plan::default();
    let fate = {
        let plan = Arc::clone(&plan);
        move |_, request: &[u8]| {
            let has = |text: &&str| request.windows(text.len()).any(|part| part == text.as_bytes());
            let planned = plan.lock().unwrap().take_if(|(texts, _)| texts.iter().any(has));
            planned.map_or(Fate::Forwarded, |(_, fate)| fate)
        }
    };
    (meddle(server.port(), fate).await, plan)
}

fn asked(server: &Server) -> usize {
    let questions = "SELECT variable_value FROM information_schema.global_status \
                     WHERE variable_name = 'QUESTIONS'";
    count(server, questions)
}

/// The server carries out a request, but the client's connection breaks before the answer. The
/// session may then still hold the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_used_session_that_fails_leaves_no_ghost() {
    const TRIES: u32 = 20;

    let server = Server::start().unwrap();
    for mode in MODES {
        let (port, plan) = meddler(&server).await;
        let backend = backend_through(&server, port, mode).await;
        let mut tries = 0;
        loop {
            for _ in 0..2 {
                acquire_and_release(&backend, "x").await;
            }
            // A prepared statement's request has the claim's mark, a lock name, but no SQL. A new
            // session sends SQL, with the mark in hexadecimal.
            *plan.lock().unwrap() = Some((&[" lockwright/", "GET_LOCK("], Fate::Unanswered));
            let held = claim_for("x", LONG);
            let answer = backend.acquire(&held, Wait::No).await;
            assert!(plan.lock().unwrap().is_none(), "{mode}: {answer:?}");
            match answer {
                Ok(AcquireOutcome::Granted(_)) => {
                    backend.release(&held, ReleaseMode::Plain).await.unwrap();
                    break;
                }
                Ok(AcquireOutcome::Busy(busy)) => panic!("{mode}: a ghost has it: {busy:?}"),
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
                    // Waits up to 500 ms for the session, which may already have ended, to get the
                    // mark.
                    for _ in 0..100 {
                        if sessions_of(&server, held.token) == 1 {
                            break;
                        }
                        sleep(ms(5)).await;
                    }
                    backend.release(&held, ReleaseMode::Reconcile).await.unwrap();
                }
            }
            tries += 1;
            assert!(tries < TRIES, "{mode}: no session is used again");
        }
    }
}

/// The wait's time limit ends just before or just after the grant.
async fn a_wait_that_ends_as_it_is_granted_leaves_nothing(server: &Server, mode: &str) {
    let (one, two) = (backend(server, mode).await, shared(server, mode).await);
    for round in 0..40 {
        let (holder, waiter) = (claim_for("x", LONG), claim_for("x", LONG));
        grant(&one, &holder).await;
        let waiting = acquiring(&two, &waiter, in_time(ms(125)));
        sleep(Duration::from_micros(98_000 + round * 150)).await;
        one.release(&holder, ReleaseMode::Plain).await.unwrap();
        if let AcquireOutcome::Granted(_) = waiting.await.unwrap().unwrap() {
            two.release(&waiter, ReleaseMode::Plain).await.unwrap();
        }
        assert_eq!(holding(server), 0, "{mode}, {round}: an idle session holds it");
    }
}

/// The proxy drops the `KILL QUERY` for the wait. A late `KILL QUERY` could interrupt a renewal, so
/// the session must end.
async fn a_wait_that_may_yet_be_cut_off_is_no_grant(server: &Server, mode: &str) {
    let (port, plan) = meddler(server).await;
    let two = backend_through(server, port, mode).await;
    let one = backend(server, mode).await;
    let (holder, waiter) = (claim_for("x", LONG), claim_for("x", LONG));
    grant(&one, &holder).await;
    *plan.lock().unwrap() = Some((&["KILL QUERY"], Fate::Dropped));
    let releasing = async {
        within(ms(5_000), "the wait to be cut off", async || plan.lock().unwrap().is_none()).await;
        one.release(&holder, ReleaseMode::Plain).await.unwrap();
    };
    let (answer, ()) = tokio::join!(two.acquire(&waiter, in_time(ms(500))), releasing);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable, "{mode}");
    assert_eq!(sessions_of(server, waiter.token), 0, "{mode}: its session is still there");
    assert_eq!(holding(server), 0, "{mode}");
}

/// The ghost has the lock that marks the waiter's token, as after a lost attempt. The server
/// rejects the waiter without delay, so the client must pause between attempts.
async fn a_wait_for_ones_own_ghost_is_no_hot_loop(server: &Server, mode: &str) {
    let backend = backend(server, mode).await;
    let waiter = claim_for("x", LONG);
    let mut ghost = Connection::connect(&server.url()).await.unwrap();
    run(&mut ghost, &format!("DO GET_LOCK({}, 0)", mark(waiter.token))).await;
    assert_eq!(sessions_of(server, waiter.token), 1);
    let before = asked(server);
    let answer = backend.acquire(&waiter, in_time(ms(2_000))).await.unwrap();
    let asked = asked(server) - before;
    assert!(matches!(answer, AcquireOutcome::Busy(_)), "{mode}: {answer:?}");
    // The client makes about twenty attempts with some requests each.
    assert!(asked < 1_000, "{mode}: the server was asked {asked} things");
    let waiting = backend.acquire(&waiter, in_time(LONG));
    let going = async {
        sleep(ms(300)).await;
        ghost.close().await.unwrap();
    };
    let (answer, ()) = tokio::join!(waiting, going);
    let AcquireOutcome::Granted(_) = answer.unwrap() else { panic!("{mode}: not when it is free") };
    backend.release(&waiter, ReleaseMode::Plain).await.unwrap();
}
