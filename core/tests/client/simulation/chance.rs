use std::sync::Mutex;
use std::time::Duration;

use lockwright_core::{Token, TokenSource};

use crate::support::millis;

#[derive(Debug)]
pub(super) struct Chance(Mutex<fastrand::Rng>);

impl Chance {
    pub(super) fn from(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.0.lock().unwrap().u64(..limit)
    }

    pub(super) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn millis_below(&self, limit: u64) -> Duration {
        millis(self.below(limit))
    }

    pub(super) fn of<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    pub(super) fn tokens(seed: u64) -> TokenSource {
        let chance = Self::from(seed ^ 0x746f_6b65_6e73);
        TokenSource::from_fn(move || {
            Token::from_bytes(chance.0.lock().unwrap().u128(..).to_le_bytes())
        })
    }
}
