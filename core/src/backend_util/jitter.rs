use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of random numbers: the process's generator, or a seeded sequence that its clones share.
#[derive(Debug, Clone, Default)]
pub struct Jitter(Option<Arc<AtomicU64>>);

impl Jitter {
    /// Returns a generator whose sequence depends only on the seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(seed))))
    }

    fn bits(&self) -> u64 {
        self.0.as_deref().map_or_else(rand::random, next_random)
    }

    /// Returns a random time that differs from `time` by at most a quarter.
    pub fn spread(&self, time: Duration) -> Duration {
        const STEPS: u64 = 2 * 1_024;
        let quarter = time / 4;
        let random = self.bits() % (STEPS + 1);
        (time - quarter).saturating_add(quarter / 1_024 * random as u32)
    }

    /// Returns a random time below `limit`.
    pub fn below(&self, limit: Duration) -> Duration {
        limit.mul_f64((self.bits() >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
fn next_random(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bits = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_stays_within_a_quarter_of_what_was_meant() {
        let time = Duration::from_secs(8);
        for jitter in [Jitter::default(), Jitter::from_seed(1)] {
            let spread: Vec<_> = (0..1_000).map(|_| jitter.spread(time)).collect();
            let (least, most) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
            assert!(*least >= time * 3 / 4 && *most <= time * 5 / 4, "{least:?} to {most:?}");
            assert!((0..1_000).all(|_| jitter.below(time) < time));
            assert!(*least < time * 4 / 5 && *most > time * 6 / 5, "{least:?} to {most:?}");
        }
    }

    #[test]
    fn a_seed_repeats_itself() {
        let waits = |seed| {
            let jitter = Jitter::from_seed(seed);
            (0..10).map(|_| jitter.spread(Duration::from_secs(8))).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
