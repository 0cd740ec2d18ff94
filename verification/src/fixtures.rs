use std::fmt::Write;

use super::{Protocol, Step, explore, mix};

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

    fn digest(&self, state: &[u64; 2]) -> u64 {
        mix(mix(0, state[0]), state[1])
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

/// Two programs that check a flag and then enter a critical section. With `takes`, the check also
/// sets the flag.
struct Flag {
    takes: bool,
}

/// The state has each program's position, and the flag. Positions are 0: outside, 1: after the
/// check, 2: inside, 3: left.
impl Protocol for Flag {
    type State = [u8; 3];
    type Action = (usize, &'static str);
    type Promise = &'static str;

    fn initial(&self) -> [u8; 3] {
        [0; 3]
    }

    fn steps(&self, state: &[u8; 3], steps: &mut Vec<Step<Self>>) {
        for who in 0..2 {
            let mut next = *state;
            let does = match state[who] {
                0 if state[2] == 0 => {
                    next[2] = u8::from(self.takes);
                    "looks"
                }
                1 => {
                    next[2] = 1;
                    "goes in"
                }
                2 => {
                    next[2] = 0;
                    "leaves"
                }
                _ => continue,
            };
            next[who] += 1;
            let broken = (next[0] == 2 && next[1] == 2).then_some("both are inside");
            steps.push(Step { action: (who, does), next, broken });
        }
    }

    fn judge(&self, state: &[u8; 3], last: bool) -> Option<&'static str> {
        (last && state[..2] != [3, 3]).then_some("stuck")
    }

    fn digest(&self, state: &[u8; 3]) -> u64 {
        state.iter().fold(0, |digest, byte| mix(digest, u64::from(*byte)))
    }

    fn tell(&self, _: &[u8; 3], step: &Step<Self>, text: &mut String) {
        let (who, does) = step.action;
        write!(text, "{who} {does}").unwrap();
    }
}

#[test]
fn a_known_bug_is_found_by_the_shortest_way() {
    let explored = explore(&Flag { takes: false }, usize::MAX, |_| true);
    let (promise, trace) = explored.broken.unwrap();
    assert_eq!(promise, "both are inside");
    assert_eq!(trace, " 1. 0 looks\n 2. 1 looks\n 3. 0 goes in\n 4. 1 goes in\n");
}

#[test]
fn correct_pages_pass() {
    let explored = explore(&Flag { takes: true }, usize::MAX, |_| true);
    assert!(explored.broken.is_none());
    assert_eq!(explored.states, 12);
}

#[test]
fn only_the_wanted_promise_ends_it() {
    let grid = Grid { top: 3, swaps: false, forbidden: Some([1, 1]) };
    assert!(explore(&grid, usize::MAX, |promise| promise == "stuck").broken.is_none());
}
