//! A connection that dies during a long hold. Tests start in the alphabetical order of their
//! modules, so this longest test starts early.

use std::time::Duration;

use crate::clusters::one_server;
use crate::silence::Client;

#[tokio::test(flavor = "multi_thread")]
async fn hold_with_a_long_ttl_survives() {
    let ttl = Duration::from_secs(30);
    let server = one_server();
    let (at_once, later) = (Client::new(&server).await, Client::new(&server).await);
    tokio::join!(
        at_once.hold_survives("at once", ttl, Duration::ZERO),
        later.hold_survives("later", ttl, ttl / 4),
    );
}
