//! The tokio runtime of the `connect` call, for connections and background tasks: the runtimes of
//! later calls may end earlier.

use lockwright_core::{Error, ErrorKind};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::errors::error;

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    lives: watch::Receiver<()>,
}

impl Runtime {
    pub(crate) fn present() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        let (sender, lives) = watch::channel(());
        handle.spawn(async move { sender.closed().await });
        Some(Self { handle, lives })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lives.has_changed().is_err()
    }
}

pub(crate) fn gone() -> Error {
    let message = "the tokio runtime of the connect call has ended, so this client can't renew \
                   its locks; connect again on a runtime that outlives the client";
    error(ErrorKind::Unavailable, message)
}

#[cfg(test)]
mod tests {
    #[test]
    fn missing_runtime_is_detected() {
        assert!(super::Runtime::present().is_none());
    }
}
