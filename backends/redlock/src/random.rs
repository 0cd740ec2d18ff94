//! Random waits; with a seed, the same ones in each run.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use lockwright_core::Token;
use lockwright_core::backend_util::next_random;

#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(AtomicU64::new(seed.unwrap_or_else(|| {
            let random = Token::random();
            let mut seed = [0; 8];
            seed.copy_from_slice(&random.as_bytes()[..8]);
            u64::from_le_bytes(seed)
        })))
    }

    pub(crate) fn below(&self, limit: Duration) -> Duration {
        let bits = next_random(&self.0);
        limit.mul_f64((bits >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_two_differ() {
        let draw = |random: Random| -> Vec<Duration> {
            (0..50).map(|_| random.below(Duration::from_secs(1))).collect()
        };
        assert_eq!(draw(Random::new(Some(7))), draw(Random::new(Some(7))));
        assert_ne!(draw(Random::new(Some(7))), draw(Random::new(Some(8))));
        assert_ne!(draw(Random::new(None)), draw(Random::new(None)));
        assert!(draw(Random::new(None)).iter().all(|time| *time < Duration::from_secs(1)));
    }
}
