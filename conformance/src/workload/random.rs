use std::time::Duration;

/// A deterministic generator: SplitMix64 (Steele, Lea and Flood, 2014). A library could change the
/// sequence, but recorded seeds must replay their schedules.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates the generator of a run's part, such as a process, from the run's seed.
    pub fn of(seed: u64, part: u64) -> Self {
        let mut seed = Self(seed);
        Self(seed.next() ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`.
    ///
    /// # Panics
    /// If `limit` is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns true with probability 1 / `cases`.
    pub fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }

    /// Returns a time from `least` to `most`, both inclusive, in whole microseconds.
    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        let range = most.saturating_sub(least).as_micros() as u64;
        least + Duration::from_micros(self.below(range + 1))
    }

    /// Returns one of `items`.
    ///
    /// # Panics
    /// If `items` is empty.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}
