use std::cell::RefCell;
use std::sync::Arc;

use lockwright_bench_protocol::Result;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) struct Pool<C> {
    idle: RefCell<Vec<C>>,
    places: Arc<Semaphore>,
}

/// A connection that is closed unless it is given back.
pub(super) struct Lent<C> {
    pub(super) connection: C,
    _place: OwnedSemaphorePermit,
}

impl<C> Pool<C> {
    pub(super) fn of(most: usize) -> Self {
        Self { idle: RefCell::default(), places: Arc::new(Semaphore::new(most)) }
    }

    pub(super) fn unlimited() -> Self {
        Self::of(Semaphore::MAX_PERMITS)
    }

    pub(super) async fn take(&self, connect: impl AsyncFnOnce() -> Result<C>) -> Result<Lent<C>> {
        let place = Arc::clone(&self.places).acquire_owned().await?;
        let idle = self.idle.borrow_mut().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect().await?,
        };
        Ok(Lent { connection, _place: place })
    }

    pub(super) fn give_back(&self, lent: Lent<C>) {
        self.idle.borrow_mut().push(lent.connection);
    }
}
