use super::server::*;
use super::sweeping::{an_hour_passes, one_off_names, sweep};
use crate::support::*;

/// While the acquire waits for the name's row, the release stores a tombstone that the acquire
/// doesn't see.
#[tokio::test(flavor = "multi_thread")]
async fn claim_in_flight_is_reconciled() {
    let (server, backend) = start().await;
    let newcomer = Arc::new(connect(&server.url()).await);
    acquire_and_release(&backend, "x").await;

    // After its grant, `backend` sends `acquire_free`, and `newcomer` doesn't.
    for backend in [backend, newcomer] {
        let late = claim("x");
        let mut row = lock_lease(&server, "x").await;
        let asking = acquiring(&backend, &late, Wait::No);
        wait_for_blocked(&server, 1).await;
        let settling = tokio::spawn({
            let (backend, late) = (Arc::clone(&backend), late.clone());
            async move { backend.release(&late, ReleaseMode::Reconcile).await.unwrap() }
        });
        wait_for_blocked(&server, 2).await;
        row.execute("COMMIT").await.unwrap();
        settling.await.unwrap();
        let _ = asking.await.unwrap();
        assert!(backend.inspect(&name("x")).await.unwrap().holders.is_empty());
        refused(backend.try_acquire(&late).await, ErrorKind::Lost(Reason::Gone), "");
        // The name's row also records the released token, so the tombstone isn't needed here.
        server.sql("DELETE FROM lockwright_tombstone").unwrap();
        refused(backend.try_acquire(&late).await, ErrorKind::Lost(Reason::Gone), "");
        assert!(backend.inspect(&name("x")).await.unwrap().holders.is_empty(), "a ghost holds it");
    }
}

/// The server commits each statement separately, so an error may follow the grant.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_grant_is_indeterminate() {
    let (server, backend) = start().await;
    let slow = "CREATE TRIGGER slow AFTER INSERT ON lockwright_lease FOR EACH ROW \
                SET @slept = SLEEP(1)";
    server.sql(slow).unwrap();
    let held = claim("x");
    let asking = acquiring(&backend, &held, Wait::No);
    sleep(ms(400)).await;
    let locked = lock_table(&server, "lockwright_tombstone").await;
    refused(asking.await.unwrap(), ErrorKind::Indeterminate, "");
    locked.close().await.unwrap();
    let token = server.sql("SELECT token FROM lockwright_lease WHERE name = 'x'").unwrap();
    assert_eq!(token, held.token.to_string());
    backend.release(&held, ReleaseMode::Reconcile).await.unwrap();
}

#[tokio::test]
async fn grant_is_committed_for_each_completion_type() {
    let (server, _) = start().await;
    server.sql("SET GLOBAL completion_type = 'CHAIN'").unwrap();
    let url = format!("{}?connections=2", server.url());
    let backend = connect(&url).await;
    grant(&backend, &claim("x")).await;
    break_x(&backend, BreakTarget::Any, BreakMode::Now).await.unwrap();
    let held = hold(&backend, "y").await;
    let token = server.sql("SELECT token FROM lockwright_lease WHERE name = 'y'").unwrap();
    assert_eq!(token, held.token.to_string());
}

#[tokio::test]
async fn names_are_whole_in_a_database_with_another_character_set() {
    let server = Server::start().unwrap();
    server.sql("ALTER DATABASE lockwright CHARACTER SET latin1").unwrap();
    let backend = connect(&server.url()).await;
    for name in ["abc", "é", "ключ", "🔒"] {
        let held = claim(name);
        grant(&backend, &held).await;
        assert_eq!(renew(&backend, &held).await, Renewal::RENEWED, "{name}");
        release(&backend, &held).await;
    }
    // A sweep also reads names from a JSON_TABLE, which must keep their characters.
    an_hour_passes(&server);
    sweep(&backend, Duration::from_secs(1_800)).await;
    assert_eq!(server.sql("SELECT count(*) FROM lockwright_lease").unwrap(), "0");
}

/// A name without a row gets a fence above the floor in `lockwright_meta`. A trigger keeps the
/// floor low, so the sweep must not delete rows with higher fences.
#[tokio::test]
async fn a_row_above_the_floor_stays() {
    let (server, backend) = start().await;
    one_off_names(&server, 10);
    let too_low = "CREATE TRIGGER too_low BEFORE UPDATE ON lockwright_meta FOR EACH ROW \
                   SET NEW.floor = 1";
    server.sql(too_low).unwrap();
    assert_eq!(sweep(&backend, Duration::ZERO).await, 0);
    server.sql("DROP TRIGGER too_low").unwrap();
    assert_eq!(sweep(&backend, Duration::ZERO).await, 10);
}
