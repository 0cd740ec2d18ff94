//! A protected resource in memory that rejects late writes, with one chosen flaw.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lockwright_conformance::{Protect, Protected, protect};
use lockwright_core::backend_util::lock;
use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, ErrorKind, Fence, LockName, Reason, Result, async_trait};

use crate::fixtures::flaws::FencedStoreFlaw as Flaw;

#[derive(Default)]
struct FencedStore {
    values: HashMap<LockName, u64>,
    fences: HashMap<Option<LockName>, Fence>,
}

struct Writer {
    flaw: Flaw,
    name: LockName,
    store: Arc<Mutex<FencedStore>>,
    /// The writer's last fence, which only `EachWriterRemembers` compares.
    own: Mutex<Fence>,
}

pub(crate) fn fenced_store(flaw: Flaw) -> Protect {
    let store = Arc::<Mutex<FencedStore>>::default();
    protect(move |name| {
        let store = Arc::clone(&store);
        async move { Ok(Writer { flaw, name, store, own: Mutex::new(Fence::new(0)) }) }
    })
}

impl Writer {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn key(&self) -> Option<LockName> {
        (!self.has(Flaw::OneFenceForAll)).then(|| self.name.clone())
    }

    fn highest(&self, store: &FencedStore) -> Fence {
        if self.has(Flaw::EachWriterRemembers) {
            return *lock(&self.own);
        }
        store.fences.get(&self.key()).copied().unwrap_or(Fence::new(0))
    }

    fn look(&self, store: &mut FencedStore, fenced: &Fenced) -> Result<()> {
        let highest = self.highest(store);
        let is_late =
            fenced.fence < highest || self.has(Flaw::RefusesRepeats) && fenced.fence == highest;
        if !is_late || self.has(Flaw::AcceptsAnything) {
            return Ok(());
        }
        if self.has(Flaw::RemembersWhoCameLast) {
            store.fences.insert(self.key(), fenced.fence);
        }
        Err(match self.flaw {
            Flaw::SaysConflict => {
                Error::new(ErrorKind::Conflict, format!("{highest} is the highest"))
            }
            Flaw::NamesNoFence => Error::new(ErrorKind::Lost(Reason::Superseded), "too late"),
            _ => fenced.superseded(highest),
        })
    }

    fn put(&self, store: &mut FencedStore, fence: Fence, value: u64) {
        store.values.insert(self.name.clone(), value);
        store.fences.insert(self.key(), fence);
        *lock(&self.own) = fence;
    }
}

#[async_trait]
impl Protected for Writer {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        if self.has(Flaw::LooksThenWrites) {
            self.look(&mut lock(&self.store), fenced)?;
            tokio::task::yield_now().await;
            self.put(&mut lock(&self.store), fenced.fence, value);
            return Ok(());
        }
        let mut store = lock(&self.store);
        if self.has(Flaw::WritesThenLooks) {
            store.values.insert(self.name.clone(), value);
        }
        self.look(&mut store, fenced)?;
        self.put(&mut store, fenced.fence, value);
        Ok(())
    }

    async fn read(&self) -> Result<Option<u64>> {
        Ok(lock(&self.store).values.get(&self.name).copied())
    }
}
