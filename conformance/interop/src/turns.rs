/// One of two programs that share a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Lockwright.
    Ours,
    /// The other program.
    Theirs,
}

/// A lock's holding side, and how often it changed.
#[derive(Debug, Default)]
pub struct Turns {
    inside: Option<Side>,
    last: Option<Side>,
    changes: usize,
}

impl Turns {
    const ENOUGH: usize = 10;

    /// Returns whether the holding side changed often enough.
    pub fn are_enough(&self) -> bool {
        self.changes >= Self::ENOUGH
    }

    /// Records a grant.
    ///
    /// # Panics
    /// If either program already holds the lock.
    pub fn enter(&mut self, side: Side) {
        assert_eq!(self.inside, None, "when {side:?} acquires the lock");
        self.inside = Some(side);
        if self.last.replace(side).is_some_and(|last| last != side) {
            self.changes += 1;
        }
    }

    /// Records a release.
    pub fn leave(&mut self) {
        self.inside = None;
    }
}
