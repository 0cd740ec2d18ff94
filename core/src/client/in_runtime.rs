use std::ops::Deref;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::DistributedLock;

/// A backend that is dropped inside the client's runtime, which closing connections may need.
pub(crate) struct InRuntime {
    backend: Option<Arc<dyn DistributedLock>>,
    pub(super) runtime: Handle,
}

impl InRuntime {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, runtime: Handle) -> Self {
        Self { backend: Some(backend), runtime }
    }
}

impl Deref for InRuntime {
    type Target = Arc<dyn DistributedLock>;

    fn deref(&self) -> &Arc<dyn DistributedLock> {
        self.backend.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for InRuntime {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        self.backend = None;
    }
}
