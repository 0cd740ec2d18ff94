//! Connections that go silent while new ones work.

use lockwright_core::{ErrorKind, Locks, ReleaseMode};
use lockwright_testbed::Proxy;

use crate::server::{LONG, Server, claim, granted, ms, on_each, waiters, within};

on_each!(waiter_on_a_silent_connection_ends);

/// The waiter has no limit, so only the backend bounds its request.
async fn waiter_on_a_silent_connection_ends<S: Server>(server: &S, mode: &str) {
    let one = server.backend(mode, "").await;
    let proxy = Proxy::start(server.address()).unwrap();
    let two = server.backend_through(proxy.port(), mode, "").await;
    let locks = Locks::builder(two).ttl(ms(3_000)).build().unwrap();
    let holder = claim("x", LONG);
    granted(&*one, &holder).await;
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.mutex("x").no_limit().acquire().await }
    });
    within(ms(5_000), "the waiter to block", async || waiters(&*one, "x").await == 1).await;
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
