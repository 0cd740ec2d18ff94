use std::time::Duration;

use lockwright_core::BootInstant;

use super::draw::{LEFT, RIGHT};
use crate::history::hold::seconds;

#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) zero: BootInstant,
    pub(super) from: BootInstant,
    pub(super) to: BootInstant,
}

impl Scale {
    pub(super) fn x(&self, instant: BootInstant) -> f64 {
        let length = self.length().as_nanos().max(1) as f64;
        let since = instant.saturating_since(self.from).as_nanos() as f64;
        LEFT + (since / length).min(1.0) * (RIGHT - LEFT)
    }

    pub(super) fn span(&self, from: BootInstant, to: BootInstant, least: f64) -> (f64, f64) {
        (self.x(from), (self.x(to) - self.x(from)).max(least))
    }

    pub(super) fn length(&self) -> Duration {
        self.to.saturating_since(self.from)
    }

    pub(super) fn shows(&self, from: BootInstant, to: BootInstant) -> bool {
        from <= self.to && to >= self.from
    }

    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let (first, last) = (seconds(self.zero, self.from), seconds(self.zero, self.to));
        let step = step((last - first) / 12.0);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let (first_tick, last_tick) = ((first / step).ceil() as i64, (last / step).floor() as i64);
        let tick = |number: i64| {
            let at = number as f64 * step;
            let x = LEFT + (at - first) / (last - first) * (RIGHT - LEFT);
            (x, format!("{at:.decimals$}"))
        };
        (first_tick..=last_tick).map(tick).collect()
    }
}

/// Returns the smallest number in …, 0.5, 1, 2, 5, 10, … that is at least `least`.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<f64>);

impl Lanes {
    /// Calls must be ordered by `from`.
    pub(super) fn take(&mut self, from: f64, to: f64) -> usize {
        let free = self.0.iter().position(|end| *end <= from);
        let lane = free.unwrap_or(self.0.len());
        if lane == self.0.len() {
            self.0.push(to);
        } else {
            self.0[lane] = to;
        }
        lane
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}
