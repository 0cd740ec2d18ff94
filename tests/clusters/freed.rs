//! Claims that an operator frees at once.

use lockwright_core::{
    BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, Reason, ReleaseMode,
};

use crate::common::{FOR_EVER, busy, claim, connect, fails, grant, released, server_and_client};

/// A waiter becomes the first in the queue, and is freed before its client repeats the request.
#[tokio::test(flavor = "multi_thread")]
async fn claim_freed_before_its_grant_is_never_granted() {
    let (server, backend) = server_and_client().await;
    let operator = connect(&server.url()).await;
    let (held, next) = (claim("x"), claim("x"));
    grant(&backend, &held).await;
    busy(&backend, &next, FOR_EVER).await;
    released(&backend, &held, ReleaseMode::Plain).await;
    let seen = BreakTarget::Token(next.token);
    let broken = operator.break_lock(&next.name, seen, BreakMode::Now, "me", "why").await;
    assert!(matches!(broken, Ok(Broken::Freed(_))), "{broken:?}");
    for _ in 0..2 {
        fails(backend.acquire(&next, FOR_EVER).await, ErrorKind::Lost(Reason::Broken));
    }
    grant(&operator, &claim("x")).await;
}
