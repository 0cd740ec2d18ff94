//! The random numbers of a schedule, from its seed.

use std::sync::Mutex;
use std::time::Duration;

use lockwright_core::{Token, TokenSource};

use crate::support::millis;

/// A xorshift generator that the tasks of one schedule share.
#[derive(Debug)]
pub(super) struct Chance(Mutex<u64>);

impl Chance {
    pub(super) fn from(seed: u64) -> Self {
        Self(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) % limit
    }

    pub(super) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a duration of less than `limit` milliseconds.
    pub(super) fn millis_below(&self, limit: u64) -> Duration {
        millis(self.below(limit))
    }

    pub(super) fn of<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns a source of tokens, so that a schedule has the same tokens in each run.
    pub(super) fn tokens(seed: u64) -> TokenSource {
        let chance = Self::from(seed ^ 0x746f_6b65_6e73);
        TokenSource::from_fn(move || {
            let mut bytes = [0; 16];
            bytes.fill_with(|| chance.below(256) as u8);
            Token::from_bytes(bytes)
        })
    }
}
