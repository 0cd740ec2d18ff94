//! A backend's panic is an error like any other: it must not stop loss from being told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::error::{Error, Result};

/// Drives `future` and answers its panic as an [`Indeterminate`](crate::ErrorKind::Indeterminate)
/// error.
pub(crate) async fn catch_panic<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        // Nothing of the future is used after a panic but its drop.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no message".to_owned());
                Poll::Ready(Err(Error::indeterminate(format!("the backend panicked: {text}"))))
            }
        }
    })
    .await
}
