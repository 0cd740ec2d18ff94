//! The noise's distribution is unknown: hence medians, distribution-free intervals and an exact
//! rank test.

/// The confidence that a spread contains the true median, with enough rounds.
pub const CERTAINTY: f64 = 0.98;

/// The smallest change between runs that counts. A different memory layout may cause a smaller one.
pub const BETWEEN_RUNS: f64 = 0.1;

/// The most values of each run in the exact test, which limits its time.
const ENOUGH: usize = 40;

/// Returns the smallest change that counts: larger for few rounds, which may agree by chance.
pub fn relevant(rounds: usize) -> f64 {
    match rounds {
        0..=2 => 0.5,
        3..=6 => 0.15,
        _ => 0.05,
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The lower end of the interval that contains the true median with [`CERTAINTY`].
    pub low: f64,
    pub median: f64,
    pub high: f64,
    pub rounds: usize,
}

impl Spread {
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let rank = rank(sorted.len());
        Some(Self {
            low: *sorted.get(rank)?,
            median: middle(&sorted)?,
            high: sorted[sorted.len() - 1 - rank],
            rounds: sorted.len(),
        })
    }

    pub fn is_beyond_noise(&self) -> bool {
        (self.low > 1.0 || self.high < 1.0) && is_change(self.median, relevant(self.rounds))
    }
}

/// The ratios 2 and 1/2 are equally large changes.
fn is_change(ratio: f64, least: f64) -> bool {
    ratio.max(1.0 / ratio) >= (1.0 + least) * (1.0 - 1e-12)
}

/// Returns how many values to omit at each end, so that the rest encloses the true median with
/// [`CERTAINTY`].
fn rank(count: usize) -> usize {
    // The probability that exactly `rank` values are below the true median.
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

pub fn median(values: &[f64]) -> Option<f64> {
    middle(&sorted(values))
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let (below, above) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[below] + sorted[above]) / 2.0)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

pub fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| if of == to { 1.0 } else { of / to }).collect()
}

pub fn differ(old: &[f64], new: &[f64]) -> bool {
    let (Some(before), Some(after)) = (Spread::of(old), Spread::of(new)) else { return false };
    let rounds = before.rounds.min(after.rounds);
    let least = relevant(rounds).max(BETWEEN_RUNS);
    if before.median == after.median || !is_change(after.median / before.median, least) {
        return false;
    }
    // Fewer than five rounds can't reach [`CERTAINTY`], so the runs' values must not overlap.
    let are_apart =
        sorted(old).last() < sorted(new).first() || sorted(new).last() < sorted(old).first();
    mann_whitney(old, new) <= 1.0 - CERTAINTY || (rounds < 5 && are_apart)
}

/// Returns the p-value of the exact two-sided Mann-Whitney test, with mid-ranks.
pub fn mann_whitney(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (&one[..one.len().min(ENOUGH)], &other[..other.len().min(ENOUGH)]);
    let all = sorted(&[one, other].concat());
    // Twice the mid-rank is an integer.
    let rank = |value: &f64| {
        let below = all.partition_point(|known| known < value);
        below + 1 + all.partition_point(|known| known <= value)
    };
    let sum: usize = sorted(one).iter().map(rank).sum();
    let count = sorted(one).len();
    // `ways[n][s]` is the number of ways to choose `n` ranks with the sum `s`.
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
    fn medians_of_known_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, f64::NAN, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[1.0, f64::INFINITY]), Some(f64::INFINITY));
    }

    #[test]
    fn a_spread_leaves_out_what_the_rounds_allow() {
        let of = |count: u32| Spread::of(&(1..=count).map(f64::from).collect::<Vec<_>>()).unwrap();
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
        near(mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]), 2.0 / 252.0);
        let low: Vec<f64> = (1..=7).map(f64::from).collect();
        let high: Vec<f64> = (8..=14).map(f64::from).collect();
        near(mann_whitney(&low, &high), 2.0 / 3432.0);
        near(mann_whitney(&high, &low), 2.0 / 3432.0);
        near(mann_whitney(&low, &low), 1.0);
        // In tables, the critical U for 5 + 5 values at 0.05 is 2 (0.0317), not 3 (0.0556).
        near(mann_whitney(&[1.0, 2.0, 3.0, 5.0, 6.0], &[4.0, 7.0, 8.0, 9.0, 10.0]), 8.0 / 252.0);
        near(mann_whitney(&[1.0, 2.0, 3.0, 4.0, 8.0], &[5.0, 6.0, 7.0, 9.0, 10.0]), 14.0 / 252.0);
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
