use std::pin::Pin;
use std::time::Duration;

use lockwright_core::{Claim, Error, ErrorKind, Result};

use super::{HoldSession, Locked, Server, Session, SessionId, Sessions};

pub(super) const LIMIT: Duration = Duration::from_secs(5);

const CANCEL_LIMIT: Duration = Duration::from_millis(500);

/// Cancels a wait. Returns whether it ended without an error, perhaps by acquiring the lock.
pub(super) async fn from_wait<S: Server>(
    server: &Sessions<S>,
    session: SessionId,
    mut locking: Pin<&mut impl Future<Output = Result<Locked>>>,
) -> bool {
    // The first cancellation may arrive before the statement, and then has no effect.
    for _ in 0..2 {
        let cancelling = async {
            let cancelling = Box::pin(server.cancel(session));
            let _ = tokio::time::timeout(CANCEL_LIMIT, cancelling).await;
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

/// Closes the session and, unless `quiet`, asks the server to end it. Returns false if the server
/// doesn't find the session, whose last statement may still take the lock. On an error, the session
/// may still exist.
pub(super) async fn close<S: Server>(
    server: &Sessions<S>,
    claim: &Claim,
    session: HoldSession<S>,
    quiet: bool,
) -> Result<bool> {
    if quiet {
        session.close().await;
        return Ok(true);
    }
    let session = match session {
        HoldSession::Own(session) => Some(session),
        HoldSession::Joint(mut member) => {
            match tokio::time::timeout(LIMIT, member.unlock()).await {
                Ok(Ok(_)) => return Ok(true),
                // After a failure, the task closes the joint session once all its `Member`s are
                // dropped.
                Ok(Err(_)) | Err(_) => None,
            }
        }
    };
    // Ends the session before `close`, which would wait for the running statement.
    let releasing = Box::pin(server.release(claim));
    let ended = tokio::time::timeout(LIMIT, releasing).await;
    if let Some(session) = session {
        session.close().await;
    }
    match ended {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(Error::indeterminate(
            "the session's connection was closed, and the server may not have noticed",
        )
        .with_source(error)),
        Err(_) => Err(Error::indeterminate(
            "the session's connection was closed, and the server doesn't answer",
        )),
    }
}

pub(super) async fn failed<S: Server>(
    server: &Sessions<S>,
    claim: &Claim,
    session: HoldSession<S>,
    error: Error,
) -> Error {
    let closed = Box::pin(close(server, claim, session, false)).await;
    match (error.kind(), closed) {
        (ErrorKind::Indeterminate, Ok(true)) => {
            Error::unavailable("the hold's session failed, and was closed").with_source(error)
        }
        (_, Ok(_)) => error,
        (_, Err(unknown)) => unknown.with_source(error),
    }
}
