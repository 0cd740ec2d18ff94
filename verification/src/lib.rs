//! Explores all states of a protocol, breadth first, so that the first violation has a shortest
//! trace.

mod page;

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};

pub use page::Page;

/// A protocol to explore.
pub trait Protocol {
    /// A state, which determines the possible steps.
    type State: Copy + Eq + Hash;
    /// A step's action.
    type Action: Copy;
    /// A property that can be violated.
    type Promise: Copy + Eq + fmt::Debug;

    /// Returns the initial state.
    fn initial(&self) -> Self::State;

    /// Adds all steps from `state`.
    fn steps(&self, state: &Self::State, steps: &mut Vec<Step<Self>>);

    /// Returns the promise that `state` breaks, if any. `last` is true if `state` has no steps.
    fn judge(&self, state: &Self::State, last: bool) -> Option<Self::Promise>;

    /// Returns one representative of all states equivalent to `state`, such as those with exchanged
    /// names.
    fn canonical(&self, state: &Self::State) -> Self::State {
        *state
    }

    /// Appends a step's description to `text`.
    fn tell(&self, before: &Self::State, step: &Step<Self>, text: &mut String);
}

/// A step to another state.
pub struct Step<P: Protocol + ?Sized> {
    /// The step's action.
    pub action: P::Action,
    /// The next state.
    pub next: P::State,
    /// The promise that the step breaks, if any.
    pub broken: Option<P::Promise>,
}

impl<P: Protocol + ?Sized> fmt::Debug for Step<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("broken", &self.broken).finish_non_exhaustive()
    }
}

/// The result of an exploration.
#[derive(Debug)]
pub struct Explored<Promise> {
    /// The number of states. Equivalent states count as one.
    pub states: usize,
    /// The number of steps between these states.
    pub steps: usize,
    /// The number of steps to the farthest state.
    pub depth: usize,
    /// The first broken promise, with a shortest trace to it.
    pub broken: Option<(Promise, String)>,
}

const MOST_STATES: usize = 200_000_000;

/// Explores all states, but stops at the first broken promise that `wanted` selects.
///
/// # Panics
/// With more than 200,000,000 states.
pub fn explore<P: Protocol>(
    protocol: &P,
    wanted: impl Fn(P::Promise) -> bool,
) -> Explored<P::Promise> {
    let mut visited = Visited::new();
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
        assert!(visited.states.len() <= MOST_STATES, "more than {MOST_STATES} states");
        at += 1;
    }
    explored.states = visited.states.len();
    explored
}

/// Computes a trace's steps again: canonical `states` may have exchanged names.
fn trace<P: Protocol>(protocol: &P, states: &[P::State], last: Option<P::State>) -> String {
    let mut text = String::new();
    let mut steps = Vec::new();
    let mut now = protocol.initial();
    for (number, wanted) in states.iter().skip(1).chain(last.iter()).enumerate() {
        steps.clear();
        protocol.steps(&now, &mut steps);
        let Some(step) = steps.iter().find(|step| protocol.canonical(&step.next) == *wanted) else {
            unreachable!("the step exists under any exchange of names")
        };
        write!(text, "{:2}. ", number + 1).expect("writing to a String succeeds");
        protocol.tell(&now, step, &mut text);
        text.push('\n');
        now = step.next;
    }
    text
}

const NOBODY: usize = u32::MAX as usize;

/// The states in the order of discovery, their predecessors, and an open-addressing table, several
/// times as fast as `HashMap` in a debug build.
struct Visited<S> {
    states: Vec<S>,
    parents: Vec<u32>,
    /// 0 if free, otherwise the state's index plus 1.
    table: Vec<u32>,
}

impl<S: Copy + Eq + Hash> Visited<S> {
    fn new() -> Self {
        Self { states: Vec::new(), parents: Vec::new(), table: vec![0; 1 << 12] }
    }

    fn insert(&mut self, state: S, parent: usize) {
        if self.states.len() * 2 > self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut slot = digest(&state) & mask;
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
        for (place, state) in self.states.iter().enumerate() {
            let mut slot = digest(state) & mask;
            while table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            table[slot] = place as u32 + 1;
        }
        self.table = table;
    }

    fn way_to(&self, mut at: usize) -> Vec<S> {
        let mut way = Vec::new();
        while at != NOBODY {
            way.push(self.states[at]);
            at = self.parents[at] as usize;
        }
        way.reverse();
        way
    }
}

fn digest(state: &impl Hash) -> usize {
    let mut digest = Digest(0);
    state.hash(&mut digest);
    digest.finish() as usize
}

/// A fast hash whose low bits depend on all fields.
struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
