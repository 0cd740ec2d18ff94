//! The spans of requests and holds, with the feature `tracing-spans`.

use std::sync::Arc;

use tracing::field::{Empty, debug};
use tracing::{Instrument, debug_span};

use crate::{LockName, Mode, Result};

use super::{Hold, Shared};

pub(super) use tracing::Span;

pub(super) fn acquire(shared: &Shared, name: &LockName, mode: Mode) -> Span {
    debug_span!(
        "lockwright.acquire",
        otel.kind = "client",
        lock.name = %name,
        lock.mode = %mode,
        lock.backend = shared.backend.profile().backend,
        lock.fence = Empty,
        "error.type" = Empty,
    )
}

pub(super) fn hold(hold: &Hold) -> Span {
    debug_span!(
        "lockwright.hold",
        lock.name = %hold.claim.name,
        lock.mode = %hold.claim.mode,
        lock.backend = hold.shared.backend.profile().backend,
        lock.fence = hold.fence().get(),
    )
}

pub(super) fn release(hold: &Span) -> Span {
    debug_span!(parent: hold, "lockwright.release", otel.kind = "client", "error.type" = Empty)
}

pub(super) fn instrument<F: Future>(future: F, span: &Span) -> impl Future<Output = F::Output> {
    future.instrument(span.clone())
}

pub(super) fn in_current_span<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future.in_current_span()
}

/// Records the fence or the error. Neither means that the lock was busy.
pub(super) fn record_outcome(span: &Span, answer: &Result<Option<Arc<Hold>>>) {
    if let (false, Ok(Some(hold))) = (span.is_disabled(), answer) {
        span.record("lock.fence", hold.fence().get());
    }
    record_error(span, answer);
}

pub(super) fn record_error<T>(span: &Span, answer: &Result<T>) {
    if let (false, Err(error)) = (span.is_disabled(), answer) {
        span.record("error.type", debug(error.kind()));
    }
}
