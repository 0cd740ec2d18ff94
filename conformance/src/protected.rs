//! What the locks protect, where late writes are refused by their fence.
//!
//! The [register](crate::register) of the suite is its own, and shows that fences are worth something. This
//! one is the backend's: a value in a table, under a key or in a node, to which nobody writes but through the
//! helper that this backend has for it. A factory that has one says so by [`Factory::protected`].
//!
//! [`Factory::protected`]: crate::Factory::protected

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use lockwright_core::fencing::Fenced;
use lockwright_core::{LockName, Result, async_trait};

/// One writer's way to a value that one lock protects.
#[async_trait]
pub trait Protected: Send + Sync + 'static {
    /// Writes the value, unless a later holder has written before.
    ///
    /// # Errors
    /// [`Lost`](lockwright_core::ErrorKind::Lost) with
    /// [`Superseded`](lockwright_core::Reason::Superseded) if one has, which says with which fence. Then
    /// nothing was changed.
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()>;

    /// What was written last, by whomever, if anything was.
    async fn read(&self) -> Result<Option<u64>>;
}

type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Protected>>> + Send>>;

/// Makes one more way to the value that the lock of a name protects, as another writer has it.
#[derive(Clone)]
pub struct Protect(Arc<dyn Fn(LockName) -> Opening + Send + Sync>);

/// A way to what locks protect: `protect(move |name| open(url.clone(), name))`. All that are opened of one
/// name are about one value; two names have two.
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
    /// One more.
    ///
    /// # Errors
    /// When it can't be reached.
    pub async fn open(&self, name: LockName) -> Result<Arc<dyn Protected>> {
        (self.0)(name).await
    }
}

impl fmt::Debug for Protect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protect")
    }
}
