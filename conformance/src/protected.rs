//! A backend's protected resource that rejects late writes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use lockwright_core::fencing::Fenced;
use lockwright_core::{LockName, Result, async_trait};

/// A writer of one lock's protected value.
#[async_trait]
pub trait Protected: Send + Sync + 'static {
    /// Writes the value.
    ///
    /// # Errors
    /// [`Lost`](lockwright_core::ErrorKind::Lost) with
    /// [`Superseded`](lockwright_core::Reason::Superseded) and the later fence, if a later holder
    /// has written. The value is unchanged.
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()>;

    /// Returns the last written value.
    async fn read(&self) -> Result<Option<u64>>;
}

type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Protected>>> + Send>>;

/// A function that opens a writer of a lock's value.
#[derive(Clone)]
pub struct Protect(Arc<dyn Fn(LockName) -> Opening + Send + Sync>);

/// Creates a `Protect`: `protect(move |name| open(url.clone(), name))`. A name has one value for
/// all its writers.
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
    /// Opens a writer.
    ///
    /// # Errors
    /// If the store is unreachable.
    pub async fn open(&self, name: LockName) -> Result<Arc<dyn Protected>> {
        (self.0)(name).await
    }
}

impl fmt::Debug for Protect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protect")
    }
}
