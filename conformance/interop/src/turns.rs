//! Who is inside what a lock protects.

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Ours.
    Ours,
    /// The other one.
    Theirs,
}

/// Who is inside what the lock protects.
#[derive(Debug, Default)]
pub struct Turns {
    inside: Option<Side>,
    last: Option<Side>,
    changes: usize,
}

impl Turns {
    /// A side that waits for the other has contended with it.
    const ENOUGH: usize = 10;

    /// Whether it went often enough from one side to the other.
    pub fn are_enough(&self) -> bool {
        self.changes >= Self::ENOUGH
    }

    /// Somebody comes in.
    ///
    /// # Panics
    /// If somebody is inside.
    pub fn enter(&mut self, side: Side) {
        assert_eq!(self.inside, None, "when {side:?} comes in");
        self.inside = Some(side);
        if self.last.replace(side).is_some_and(|last| last != side) {
            self.changes += 1;
        }
    }

    /// Whoever is inside goes out.
    pub fn leave(&mut self) {
        self.inside = None;
    }
}
