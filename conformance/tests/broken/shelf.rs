//! A protected store in memory that rejects late writes, with one chosen flaw.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockwright_conformance::{Protect, Protected, protect};
use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, ErrorKind, Fence, LockName, Reason, Result, async_trait};

use crate::flaws::ShelfFlaw as Flaw;

#[derive(Default)]
struct Shelf {
    values: HashMap<LockName, u64>,
    fences: HashMap<Option<LockName>, Fence>,
}

struct Writer {
    flaw: Flaw,
    name: LockName,
    shelf: Arc<Mutex<Shelf>>,
    /// The writer's last fence. Used only by a flaw.
    own: Mutex<Fence>,
}

pub(crate) fn shelf(flaw: Flaw) -> Protect {
    let shelf = Arc::<Mutex<Shelf>>::default();
    protect(move |name| {
        let shelf = Arc::clone(&shelf);
        async move { Ok(Writer { flaw, name, shelf, own: Mutex::new(Fence::new(0)) }) }
    })
}

impl Writer {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self) -> Option<LockName> {
        (!self.has(Flaw::OneFenceForAll)).then(|| self.name.clone())
    }

    fn highest(&self, shelf: &Shelf) -> Fence {
        if self.has(Flaw::EachWriterRemembers) {
            return *self.own.lock().unwrap_or_else(PoisonError::into_inner);
        }
        shelf.fences.get(&self.key()).copied().unwrap_or(Fence::new(0))
    }

    fn look(&self, shelf: &mut Shelf, fenced: &Fenced) -> Result<()> {
        let highest = self.highest(shelf);
        let is_late =
            fenced.fence < highest || self.has(Flaw::RefusesRepeats) && fenced.fence == highest;
        if !is_late || self.has(Flaw::AcceptsAnything) {
            return Ok(());
        }
        if self.has(Flaw::RemembersWhoCameLast) {
            shelf.fences.insert(self.key(), fenced.fence);
        }
        Err(match self.flaw {
            Flaw::SaysConflict => Error::new(ErrorKind::Conflict, format!("{highest} was here")),
            Flaw::NamesNoFence => Error::new(ErrorKind::Lost(Reason::Superseded), "too late"),
            _ => fenced.superseded(highest),
        })
    }

    fn put(&self, shelf: &mut Shelf, fence: Fence, value: u64) {
        shelf.values.insert(self.name.clone(), value);
        shelf.fences.insert(self.key(), fence);
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = fence;
    }
}

#[async_trait]
impl Protected for Writer {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        if self.has(Flaw::LooksThenWrites) {
            self.look(&mut self.shelf(), fenced)?;
            tokio::task::yield_now().await;
            self.put(&mut self.shelf(), fenced.fence, value);
            return Ok(());
        }
        let mut shelf = self.shelf();
        if self.has(Flaw::WritesThenLooks) {
            shelf.values.insert(self.name.clone(), value);
        }
        self.look(&mut shelf, fenced)?;
        self.put(&mut shelf, fenced.fence, value);
        Ok(())
    }

    async fn read(&self) -> Result<Option<u64>> {
        Ok(self.shelf().values.get(&self.name).copied())
    }
}
