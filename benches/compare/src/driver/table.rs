use std::collections::BTreeMap;

use super::turns::quantile;
use super::worker::Failure;
use crate::results::{Cell, Regime};

const SHARES: [f64; 13] =
    [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) workload: &'static str,
    pub(super) at: u64,
    pub(super) regime: Regime,
    pub(super) subject: String,
}

#[derive(Debug, Default)]
pub(super) struct Round {
    measures: Vec<(&'static str, f64)>,
    samples: Vec<u64>,
}

impl Round {
    pub(super) fn add(&mut self, measure: &'static str, figure: impl Into<Option<f64>>) {
        if let Some(figure) = figure.into().filter(|figure| figure.is_finite()) {
            self.measures.push((measure, figure));
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.measures.extend(other.measures);
        self.samples.extend(other.samples);
    }

    pub(super) fn sample(&mut self, nanoseconds: &[u64]) {
        self.samples.extend(nanoseconds);
    }
}

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: BTreeMap<Key, Row>,
}

#[derive(Debug, Default)]
struct Row {
    measures: BTreeMap<&'static str, Vec<f64>>,
    samples: Vec<u64>,
    /// Why no more rounds are measured.
    note: Option<String>,
}

impl Table {
    pub(super) fn is_over(&self, key: &Key) -> bool {
        self.rows.get(key).is_some_and(|row| row.note.is_some())
    }

    pub(super) fn add(&mut self, key: Key, round: Result<Round, Failure>) {
        match round {
            Ok(round) => {
                let row = self.rows.entry(key).or_default();
                for (measure, figure) in round.measures {
                    row.measures.entry(measure).or_default().push(rounded(figure));
                }
                row.samples.extend(round.samples);
            }
            Err(failure) => {
                let word = match failure {
                    Failure::Cannot(_) => "it has no such thing",
                    Failure::Failed(_) => "it failed",
                };
                self.give_up(key, format!("{word}: {}", failure.text()));
            }
        }
    }

    pub(super) fn give_up(&mut self, key: Key, note: String) {
        self.rows.entry(key).or_default().note = Some(note);
    }

    pub(super) fn cells(self, backend: &str) -> impl Iterator<Item = Cell> {
        self.rows.into_iter().map(move |(key, mut row)| {
            row.samples.sort_unstable();
            let at_share =
                |share: &f64| Some((*share, rounded(quantile(&row.samples, *share)? as f64 / 1e3)));
            Cell {
                backend: backend.to_owned(),
                workload: key.workload.to_owned(),
                at: key.at,
                regime: key.regime,
                subject: key.subject,
                distribution: SHARES.iter().filter_map(at_share).collect(),
                measures: row
                    .measures
                    .into_iter()
                    .map(|(name, figures)| (name.to_owned(), figures))
                    .collect(),
                note: row.note,
            }
        })
    }
}

fn rounded(figure: f64) -> f64 {
    if figure == 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - figure.abs().log10().floor() as i32);
    (figure * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_stay() {
        assert_eq!(
            [123_456.0, 0.012_345_6, 1.0, 0.0, 99_999.9].map(rounded),
            [123_500.0, 0.012_35, 1.0, 0.0, 100_000.0]
        );
    }

    #[test]
    fn failed_cell_ends_and_keeps_its_figures() {
        let key =
            Key { workload: "pairs", at: 0, regime: Regime::OneCore, subject: "it".to_owned() };
        let mut table = Table::default();
        let mut round = Round::default();
        round.add("pairs_per_second", 5.0);
        round.add("jain", None);
        round.sample(&[3_000, 1_000, 2_000]);
        table.add(key.clone(), Ok(round));
        assert!(!table.is_over(&key));
        table.add(key.clone(), Err(Failure::Failed("it has ended".to_owned())));
        assert!(table.is_over(&key));
        let cell = table.cells("redis").next().unwrap();
        assert_eq!(
            cell.measures.into_iter().collect::<Vec<_>>(),
            [("pairs_per_second".to_owned(), vec![5.0])]
        );
        assert!(cell.distribution.contains(&(0.5, 2.0)) && cell.distribution.contains(&(1.0, 3.0)));
        assert_eq!(cell.note.unwrap(), "it failed: it has ended");
    }
}
