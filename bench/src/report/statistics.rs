//! What the figures of a few rounds say, and what they don't.
//!
//! There are few rounds and their noise has no known shape (a loopback flips between two speeds), so
//! nothing here assumes one: medians, the interval that a median is in whatever the distribution, and
//! an exact test of ranks.

/// How certain a spread is to contain the true median, where there are rounds enough for that.
pub const CERTAINTY: f64 = 0.98;

/// Changes between two runs that are smaller than this say nothing, however well their rounds agree: a
/// build that is laid out otherwise in memory does as much.
pub const BETWEEN_RUNS: f64 = 0.1;

/// More rounds of one side than these tell nothing more, and the exact test becomes slow.
const ENOUGH: usize = 40;

/// The smallest change that counts, by how many rounds there were: with few, all of them agree by
/// chance.
#[must_use]
pub fn relevant(rounds: usize) -> f64 {
    match rounds {
        0..=2 => 0.5,
        3..=6 => 0.15,
        _ => 0.05,
    }
}

/// The median of some rounds, and how far they are apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The lower end of the interval that contains the true median with [`CERTAINTY`]: the least
    /// figure, of up to ten rounds.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper end: the greatest figure, of up to ten rounds.
    pub high: f64,
    /// Of how many rounds.
    pub rounds: usize,
}

impl Spread {
    /// That of `values`, if there are any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let rank = rank(sorted.len());
        Some(Self {
            low: *sorted.get(rank)?,
            median: percentile(&sorted, 0.5)?,
            high: sorted[sorted.len() - 1 - rank],
            rounds: sorted.len(),
        })
    }

    /// Whether these ratios are no ratio of equals: 1 is outside of their spread, and the median is
    /// so far from it that it matters.
    #[must_use]
    pub fn is_beyond_noise(&self) -> bool {
        (self.low > 1.0 || self.high < 1.0) && is_change(self.median, relevant(self.rounds))
    }
}

/// Whether a ratio differs from 1 by at least the share `least`, in whichever direction: twice as much
/// is as far as half.
fn is_change(ratio: f64, least: f64) -> bool {
    // What is written as 5 % must be 5 %, whatever its last bit.
    ratio.max(1.0 / ratio) >= (1.0 + least) * (1.0 - 1e-12)
}

/// How many of the least, and how many of the greatest, of so many values may be left out so that the
/// true median is still between the others with [`CERTAINTY`].
fn rank(count: usize) -> usize {
    // How likely it is that none of the values is below the true median, then one, then two …
    let mut chance = 0.5_f64.powi(count as i32);
    let mut outside = 0.0;
    let mut rank = 0;
    loop {
        outside += chance;
        if 2.0 * outside > 1.0 - CERTAINTY {
            return rank.max(1) - 1;
        }
        chance *= (count - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
}

/// The median, if there are any values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(&sorted(values), 0.5)
}

/// What a share of `sorted` values, from 0 to 1, doesn't exceed; between two values it is interpolated.
#[must_use]
pub fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, part) = (sorted[at as usize], at.fract());
    let above = sorted[at.ceil() as usize];
    // Infinity times 0 is no number.
    Some(if part == 0.0 || below == above { below } else { below * (1.0 - part) + above * part })
}

/// What is a number of `values`, the least first. Infinity is one: it is the ratio to nothing.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The ratios of what came out in the same rounds. One who failed on the way has the first ones only.
/// None to nothing is 1: both need the same.
#[must_use]
pub fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| if of == to { 1.0 } else { of / to }).collect()
}

/// Whether two runs' rounds differ beyond their noise.
#[must_use]
pub fn differ(old: &[f64], new: &[f64]) -> bool {
    let (Some(before), Some(after)) = (Spread::of(old), Spread::of(new)) else { return false };
    let rounds = before.rounds.min(after.rounds);
    let least = relevant(rounds).max(BETWEEN_RUNS);
    if before.median == after.median || !is_change(after.median / before.median, least) {
        return false;
    }
    // With fewer than five on each side the test can't say so even if all of them agree.
    let are_apart =
        sorted(old).last() < sorted(new).first() || sorted(new).last() < sorted(old).first();
    mann_whitney(old, new) <= 1.0 - CERTAINTY || (rounds < 5 && are_apart)
}

