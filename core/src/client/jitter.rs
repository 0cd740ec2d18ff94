use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::backend_util::next_random;

/// Random numbers: from the process's generator, or from a seed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jitter(Option<Arc<AtomicU64>>);

impl Jitter {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(seed))))
    }

    pub(crate) fn spread(&self, time: Duration) -> Duration {
        const STEPS: u64 = 2 * 1_024;
        let quarter = time / 4;
        let random = match &self.0 {
            None => rand::random_range(0..=STEPS),
            Some(state) => next_random(state) % (STEPS + 1),
        };
        (time - quarter).saturating_add(quarter / 1_024 * random as u32)
    }
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
