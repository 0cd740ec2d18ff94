//! A connection that dies during a long hold. This longest test starts early, because tests start
//! in alphabetical order.

use std::time::Duration;

use lockwright_conformance::silence;

use super::one_server;
use super::silence::client;

#[tokio::test(flavor = "multi_thread")]
async fn hold_with_a_long_ttl_survives() {
    let ttl = Duration::from_secs(30);
    let server = one_server();
    let (at_once, later) = (client(&server).await, client(&server).await);
    tokio::join!(
        silence::hold_survives(&at_once, "at once", ttl, Duration::ZERO),
        silence::hold_survives(&later, "later", ttl, ttl / 4),
    );
}
