//! Claims that an operator breaks at once.

use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, Mode, Reason, ReleaseMode,
};
use lockwright_testbed::proxy::Traffic;
use tokio::time::sleep;

use crate::clusters::server_and_proxy;
use crate::clusters::shared::claim_as;
use crate::common::{
    Backend, FOR_EVER, busy, claim, connect, entries, eventually, fails, grant, released,
    server_and_client,
};

/// A waiter becomes the first in the queue. Its claim is broken before its client repeats the
/// request.
#[tokio::test(flavor = "multi_thread")]
async fn claim_freed_before_its_grant_is_never_granted() {
    let (server, backend) = server_and_client().await;
    let operator = connect(&server.url()).await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        let (held, next) = (claim("x"), claim_as(mode));
        grant(&backend, &held).await;
        busy(&backend, &next, FOR_EVER).await;
        released(&backend, &held, ReleaseMode::Plain).await;
        let seen = BreakTarget::Token(next.token);
        let broken = operator.break_lock(&next.name, seen, BreakMode::Now, "me", "why").await;
        assert!(matches!(broken, Ok(Broken::Freed(_))), "{broken:?}");
        for _ in 0..2 {
            fails(backend.acquire(&next, FOR_EVER).await, ErrorKind::Lost(Reason::Broken));
        }
        assert_eq!(entries(&server, "x").await, 0);
    }
}

/// The operator's connection breaks after the first of two deletions.
#[tokio::test(flavor = "multi_thread")]
async fn partial_break_is_indeterminate() {
    const DELAY: Duration = Duration::from_millis(300);
    let (server, proxy, url) = server_and_proxy();
    let backend = connect(&server.url()).await;
    let readers = [claim_as(Mode::Shared), claim_as(Mode::Shared)];
    for reader in &readers {
        grant(&backend, reader).await;
    }
    let operator = Backend::connect(&url).await.unwrap();
    proxy.set(Traffic::Delay(DELAY));
    let name = &readers[0].name;
    let breaking = operator.break_lock(name, BreakTarget::Any, BreakMode::Now, "me", "why");
    let (broken, ()) = tokio::join!(breaking, async {
        eventually(|| async { (entries(&server, "x").await == 1).then_some(()) }).await;
        // After this pause, the first response has arrived, but the second deletion hasn't reached
        // the server.
        sleep(DELAY * 2).await;
        proxy.cut();
    });
    assert!(entries(&server, "x").await == 1, "late: both were deleted before the cut");
    fails(broken, ErrorKind::Indeterminate);
}
