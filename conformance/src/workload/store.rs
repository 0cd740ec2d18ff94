use std::io;
use std::sync::{Mutex, MutexGuard};

use lockwright_core::Fence;
use lockwright_core::backend_util::lock;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::register::{Register, RemoteRegister};

/// A register per lock, and a queue of tickets. Calls may block, and fail if the store is
/// unreachable.
pub trait Store: Send + Sync + 'static {
    /// Writes to the register of `name`. Returns false if the register has accepted a higher fence.
    fn write(&self, name: &str, fence: Fence) -> io::Result<bool>;

    /// Leaves a ticket for another process.
    fn leave(&self, ticket: &str) -> io::Result<()>;

    /// Removes and returns the oldest ticket.
    fn pick(&self) -> io::Result<Option<String>>;
}

/// A store in memory, shared by its clones.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Register);

impl Store for MemoryStore {
    fn write(&self, name: &str, fence: Fence) -> io::Result<bool> {
        Ok(self.0.write_to(name, fence))
    }

    fn leave(&self, ticket: &str) -> io::Result<()> {
        self.0.leave(ticket);
        Ok(())
    }

    fn pick(&self) -> io::Result<Option<String>> {
        Ok(self.0.pick())
    }
}

/// A client of a [served](Register::serve) [`Register`].
#[derive(Debug)]
pub struct RemoteStore(Mutex<RemoteRegister>);

impl RemoteStore {
    /// Connects to a store.
    pub fn connect(address: &str) -> io::Result<Self> {
        RemoteRegister::connect(address).map(|register| Self(Mutex::new(register)))
    }

    /// Calls the register, which may block. A multi-threaded runtime continues other tasks on
    /// another thread.
    fn call<T>(
        &self,
        call: impl FnOnce(MutexGuard<'_, RemoteRegister>) -> io::Result<T>,
    ) -> io::Result<T> {
        let call = || call(lock(&self.0));
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(call),
            _ => call(),
        }
    }
}

impl Store for RemoteStore {
    fn write(&self, name: &str, fence: Fence) -> io::Result<bool> {
        self.call(|mut register| register.write_to(name, fence))
    }

    fn leave(&self, ticket: &str) -> io::Result<()> {
        self.call(|mut register| register.leave(ticket))
    }

    fn pick(&self) -> io::Result<Option<String>> {
        self.call(|mut register| register.pick())
    }
}
