use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode};
use lockwright_testbed::Proxy;

use super::server::{Server, client_through, plain, shared};
use crate::support::{hold, ms, until_one_waits, within};

in_each_mode!(plain; waiter_on_a_silent_connection_ends);

/// Only the backend limits the request, because the waiter has no time limit.
async fn waiter_on_a_silent_connection_ends(server: &Server, mode: &str) {
    let one = shared(server, mode).await;
    let proxy = Proxy::start(server.address()).unwrap();
    let locks = client_through(server, proxy.port(), mode, ms(3_000)).await;
    let holder = hold(&*one, "x").await;
    let waiting = tokio::spawn(locks.mutex("x").no_limit().acquire());
    until_one_waits(&*one).await;
    let accepted = proxy.accepted();
    proxy.silence_present();
    within(ms(20_000), "a retry or an error", async || {
        waiting.is_finished() || proxy.accepted() > accepted
    })
    .await;
    one.release(&holder, ReleaseMode::Plain).await.unwrap();
    let answer = tokio::time::timeout(ms(30_000), waiting).await;
    let answer = answer.unwrap_or_else(|_| panic!("{mode}: the waiter hangs")).unwrap();
    let guard = match answer {
        Ok(guard) => guard,
        Err(error) => {
            let kinds = [ErrorKind::Unavailable, ErrorKind::Indeterminate];
            assert!(kinds.contains(&error.kind()), "{mode}: {error:?}");
            locks.mutex("x").wait_for(ms(20_000)).acquire().await.unwrap()
        }
    };
    guard.check().unwrap();
    guard.release().await.unwrap();
}
