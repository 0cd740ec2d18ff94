use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Chance(fastrand::Rng);

impl Chance {
    pub(crate) fn from(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn branch(&mut self) -> Self {
        Self(self.0.fork())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit.max(1))
    }

    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.u64(least..=most)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn permille(&mut self, n: u64) -> bool {
        self.below(1_000) < n
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.usize(..from.len())]
    }

    pub(crate) fn time(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(most.as_micros() as u64 + 1))
    }
}
