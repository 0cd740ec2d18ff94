//! The runtime of the connect call. All background tasks run on it, also those started from another runtime, which may
//! end long before the client.

use lockwright_core::{Error, ErrorKind};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::errors::error;

#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    /// Closed when the runtime ends its tasks.
    lives: watch::Receiver<()>,
}

impl Runtime {
    pub(crate) fn present() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        let (sender, lives) = watch::channel(());
        handle.spawn(async move { sender.closed().await });
        Some(Self { handle, lives })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(task)
    }

    /// Returns whether the runtime has ended. Then no lease is renewed and no waiter is woken.
    pub(crate) fn has_ended(&self) -> bool {
        self.lives.has_changed().is_err()
    }
}

pub(crate) fn gone() -> Error {
    error(
        ErrorKind::Unavailable,
        "the tokio runtime that this client was connected on has ended, and with it what keeps its \
         locks alive; connect again, on one that lasts for as long as the client",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_ended_is_known_to_have_and_another_one_is_not() {
        assert!(Runtime::present().is_none());
        let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (first, second) = (runtime(), runtime());
        let present = first.block_on(async { Runtime::present() }).unwrap();
        assert!(!second.block_on(async { present.has_ended() }));
        drop(first);
        assert!(second.block_on(async { present.has_ended() }));
    }
}
