use std::collections::BTreeMap;

use super::names;
use super::statistics::{Spread, ratios};
use crate::results::{Cell, Kind, Regime, Results};
use crate::workload::{WORKLOADS, Workload};

/// Two cores come first, because round trips usually dominate.
pub(super) const REGIMES: [Regime; 2] = [Regime::TwoCores, Regime::OneCore];

pub(super) const KEEP_ALIVES: &str = "keep_alives_per_second";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place<'a> {
    pub(super) workload: &'a str,
    pub(super) backend: &'a str,
    pub(super) at: u64,
    pub(super) regime: Regime,
}

impl<'a> Place<'a> {
    pub(super) fn of(cell: &'a Cell) -> Self {
        Self { workload: &cell.workload, backend: &cell.backend, at: cell.at, regime: cell.regime }
    }

    pub(super) fn words(&self) -> String {
        let regime = names::regime(self.regime);
        match Workload::of(self.workload).and_then(|workload| workload.grows) {
            Some(grows) => format!("{regime}, {}", names::many(self.at, grows)),
            None => regime.to_owned(),
        }
    }
}

pub(super) struct View<'a> {
    pub(super) results: &'a Results,
    pub(super) backends: Vec<&'a str>,
    cells: BTreeMap<Place<'a>, Vec<&'a Cell>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Against {
    pub(super) ratio: Spread,
    /// The ratio, or its inverse if less is better: 0.5 is half as good.
    pub(super) goodness: f64,
    pub(super) is_beyond_noise: bool,
}

impl<'a> View<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        let mut backends: Vec<&str> = Vec::new();
        let mut cells: BTreeMap<_, Vec<&Cell>> = BTreeMap::new();
        for cell in &results.cells {
            if !backends.contains(&cell.backend.as_str()) {
                backends.push(&cell.backend);
            }
            cells.entry(Place::of(cell)).or_default().push(cell);
        }
        Self { results, backends, cells }
    }

    pub(super) fn kind(&self, subject: &str) -> Kind {
        let known = self.results.subjects.iter().find(|known| known.name == subject);
        known.map_or(Kind::Peer, |known| known.kind)
    }

    pub(super) fn workloads(&self) -> impl Iterator<Item = &'static Workload> + '_ {
        let has = |workload: &&Workload| self.places(workload).next().is_some();
        WORKLOADS.iter().filter(has)
    }

    pub(super) fn places(&self, workload: &Workload) -> impl Iterator<Item = Place<'a>> {
        self.cells.keys().copied().filter(move |place| place.workload == workload.id)
    }

    pub(super) fn regimes(&self, workload: &Workload) -> Vec<Regime> {
        let has = |regime: &Regime| self.places(workload).any(|place| place.regime == *regime);
        REGIMES.into_iter().filter(has).collect()
    }

    pub(super) fn numbers(&self, workload: &Workload) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.places(workload).map(|place| place.at).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    pub(super) fn at(&self, place: &Place<'a>) -> &[&'a Cell] {
        self.cells.get(place).map_or(&[], Vec::as_slice)
    }

    pub(super) fn cell(&self, place: &Place<'a>, subject: &str) -> Option<&'a Cell> {
        self.at(place).iter().copied().find(|cell| cell.subject == subject)
    }

    pub(super) fn baseline(&self, place: &Place<'a>) -> Option<&'a Cell> {
        self.at(place).iter().copied().find(|cell| self.kind(&cell.subject) == Kind::Baseline)
    }

    /// Returns the subjects: Lockwright and the baseline, then the peers from best to worst.
    pub(super) fn subjects(&self, workload: &Workload, backend: &'a str) -> Vec<&'a str> {
        let mut found: Vec<(Kind, f64, &str)> = Vec::new();
        for regime in self.regimes(workload) {
            for at in self.numbers(workload).into_iter().rev() {
                let place = Place { workload: workload.id, backend, at, regime };
                for cell in self.at(&place) {
                    let median = spread(cell, workload.measure).map(|spread| spread.median);
                    let sign = if workload.more_is_better { -1.0 } else { 1.0 };
                    let worse = median.map_or(f64::INFINITY, |median| sign * median);
                    match found.iter_mut().find(|(_, _, known)| *known == cell.subject) {
                        Some(known) if known.1.is_infinite() => known.1 = worse,
                        Some(_) => {}
                        None => found.push((self.kind(&cell.subject), worse, &cell.subject)),
                    }
                }
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        found.into_iter().map(|(_, _, subject)| subject).collect()
    }

    pub(super) fn to_baseline(&self, cell: &'a Cell) -> Option<Against> {
        let baseline = self.baseline(&Place::of(cell))?;
        (baseline.subject != cell.subject).then(|| against(cell, baseline))?
    }
}

pub(super) fn spread(cell: &Cell, measure: &str) -> Option<Spread> {
    Spread::of(&figures(cell, measure)?)
}

fn figures(cell: &Cell, measure: &str) -> Option<Vec<f64>> {
    let figures = cell.measures.get(measure)?;
    match cell.measures.get(KEEP_ALIVES).filter(|_| measure == "server_commands_per_second") {
        Some(alive) => {
            Some(figures.iter().zip(alive).map(|(all, of)| (all - of).max(0.0)).collect())
        }
        None => Some(figures.clone()),
    }
}

pub(super) fn against(cell: &Cell, other: &Cell) -> Option<Against> {
    let workload = Workload::of(&cell.workload)?;
    let (own, others) = (figures(cell, workload.measure)?, figures(other, workload.measure)?);
    let ratio = Spread::of(&ratios(&own, &others))?;
    let difference = Spread::of(&own)?.median - Spread::of(&others)?.median;
    Some(Against {
        ratio,
        goodness: if workload.more_is_better { ratio.median } else { 1.0 / ratio.median },
        is_beyond_noise: ratio.is_beyond_noise()
            && difference.abs() >= names::resolution(workload.measure),
    })
}
