use std::fmt::Write;

use super::{Protocol, Step, explore};

/// Two numbers that count from 0 to `top`. With `swaps`, states with swapped numbers are
/// equivalent.
struct Grid {
    top: u64,
    swaps: bool,
    forbidden: Option<[u64; 2]>,
}

impl Protocol for Grid {
    type State = [u64; 2];
    type Action = usize;
    type Promise = &'static str;

    fn initial(&self) -> [u64; 2] {
        [0, 0]
    }

    fn steps(&self, state: &[u64; 2], steps: &mut Vec<Step<Self>>) {
        for which in 0..2 {
            if state[which] < self.top {
                let mut next = *state;
                next[which] += 1;
                steps.push(Step { action: which, next, broken: None });
            }
        }
    }

    fn judge(&self, state: &[u64; 2], last: bool) -> Option<&'static str> {
        if Some(*state) == self.forbidden {
            return Some("forbidden");
        }
        (last && *state != [self.top; 2]).then_some("stuck")
    }

    fn canonical(&self, state: &[u64; 2]) -> [u64; 2] {
        let [one, two] = *state;
        if self.swaps && one < two { [two, one] } else { *state }
    }

    fn tell(&self, _: &[u64; 2], step: &Step<Self>, text: &mut String) {
        write!(text, "{}", step.action).unwrap();
    }
}

#[test]
fn each_state_is_visited_once() {
    let grid = Grid { top: 99, swaps: false, forbidden: None };
    let explored = explore(&grid, usize::MAX, |_| true);
    assert_eq!(explored.states, 100 * 100);
    assert_eq!(explored.steps, 2 * 100 * 99);
    assert_eq!(explored.depth, 2 * 99);
    assert!(explored.broken.is_none());
}

#[test]
fn states_that_differ_in_names_are_one() {
    let grid = Grid { top: 99, swaps: true, forbidden: None };
    assert_eq!(explore(&grid, usize::MAX, |_| true).states, 100 * 101 / 2);
}

#[test]
#[should_panic(expected = "more than 100 states")]
fn a_bound_that_is_too_large_is_noticed() {
    explore(&Grid { top: 99, swaps: false, forbidden: None }, 100, |_| true);
}

#[test]
fn a_trace_has_the_names_of_the_beginning() {
    let grid = Grid { top: 9, swaps: true, forbidden: Some([2, 1]) };
    let (promise, trace) = explore(&grid, usize::MAX, |_| true).broken.unwrap();
    assert_eq!(promise, "forbidden");
    assert_eq!(trace.lines().count(), 3);
    let steps: String = trace.lines().filter_map(|line| line.chars().last()).collect();
    assert!(["001", "010", "100", "110", "101", "011"].contains(&steps.as_str()), "{trace}");
}

#[test]
fn only_the_wanted_promise_ends_it() {
    let grid = Grid { top: 3, swaps: false, forbidden: Some([1, 1]) };
    assert!(explore(&grid, usize::MAX, |promise| promise == "stuck").broken.is_none());
}
