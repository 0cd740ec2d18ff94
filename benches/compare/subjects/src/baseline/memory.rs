use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockwright_bench_protocol::{Library, Result};
use tokio::sync::{Mutex, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct Memory {
    names: RefCell<HashMap<String, Arc<Mutex<()>>>>,
}

impl Memory {
    fn mutex(&self, name: &str) -> Arc<Mutex<()>> {
        let mut names = self.names.borrow_mut();
        match names.get(name) {
            Some(mutex) => Arc::clone(mutex),
            None => Arc::clone(names.entry(name.to_owned()).or_default()),
        }
    }
}

impl Library for Memory {
    type Hold = OwnedMutexGuard<()>;

    async fn open(_backend: &str, _urls: &[String]) -> Result<Self> {
        Ok(Self::default())
    }

    async fn lock(&self, name: &str, _ttl: Duration) -> Result<Self::Hold> {
        Ok(self.mutex(name).lock_owned().await)
    }

    async fn unlock(&self, hold: Self::Hold) -> Result<()> {
        drop(hold);
        Ok(())
    }
}
