//! Giving a claim up in the middle of something, so that nothing of it is left on the server.

use std::pin::Pin;
use std::time::Duration;

use lockwright_core::{Claim, Error, ErrorKind, Result};

use super::{Locked, Server, Session, SessionId};

/// How long one request to the server may take where nobody knows better.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// How long a cancelled statement may take to end.
const CANCEL_LIMIT: Duration = Duration::from_millis(500);

/// Stops a session that waits for its lock. True when its statement has ended: then it is certain
/// that it waits for nothing any more, though it may have got the lock at the last moment.
pub(super) async fn from_wait<S: Server>(
    server: &S,
    session: SessionId,
    mut locking: Pin<&mut impl Future<Output = Result<Locked>>>,
) -> bool {
    // Twice: the first one may have arrived before the statement had begun.
    for _ in 0..2 {
        let cancelling = async {
            let _ = tokio::time::timeout(CANCEL_LIMIT, server.cancel(session)).await;
            tokio::time::sleep(CANCEL_LIMIT).await;
        };
        tokio::select! {
            biased;
            ended = locking.as_mut() => return ended.is_ok(),
            () = cancelling => {}
        }
    }
    false
}

/// Closes a session. Unless it is `quiet`, so that closing it is enough, the server is asked to end
/// it too. Answers whether it certainly is over: where the server knows nothing of it, what was sent
/// last may be on its way yet.
///
/// # Errors
/// Nobody knows whether it still is there.
pub(super) async fn close<S: Server>(
    server: &S,
    claim: &Claim,
    session: S::Session,
    quiet: bool,
) -> Result<bool> {
    if quiet {
        session.close().await;
        return Ok(true);
    }
    // First the server: the statement that the session is in the middle of would have to end before
    // the connection could be closed in an orderly way.
    let ended = tokio::time::timeout(LIMIT, server.end(claim)).await;
    session.close().await;
    match ended {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(Error::indeterminate(
            "the session's connection was closed, and nobody knows whether the server has noticed",
        )
        .with_source(error)),
        Err(_) => Err(Error::indeterminate(
            "the session's connection was closed, and the server doesn't answer",
        )),
    }
}

/// The error to tell, after the session with which something failed was closed.
pub(super) async fn failed<S: Server>(
    server: &S,
    claim: &Claim,
    session: S::Session,
    error: Error,
) -> Error {
    let closed = close(server, claim, session, false).await;
    match (error.kind(), closed) {
        // What may have been done is undone.
        (ErrorKind::Indeterminate, Ok(true)) => {
            Error::unavailable("the session that was to carry the hold failed, and was closed")
                .with_source(error)
        }
        (_, Ok(_)) => error,
        (_, Err(unknown)) => unknown.with_source(error),
    }
}
