//! Calls of a backend's methods. A panic becomes an error, so that the client still reports losses.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::sync::oneshot;

use crate::{BootInstant, Clock, Error, Result};

use super::Shared;

pub(crate) type Request<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

pub(crate) fn at_once<T>(ask: impl FnOnce() -> Option<Result<T>>) -> Option<Result<T>> {
    caught(ask).unwrap_or_else(|panicked| Some(Err(panicked)))
}

/// Sends a request and waits for its answer. A panic or a timeout is
/// [`Indeterminate`](crate::ErrorKind::Indeterminate).
pub(crate) async fn answer<'a, T>(
    shared: &Shared,
    send: impl FnOnce() -> Request<'a, T>,
    until: BootInstant,
    what: &'static str,
) -> Result<T> {
    let (mut send, mut request) = (Some(send), None);
    let mut timer = pin!(shared.clock.sleep_until(until));
    // If the backend promises to wake this task by `until`, the first poll skips the timer.
    let own_limit = shared.backend.profile().answer_limit;
    let mut may_wait = own_limit.is_some_and(|limit| shared.clock.now() + limit <= until);
    poll_fn(|cx| {
        let answer = caught(|| {
            if let Some(send) = send.take() {
                request = Some(send());
            }
            request.as_mut().map_or(Poll::Pending, |request| request.as_mut().poll(cx))
        })
        .unwrap_or_else(|panicked| Poll::Ready(Err(panicked)));
        if answer.is_ready() || std::mem::take(&mut may_wait) || until == BootInstant::FAR_FUTURE {
            return answer;
        }
        let silent = || Error::indeterminate(format!("the server did not answer {what} in time"));
        timer.as_mut().poll(cx).map(|()| Err(silent()))
    })
    .await
}

pub(crate) async fn until<F: Future>(
    clock: &Clock,
    instant: BootInstant,
    future: F,
) -> Option<F::Output> {
    if instant == BootInstant::FAR_FUTURE {
        return Some(future.await);
    }
    tokio::select! {
        biased;
        output = future => Some(output),
        () = clock.sleep_until(instant) => None,
    }
}

/// Calls the application's code, such as a log subscriber or waker, whose panic must not end
/// renewals and releases.
pub(crate) fn ignore_panic(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}

/// Sends a value to another request. Ignores a panic of its waker, because the value has arrived.
pub(crate) fn send<T>(sender: oneshot::Sender<T>, value: T) -> std::result::Result<(), T> {
    catch_unwind(AssertUnwindSafe(|| sender.send(value))).unwrap_or(Ok(()))
}

/// Calls `ask`, and returns a panic as an error. The caller may then only drop the state of `ask`.
fn caught<T>(ask: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(ask)).map_err(|panic| panicked(&*panic))
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Error::indeterminate(format!("the backend panicked: {text}"))
}
