//! Visits every state that a protocol can reach, breadth first, so that the first broken promise
//! found is one that takes the fewest steps: for models of what takes more than one step. What came
//! out stands on a [`Page`] of the documentation, which is compared with it.

mod page;
#[cfg(test)]
mod toys;

use std::fmt::{self, Write};

pub use page::Page;

/// What can be explored: a state, and the steps out of it.
pub trait Protocol {
    /// All that what happens next depends on.
    type State: Copy + Eq;
    /// What leads from one state to another, as it is told.
    type Action: Copy;
    /// A promise that can be broken.
    type Promise: Copy + Eq + fmt::Debug;

    /// The state in which it begins.
    fn initial(&self) -> Self::State;

    /// All steps that are possible in `state`.
    fn steps(&self, state: &Self::State, steps: &mut Vec<Step<Self>>);

    /// The promise that `state` itself breaks. `last` says that no step leads out of it.
    fn judge(&self, state: &Self::State, last: bool) -> Option<Self::Promise>;

    /// One of all states that differ in names only: the same one for each of them.
    fn canonical(&self, state: &Self::State) -> Self::State {
        *state
    }

    /// For the table of visited states.
    fn digest(&self, state: &Self::State) -> u64;

    /// A step, for people.
    fn tell(&self, before: &Self::State, step: &Step<Self>, text: &mut String);
}

/// A step, where it leads, and the promise that it breaks.
pub struct Step<P: Protocol + ?Sized> {
    /// What happens.
    pub action: P::Action,
    /// The state afterwards.
    pub next: P::State,
    /// The promise that this breaks, if it breaks one.
    pub broken: Option<P::Promise>,
}

impl<P: Protocol + ?Sized> fmt::Debug for Step<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("broken", &self.broken).finish_non_exhaustive()
    }
}

/// What came of exploring.
#[derive(Debug)]
pub struct Explored<Promise> {
    /// How many states there are, but for names.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// The length of the longest of all shortest ways to a state.
    pub depth: usize,
    /// The first broken promise, and the shortest way to it.
    pub broken: Option<(Promise, String)>,
}

/// Explores all states, or until one of `wanted` is broken.
///
/// # Panics
///
/// When there are more than `limit` states: a bound that was chosen too large is to be noticed.
pub fn explore<P: Protocol>(
    protocol: &P,
    limit: usize,
    wanted: impl Fn(P::Promise) -> bool,
) -> Explored<P::Promise> {
    let mut visited = Visited::new(protocol);
    let mut steps = Vec::new();
    let mut explored = Explored { states: 0, steps: 0, depth: 0, broken: None };
    visited.insert(protocol.initial(), NOBODY);
    let mut level_ends = 1;
    let mut at = 0;
    while at < visited.states.len() {
        if at == level_ends {
            explored.depth += 1;
            level_ends = visited.states.len();
        }
        steps.clear();
        let state = visited.states[at];
        protocol.steps(&state, &mut steps);
        let mut broken = protocol.judge(&state, steps.is_empty()).filter(|it| wanted(*it));
        let mut last = None;
        for step in &steps {
            explored.steps += 1;
            if broken.is_none()
                && let Some(promise) = step.broken
                && wanted(promise)
            {
                broken = Some(promise);
                last = Some(protocol.canonical(&step.next));
            }
            visited.insert(protocol.canonical(&step.next), at);
        }
        if let Some(promise) = broken {
            explored.broken = Some((promise, trace(protocol, &visited.way_to(at), last)));
            break;
        }
        assert!(visited.states.len() <= limit, "more than {limit} states");
        at += 1;
    }
    explored.states = visited.states.len();
    explored
}

/// The steps through `states`, with the names as they are at the beginning: each state was visited
/// under the names that are canonical for it, so the way is walked again.
fn trace<P: Protocol>(protocol: &P, states: &[P::State], last: Option<P::State>) -> String {
    let mut text = String::new();
    let mut steps = Vec::new();
    let mut now = protocol.initial();
    for (number, wanted) in states.iter().skip(1).chain(last.iter()).enumerate() {
        steps.clear();
        protocol.steps(&now, &mut steps);
        let Some(step) = steps.iter().find(|step| protocol.canonical(&step.next) == *wanted) else {
            unreachable!("names make no difference, so the step is there under any")
        };
        write!(text, "{:2}. ", number + 1).expect("a string takes all");
        protocol.tell(&now, step, &mut text);
        text.push('\n');
        now = step.next;
    }
    text
}

const NOBODY: usize = u32::MAX as usize;

/// The states seen so far: in the order of discovery, each with the one it was discovered from, and
/// a table of their places with open addressing. A table of our own is several times as fast as a
/// general one in a build without optimisation, in which tests run.
struct Visited<'p, P: Protocol> {
    protocol: &'p P,
    states: Vec<P::State>,
    parents: Vec<u32>,
    /// 0 is free; otherwise the place and one.
    table: Vec<u32>,
}

impl<'p, P: Protocol> Visited<'p, P> {
    fn new(protocol: &'p P) -> Self {
        Self { protocol, states: Vec::new(), parents: Vec::new(), table: vec![0; 1 << 12] }
    }

    fn insert(&mut self, state: P::State, parent: usize) {
        if self.states.len() * 2 > self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut slot = self.protocol.digest(&state) as usize & mask;
        loop {
            let place = self.table[slot] as usize;
            if place == 0 {
                break;
            }
            if self.states[place - 1] == state {
                return;
            }
            slot = (slot + 1) & mask;
        }
        self.states.push(state);
        self.parents.push(parent as u32);
        self.table[slot] = u32::try_from(self.states.len()).expect("fewer than 2^32 states");
    }

    fn grow(&mut self) {
        let mask = self.table.len() * 4 - 1;
        let mut table = vec![0; mask + 1];
        let mut place = 0;
        while place < self.states.len() {
            let mut slot = self.protocol.digest(&self.states[place]) as usize & mask;
            while table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            place += 1;
            table[slot] = place as u32;
        }
        self.table = table;
    }

    fn way_to(&self, mut at: usize) -> Vec<P::State> {
        let mut way = Vec::new();
        while at != NOBODY {
            way.push(self.states[at]);
            at = self.parents[at] as usize;
        }
        way.reverse();
        way
    }
}

/// Mixes words to a digest whose low bits depend on all of them.
pub fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}
