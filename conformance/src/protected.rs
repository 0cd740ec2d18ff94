//! A protected store of a backend that rejects late writes by their fence.
//!
//! The value is in a table, a key or a node, and all writes use the backend's helper. A factory provides it with
//! [`Factory::protected`].
//!
//! [`Factory::protected`]: crate::Factory::protected

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use lockwright_core::fencing::Fenced;
use lockwright_core::{LockName, Result, async_trait};

/// A writer of the value that one lock protects.
#[async_trait]
pub trait Protected: Send + Sync + 'static {
    /// Writes the value, unless a later holder has written before.
    ///
    /// # Errors
    /// [`Lost`](lockwright_core::ErrorKind::Lost) with [`Superseded`](lockwright_core::Reason::Superseded), which
    /// contains the later fence. Then the value is unchanged.
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()>;

    /// Returns the last written value, if there is one.
    async fn read(&self) -> Result<Option<u64>>;
}

type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Protected>>> + Send>>;

/// A function that opens a new writer of the value of a lock.
#[derive(Clone)]
pub struct Protect(Arc<dyn Fn(LockName) -> Opening + Send + Sync>);

/// Returns a `Protect`: `protect(move |name| open(url.clone(), name))`. All writers of one name share one value.
pub fn protect<F, P>(open: impl Fn(LockName) -> F + Send + Sync + 'static) -> Protect
where
    F: Future<Output = Result<P>> + Send + 'static,
    P: Protected,
{
    Protect(Arc::new(move |name| {
        let opening = open(name);
        Box::pin(async move { Ok(Arc::new(opening.await?) as Arc<dyn Protected>) })
    }))
}

impl Protect {
    /// Opens a new writer.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn open(&self, name: LockName) -> Result<Arc<dyn Protected>> {
        (self.0)(name).await
    }
}

impl fmt::Debug for Protect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protect")
    }
}
