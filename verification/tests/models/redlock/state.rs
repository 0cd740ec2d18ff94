//! A state: one word per node and one for the rounds, so that states compare fast in a debug build.

pub(crate) const MOST_ROUNDS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State<const N: usize> {
    pub(crate) nodes: [Node; N],
    pub(crate) rounds: Rounds,
}

/// A node's data, and the messages in flight to and from it, by bits:
///
/// ```text
///  0 ..  4  its fence counter
///  4 ..  8  the fence recorded for the hold
///  8 .. 11  the holder's token plus 1, or 0 if free
/// 11 .. 13  the last round that started or extended the hold
/// 13        1 if the node doesn't vote yet
/// 14 .. 18  the rounds that the node may have forgotten
/// 18 .. 54  for each round 9 bits: the flags of `Mail`, and in bits 1 .. 5 the node's answer
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node(pub(crate) u64);

/// A flag of a node for one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mail {
    Asked = 0,
    Raising = 5,
    /// The node has confirmed the round's fence.
    Has = 6,
    /// A release of the token is in flight. Only the token's first round has this flag.
    Releasing = 7,
    /// The node ignores requests of the token. Only the token's first round has this flag.
    Tombstone = 8,
}

const MAIL: u32 = 18;
const MAIL_WIDTH: u32 = 9;

fn bits(word: u64, at: u32, width: u32) -> u64 {
    (word >> at) & ((1 << width) - 1)
}

fn with(word: u64, at: u32, width: u32, value: u64) -> u64 {
    assert!(value >> width == 0, "the bounds need larger numbers than there is room for");
    word & !(((1 << width) - 1) << at) | value << at
}

fn mail(round: usize) -> u32 {
    MAIL + MAIL_WIDTH * round as u32
}

/// Defines the functions that read and write a number at a place in the word.
macro_rules! field {
    ($get:ident, $set:ident $(, $round:ident)?: $at:expr, $width:literal) => {
        pub(crate) fn $get(self $(, $round: usize)?) -> u64 {
            bits(self.0, $at, $width)
        }

        pub(crate) fn $set(&mut self $(, $round: usize)?, number: u64) {
            self.0 = with(self.0, $at, $width, number);
        }
    };
}

macro_rules! flag {
    ($is:ident, $set:ident $(, $round:ident)?: $at:expr) => {
        pub(crate) fn $is(self $(, $round: usize)?) -> bool {
            bits(self.0, $at, 1) == 1
        }

        pub(crate) fn $set(&mut self $(, $round: usize)?, is: bool) {
            self.0 = with(self.0, $at, 1, u64::from(is));
        }
    };
}

impl Node {
    pub(crate) const EMPTY: Self = Self(0);

    field!(counter, set_counter: 0, 4);
    field!(noted, set_noted: 4, 4);
    flag!(waits, set_waits: 13);
    field!(forgot, set_forgot: 14, 4);
    field!(answer, set_answer, round: mail(round) + 1, 4);

    pub(crate) fn holder(self) -> Option<usize> {
        (bits(self.0, 8, 3) as usize).checked_sub(1)
    }

    pub(crate) fn is_free(self) -> bool {
        bits(self.0, 8, 3) == 0
    }

    /// Starts or extends the hold of `token`, but never shortens it.
    pub(crate) fn arm(&mut self, token: usize, round: usize) {
        let round = if self.is_free() { round } else { round.max(self.armed_by()) };
        self.0 = with(with(self.0, 8, 3, token as u64 + 1), 11, 2, round as u64);
    }

    pub(crate) fn armed_by(self) -> usize {
        bits(self.0, 11, 2) as usize
    }

    pub(crate) fn free(&mut self) {
        self.0 = with(self.0, 4, 9, 0);
    }

    pub(crate) fn has(self, round: usize, what: Mail) -> bool {
        bits(self.0, mail(round) + what as u32, 1) == 1
    }

    pub(crate) fn set(&mut self, round: usize, what: Mail, is: bool) {
        self.0 = with(self.0, mail(round) + what as u32, 1, u64::from(is));
    }

    /// Loses all data, except messages in flight.
    pub(crate) fn empty(&mut self) {
        self.0 = with(self.0, 0, MAIL, 0);
        for round in 0..MOST_ROUNDS {
            self.set(round, Mail::Tombstone, false);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Unstarted = 0,
    Asking = 1,
    /// The round waits until a quorum has its fence.
    Noting = 2,
    Holding = 3,
    /// The round ended without a grant.
    Failed = 4,
    /// The round was granted, and has ended.
    Ended = 5,
}

/// All rounds in the order of their start, 15 bits each:
///
/// ```text
///  0 ..  3  phase
///  3        1 if a renewal
///  4 ..  6  token: the first round that had it
///  6 .. 10  candidate
/// 10 .. 14  fence, once one is chosen
/// 14        1 if past its deadline (only for mutants that ignore it)
/// ```
///
/// and then the remaining faults: 2 bits for losses of data, 1 for a clock jump, 1 for a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rounds(pub(crate) u64);

const ROUND: u32 = 15;

/// A kind of fault: the first bit and the width of its counter.
type Fault = (u32, u32);

pub(crate) const LOSSES: Fault = (60, 2);
pub(crate) const JUMPS: Fault = (62, 1);
pub(crate) const DUPLICATES: Fault = (63, 1);

impl Rounds {
    pub(crate) fn new(losses: u64, jumps: u64, duplicates: u64) -> Self {
        Self(losses << LOSSES.0 | jumps << JUMPS.0 | duplicates << DUPLICATES.0)
    }

    fn get(self, round: usize, at: u32, width: u32) -> u64 {
        bits(self.0, ROUND * round as u32 + at, width)
    }

    fn put(&mut self, round: usize, at: u32, width: u32, value: u64) {
        self.0 = with(self.0, ROUND * round as u32 + at, width, value);
    }

    pub(crate) fn phase(self, round: usize) -> Phase {
        match self.get(round, 0, 3) {
            0 => Phase::Unstarted,
            1 => Phase::Asking,
            2 => Phase::Noting,
            3 => Phase::Holding,
            4 => Phase::Failed,
            _ => Phase::Ended,
        }
    }

    pub(crate) fn set_phase(&mut self, round: usize, phase: Phase) {
        self.put(round, 0, 3, phase as u64);
    }

    pub(crate) fn is_live(self, round: usize) -> bool {
        matches!(self.get(round, 0, 3), 1..=3)
    }

    pub(crate) fn was_granted(self, round: usize) -> bool {
        matches!(self.phase(round), Phase::Holding | Phase::Ended)
    }

    pub(crate) fn token(self, round: usize) -> usize {
        self.get(round, 4, 2) as usize
    }

    pub(crate) fn set_token(&mut self, round: usize, token: usize) {
        self.put(round, 4, 2, token as u64);
    }

    field!(candidate, set_candidate, round: ROUND * round as u32 + 6, 4);
    field!(fence, set_fence, round: ROUND * round as u32 + 10, 4);
    flag!(is_renewal, set_renewal, round: ROUND * round as u32 + 3);
    flag!(is_overdue, set_overdue, round: ROUND * round as u32 + 14);

    pub(crate) fn left(self, (at, width): Fault) -> u64 {
        bits(self.0, at, width)
    }

    pub(crate) fn take(&mut self, (at, _): Fault) {
        self.0 -= 1 << at;
    }
}
