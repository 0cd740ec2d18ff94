mod leases;
mod sessions;

use self::server::BLOCKED as WAITING;
use crate::rules;
use crate::support::postgres as server;

sessions::tests_in!(session, row);

/// At every default isolation level, each statement must see what other clients have committed.
#[tokio::test(flavor = "multi_thread")]
async fn another_isolation_level_spoils_nothing() {
    let (server, _) = leases::start().await;
    server::set_isolation(&server, "repeatable read");
    rules::never_more_permits_than_there_are(sessions::two(&server, "lease").await).await;
    rules::a_buried_token_is_never_granted(sessions::two(&server, "lease").await).await;
}