/// How likely two sets of the same distribution differ at least as much in their ranks as these do: the
/// two-sided, exact test by Mann and Whitney, with equal values at the middle of their ranks.
#[must_use]
pub fn mann_whitney(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (&one[..one.len().min(ENOUGH)], &other[..other.len().min(ENOUGH)]);
    let all = sorted(&[one, other].concat());
    // Twice the middle of its ranks, so that it is a whole number.
    let rank = |value: &f64| {
        let below = all.partition_point(|known| known < value);
        below + 1 + all.partition_point(|known| known <= value)
    };
    let sum: usize = sorted(one).iter().map(rank).sum();
    let count = sorted(one).len();
    // In how many ways so many of all ranks add up to each sum.
    let most = all.iter().map(rank).sum::<usize>();
    let mut ways = vec![vec![0.0_f64; most + 1]; count + 1];
    ways[0][0] = 1.0;
    for rank in all.iter().map(rank) {
        for taken in (1..=count).rev() {
            for sum in rank..=most {
                ways[taken][sum] += ways[taken - 1][sum - rank];
            }
        }
    }
    let expected = (count * (all.len() + 1)) as f64;
    let distance = |sum: usize| (sum as f64 - expected).abs();
    let ways = &ways[count];
    let total: f64 = ways.iter().sum();
    let as_far: f64 = ways
        .iter()
        .enumerate()
        .filter(|(at, _)| distance(*at) >= distance(sum))
        .map(|(_, n)| n)
        .sum();
    as_far / total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} instead of {expected}");
    }

    #[test]
    fn percentiles_of_known_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, f64::NAN, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let sorted: Vec<f64> = (0..=100).map(f64::from).collect();
        near(percentile(&sorted, 0.99).unwrap(), 99.0);
        near(percentile(&sorted[..11], 0.25).unwrap(), 2.5);
        assert_eq!(percentile(&[1.0, f64::INFINITY], 1.0), Some(f64::INFINITY));
        assert_eq!(percentile(&[f64::INFINITY; 2], 0.5), Some(f64::INFINITY));
    }

    #[test]
    fn a_spread_leaves_out_what_the_rounds_allow() {
        let of = |count: u32| Spread::of(&(1..=count).map(f64::from).collect::<Vec<_>>()).unwrap();
        // The chance that all of seven are on one side is 1/64; that at most one of ten is, 22/1024,
        // which is more than 2 %; of eleven, 24/2048, which is less.
        for count in 1..=10 {
            assert_eq!((of(count).low, of(count).high), (1.0, f64::from(count)));
        }
        assert_eq!((of(11).low, of(11).median, of(11).high), (2.0, 6.0, 10.0));
        assert_eq!((of(1_000).low, of(1_000).high), (463.0, 538.0));
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        assert_eq!(ratios(&[1.0, 4.0, 9.0], &[2.0, 4.0]), [0.5, 1.0]);
        assert_eq!(ratios(&[0.0, 3.0], &[0.0, 0.0]), [1.0, f64::INFINITY]);
    }

    #[test]
    fn noise_is_where_one_round_disagrees_or_little_is_at_stake() {
        let beyond = |ratios: &[f64]| Spread::of(ratios).unwrap().is_beyond_noise();
        assert!(beyond(&[0.9; 7]));
        assert!(!beyond(&[0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 1.01]), "one disagrees");
        assert!(!beyond(&[0.96; 7]), "four percent");
        assert!(beyond(&[1.05; 7]) && beyond(&[1.0 / 1.05; 7]), "five, both ways");
        assert!(!beyond(&[0.9; 3]) && beyond(&[0.8; 3]), "few rounds, much at stake");
        assert!(!beyond(&[0.8]) && beyond(&[0.5]), "a single one");
        assert!(beyond(&[0.0; 7]) && beyond(&[f64::INFINITY; 7]));
    }

    #[test]
    fn the_exact_test_gives_the_known_chances() {
        // All of one side below all of the other: 2 of (10 over 5), 2 of (14 over 7).
        near(mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]), 2.0 / 252.0);
        let low: Vec<f64> = (1..=7).map(f64::from).collect();
        let high: Vec<f64> = (8..=14).map(f64::from).collect();
        near(mann_whitney(&low, &high), 2.0 / 3432.0);
        near(mann_whitney(&high, &low), 2.0 / 3432.0);
        near(mann_whitney(&low, &low), 1.0);
        // The table's 0.05 for five and five: U = 2 is significant (0.0317), U = 3 isn't (0.0556).
        near(mann_whitney(&[1.0, 2.0, 3.0, 5.0, 6.0], &[4.0, 7.0, 8.0, 9.0, 10.0]), 8.0 / 252.0);
        near(mann_whitney(&[1.0, 2.0, 3.0, 4.0, 8.0], &[5.0, 6.0, 7.0, 9.0, 10.0]), 14.0 / 252.0);
        // With ties: of the six ways to choose two of 1 1 2 2, one has both ones, one both twos.
        near(mann_whitney(&[1.0, 1.0], &[2.0, 2.0]), 2.0 / 6.0);
        near(mann_whitney(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
    }

    #[test]
    fn runs_differ_by_rank_and_by_much() {
        let base = [1.00, 1.02, 0.98, 1.01, 0.99, 1.03, 0.97];
        let times = |factor: f64| base.map(|value| value * factor);
        assert!(!differ(&base, &base));
        assert!(!differ(&base, &times(1.08)), "less than ten percent");
        assert!(differ(&base, &times(0.7)) && differ(&times(0.7), &base));
        let wild = [0.5, 1.0, 2.0, 0.6, 1.5, 1.3, 0.7];
        assert!(!differ(&wild, &wild.map(|value| value * 0.8)), "they overlap");
        assert!(!differ(&[1.0, 1.0, 1.0], &[0.9, 0.9, 0.9]), "three rounds");
        assert!(differ(&[1.0, 1.0, 1.0], &[0.8, 0.8, 0.8]));
        assert!(!differ(&[], &base) && !differ(&[0.0; 7], &[0.0; 7]));
        assert!(differ(&[0.0; 7], &[5.0; 7]));
    }
}
