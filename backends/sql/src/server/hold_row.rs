use std::time::Duration;

use lockwright_core::{Busy, Fence, Granted, Holder, Inspection, LockName, Mode};

use super::{BadRow, Row};
use crate::kind;

/// A row with `name, token, identity, mode, fence, fences, expires, broken, waiting, now`. If the
/// name may be shared, `permits, size` follow.
#[derive(Debug)]
pub(crate) struct Holding<'r> {
    pub(crate) name: &'r str,
    pub(crate) token: Option<&'r str>,
    identity: &'r str,
    pub(crate) mode: Mode,
    fence: u64,
    fences: u32,
    expires: i64,
    pub(crate) broken: Option<&'r str>,
    pub(crate) waiting: bool,
    now: i64,
}

impl<'r> Holding<'r> {
    pub(crate) fn of(row: &'r Row, from: usize) -> Result<Self, BadRow> {
        let token = row.text(from + 1)?;
        let word = row.text(from + 3)?.ok_or(BadRow)?;
        let mode = match token {
            None => Mode::Exclusive,
            Some(token) => match (row.int(from + 10), row.int(from + 11)) {
                (Ok(permits), Ok(size)) => kind::mode(word, permits, size).ok_or(BadRow)?,
                _ => kind::present(token).filter(|mode| kind::word(*mode) == word).ok_or(BadRow)?,
            },
        };
        let holding = Self {
            name: row.text(from)?.ok_or(BadRow)?,
            token,
            mode,
            identity: row.text(from + 2)?.unwrap_or_default(),
            fence: row.int(from + 4)?.try_into().map_err(|_| BadRow)?,
            fences: row.int(from + 5)?.try_into().map_err(|_| BadRow)?,
            expires: row.int(from + 6)?,
            broken: row.text(from + 7)?,
            waiting: row.bool(from + 8)?,
            now: row.int(from + 9)?,
        };
        if holding.fences == 0 { Err(BadRow) } else { Ok(holding) }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.token.is_some() && self.expires > self.now
    }

    pub(crate) fn remaining(&self) -> Duration {
        let micros = self.expires.saturating_sub(self.now);
        Duration::from_micros(micros.try_into().unwrap_or(0))
    }

    pub(crate) fn granted(&self) -> Granted {
        let mut granted = Granted::new(Fence::new(self.fence));
        granted.fences = self.fences;
        granted.waiters = self.waiting;
        if self.broken.is_some() {
            // A broken hold is valid only for its remaining time.
            granted.valid = Some(self.remaining());
        }
        granted
    }

    pub(crate) fn busy(&self) -> Busy {
        Busy {
            retry_after: Some(self.remaining()),
            holder: self.is_live().then(|| Box::new(self.holder())),
            queued: false,
        }
    }

    pub(crate) fn holder(&self) -> Holder {
        let mut holder = Holder::new(self.token.and_then(|token| token.parse().ok()));
        holder.mode = self.mode;
        holder.identity = serde_json::from_str(self.identity).ok();
        holder.set_fence_and_since(self.has_fence().then(|| Fence::new(self.fence)));
        holder.remaining = Some(self.remaining());
        holder.broken = self.broken.map(str::to_owned);
        holder
    }

    /// Returns false for permits, whose `fence` only numbers the hold.
    fn has_fence(&self) -> bool {
        !matches!(self.mode, Mode::Permits { .. })
    }

    fn inspection(&self) -> Result<Inspection, BadRow> {
        let mut inspection = Inspection::free(LockName::new(self.name).map_err(|_| BadRow)?);
        let last = self.fence.saturating_add(u64::from(self.fences) - 1);
        inspection.fence = Some(Fence::new(last)).filter(|_| last > 0 && self.has_fence());
        Ok(inspection)
    }
}

pub(crate) fn inspections(rows: &[Row]) -> Result<Vec<Inspection>, BadRow> {
    let mut inspections: Vec<Inspection> = Vec::new();
    for row in rows {
        let holding = Holding::of(row, 0)?;
        if inspections.last().is_none_or(|last| last.name.as_str() != holding.name) {
            inspections.push(holding.inspection()?);
        }
        if let Some(inspection) = inspections.last_mut().filter(|_| holding.is_live()) {
            inspection.holders.push(holding.holder());
        }
    }
    Ok(inspections)
}

pub(crate) fn micros_up(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

pub(crate) fn millis_up(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up() {
        for (nanos, micros) in [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2)] {
            assert_eq!(micros_up(Duration::from_nanos(nanos)), micros);
        }
    }
}
