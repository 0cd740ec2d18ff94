use lockwright_core::{BootInstant, Cursor, Inspection, LockName, Page};

use crate::store::Store;

const PAGE: usize = 100;

impl Store {
    pub(crate) fn inspect(&self, name: &LockName, now: BootInstant) -> Inspection {
        let mut inspection = Inspection::free(name.clone());
        inspection.waiters = Some(0);
        if let Some(row) = self.names.get(name) {
            inspection.holders.extend(row.live(now).map(|hold| hold.shown(now)));
            inspection.waiters = Some(row.waiters(now));
            inspection.fence = row.fence();
        }
        inspection
    }

    pub(crate) fn list(&self, prefix: &str, after: Option<&str>, now: BootInstant) -> Page {
        let mut names: Vec<&LockName> = self
            .names
            .iter()
            .filter(|(name, row)| {
                name.as_str().starts_with(prefix)
                    && after.is_none_or(|after| name.as_str() > after)
                    && row.live(now).next().is_some()
            })
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable();
        let next = names.get(PAGE - 1).filter(|_| names.len() > PAGE);
        let next = next.map(|last| Cursor(last.as_str().to_owned()));
        Page {
            names: names.into_iter().take(PAGE).map(|name| self.inspect(name, now)).collect(),
            next,
        }
    }
}
