use super::server::*;
use super::sweeping::{an_hour_passes, sweep};
use crate::support::*;

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

/// Many rejected readers must not delay the holder's renewals, which lock the same row.
#[tokio::test]
async fn blocked_reader_needs_no_row_lock() {
    let (server, backend) = start().await;
    let _held = hold(&backend, "x").await;
    let _row = lock_lease(&server, "x").await;
    let outcome = backend.try_acquire(&reader("x", LIMIT)).await;
    assert!(matches!(outcome, Ok(AcquireOutcome::Busy(_))), "{outcome:?}");
}

#[tokio::test]
async fn reader_without_permission_is_denied() {
    let (server, _) = start().await;
    server.sql("REVOKE INSERT ON lockwright.* FROM lockwright@'%'").unwrap();
    let backend = connect(&server.url()).await;
    let refused = backend.try_acquire(&reader("x", LIMIT)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
}

#[tokio::test]
async fn grant_is_committed_for_each_completion_type() {
    let (server, _) = start().await;
    server.sql("SET GLOBAL completion_type = 'CHAIN'").unwrap();
    let url = format!("{}?connections=2", server.url());
    let backend = connect(&url).await;
    grant(&backend, &claim("x")).await;
    break_x(&backend, None, BreakMode::Now).await.unwrap();
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
    // Like a renewal, a sweep reads names from a JSON_TABLE, which must keep the names' characters.
    an_hour_passes(&server);
    sweep(&backend, Duration::from_secs(1_800)).await;
    assert_eq!(server.sql("SELECT count(*) FROM lockwright_lease").unwrap(), "0");
}
