//! Admission rules for servers that keep one queue per lock (etcd, ZooKeeper). An admitted claim
//! holds the lock.
//!
//! The server numbers claims in order of arrival, so an admitted claim stays admitted. A client
//! with an outdated view of the queue admits its claim too late, never too early. Claims of a lock
//! and of a semaphore in one queue exclude each other.
//!
//! # The shared fence of concurrent readers
//!
//! A writer's fence is its claim's number. A reader takes the lowest fence of all concurrent
//! readers, even of those behind it. It writes this fence to its own entry, in an atomic step that
//! also checks that the [reader with the lowest fence](fence_source) is present and unchanged.
//! Before this write, the reader isn't admitted.
//!
//! - *The fence is above those of all earlier writers.* Earlier claims have lower numbers, and no
//!   writer held the lock while the reader with the lowest fence was present.
//! - *The fence is below those of all later writers.* Later claims have numbers above every fence
//!   that a reader could take.
//! - *All admitted readers have the lowest fence.* A later reader has its own larger number or an
//!   existing fence, so it can't lower the lowest fence.

use crate::{Mode, Token};

/// Returns a mode as text, for the name of a claim's key or node: `r` for a reader, `p2of3` for two
/// of three permits; `None` for an exclusive claim.
pub fn mark(mode: Mode) -> Option<String> {
    match mode {
        Mode::Exclusive => None,
        Mode::Shared => Some("r".to_owned()),
        Mode::Permits { count, of } => Some(format!("p{count}of{of}")),
    }
}

/// Parses the output of [`mark`].
pub fn marked(text: &str) -> Option<Mode> {
    let mode = if text == "r" {
        Mode::Shared
    } else {
        let (count, of) = text.strip_prefix('p')?.split_once("of")?;
        let (count, of) = (count.parse().ok()?, of.parse().ok()?);
        (count > 0 && count <= of).then_some(Mode::Permits { count, of })?
    };
    (mark(mode).as_deref() == Some(text)).then_some(mode)
}

/// Parses a [`mark`], a dot and a token.
pub fn signed(text: &str) -> Option<(Mode, Token)> {
    let (text, token) = text.split_once('.')?;
    Some((marked(text)?, token.parse().ok()?))
}

/// Returns whether a claim of mode `own` is admitted behind the claims `before`.
pub fn admits(before: &[Mode], own: Mode) -> bool {
    match own {
        Mode::Exclusive => before.is_empty(),
        Mode::Shared => before.iter().all(|mode| *mode == Mode::Shared),
        Mode::Permits { .. } => {
            let mut taken = 0;
            before.iter().chain([&own]).all(|mode| add_permits(&mut taken, *mode))
        }
    }
}

/// Returns how many claims at the head of the queue are admitted.
pub fn holders(line: &[Mode]) -> usize {
    let mut taken = 0;
    match line.first() {
        Some(Mode::Exclusive) => 1,
        Some(Mode::Shared) => line.iter().take_while(|mode| **mode == Mode::Shared).count(),
        _ => line.iter().take_while(|mode| add_permits(&mut taken, **mode)).count(),
    }
}

/// Returns the indices in `before` of the claims whose release may admit a claim of mode `own`.
pub fn blockers(before: &[Mode], own: Mode) -> std::ops::Range<usize> {
    let last = before.len().saturating_sub(1);
    match own {
        Mode::Exclusive => last..before.len(),
        Mode::Shared => {
            let writer = before.iter().rposition(|mode| *mode != Mode::Shared);
            writer.map_or(0..0, |at| at..at + 1)
        }
        Mode::Permits { .. } => 0..before.len(),
    }
}

/// Adds a claim's permits to `taken`. Returns whether the claim is admitted if all earlier claims
/// are; false for a lock's claim.
fn add_permits(taken: &mut u64, mode: Mode) -> bool {
    let Mode::Permits { count, of } = mode else { return false };
    *taken += u64::from(count);
    *taken <= u64::from(of)
}

/// A reader's claim with only readers ahead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// The claim's number.
    pub created: u64,
    /// The fence of another reader, if the claim reuses it.
    pub taken: Option<u64>,
}

impl Reader {
    /// Returns the fence that the reader has after its admission.
    pub fn fence(self) -> u64 {
        self.taken.unwrap_or(self.created)
    }
}

/// Returns the index of the reader whose fence the reader at `own` takes; `None` for its own.
/// `readers` are all readers ahead of the first claim of another mode.
pub fn fence_source(readers: &[Reader], own: usize) -> Option<usize> {
    let lowest = (0..readers.len()).min_by_key(|at| readers[*at].fence())?;
    (readers[lowest].fence() < readers[own].fence()).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: Mode = Mode::Exclusive;
    const R: Mode = Mode::Shared;

    fn p(count: u32) -> Mode {
        Mode::Permits { count, of: 3 }
    }

    #[test]
    fn a_mark_has_one_spelling() {
        for mode in [R, p(1), p(3), Mode::Permits { count: u32::MAX, of: u32::MAX }] {
            assert_eq!(marked(&mark(mode).unwrap()), Some(mode));
            let token = Token::random();
            let text = format!("{}.{token}", mark(mode).unwrap());
            assert_eq!(signed(&text), Some((mode, token)));
        }
        for other in ["", "R", "p", "p1", "pof3", "p0of3", "p4of3", "p+1of3", "p01of3", "p1of-3"] {
            assert_eq!(marked(other), None, "{other}");
            assert_eq!(signed(&format!("{other}.{}", Token::random())), None);
        }
        assert_eq!(signed("r.x"), None);
    }

    #[test]
    fn earlier_waiters_admit_the_holder() {
        let one_of = |of| Mode::Permits { count: 1, of };
        let lines: [(&[Mode], usize); 12] = [
            (&[], 0),
            (&[W, W, R], 1),
            (&[R, R, W, R], 2),
            (&[p(1), p(2), p(1)], 2),
            (&[p(2), p(3), p(1)], 1),
            (&[p(3)], 1),
            (&[p(1), W, p(1)], 1),
            (&[p(1), p(2), one_of(4), p(1)], 3),
            (&[p(1), one_of(1), one_of(3)], 1),
            (&[one_of(1), one_of(2)], 2),
            (&[R, p(1), R], 1),
            (&[W, p(1)], 1),
        ];
        for (line, holding) in lines {
            assert_eq!(holders(line), holding, "{line:?}");
            for at in 0..line.len() {
                let is_in = admits(&line[..at], line[at]);
                assert_eq!(is_in, at < holding, "{at} of {line:?}");
            }
        }
    }

    #[test]
    fn only_who_is_in_the_way_is_waited_for() {
        let modes = [W, R, p(1), p(2), Mode::Permits { count: 1, of: 2 }];
        for line in 0..5usize.pow(5) {
            let line: Vec<Mode> = (0..5).map(|at| modes[line / 5usize.pow(at) % 5]).collect();
            let (own, before) = line.split_last().unwrap();
            if admits(before, *own) {
                continue;
            }
            let way = blockers(before, *own);
            assert!(!way.is_empty(), "{line:?}");
            assert!(!admits(&before[way], *own), "{line:?}");
        }
    }

    #[derive(Debug, Clone, Copy)]
    struct One {
        mode: Mode,
        reader: Reader,
        modified: u64,
        fence: Option<u64>,
        seen: Option<(u64, Option<Reader>)>,
    }

    #[derive(Default)]
    struct Game {
        line: Vec<One>,
        revision: u64,
        of_writers: u64,
        highest: u64,
        beside: usize,
        taken: usize,
        missed: usize,
    }

    impl Game {
        fn readers(&self) -> Vec<Reader> {
            let readers = self.line.iter().take_while(|one| one.mode == R);
            readers.map(|one| one.reader).collect()
        }

        fn joins(&mut self, mode: Mode, taken: Option<u64>) {
            self.revision += 1;
            let (created, modified) = (self.revision, self.revision);
            let reader = Reader { created, taken };
            self.line.push(One { mode, reader, modified, fence: None, seen: None });
            if taken.is_some() {
                let at = self.line.len() - 1;
                self.is_in(at);
            }
        }

        fn looks(&mut self, at: usize) {
            let before: Vec<Mode> = self.line[..at].iter().map(|one| one.mode).collect();
            if !admits(&before, self.line[at].mode) {
                return;
            }
            let readers = self.readers();
            let from = (self.line[at].mode == R).then(|| fence_source(&readers, at)).flatten();
            self.line[at].seen = Some((self.revision, from.map(|from| readers[from])));
        }

        fn acts(&mut self, at: usize) {
            let Some((revision, from)) = self.line[at].seen.take() else { return };
            let Some(from) = from else { return self.is_in(at) };
            let is_there = |one: &One| one.reader == from && one.modified <= revision;
            if self.line[at].modified > revision || !self.line.iter().any(is_there) {
                self.missed += 1;
                return;
            }
            self.revision += 1;
            self.taken += 1;
            self.line[at].modified = self.revision;
            self.line[at].reader.taken = Some(from.fence());
            self.is_in(at);
        }

        fn is_in(&mut self, at: usize) {
            let One { mode, reader, fence: before, .. } = self.line[at];
            let fence = reader.fence();
            assert!(before.is_none_or(|before| before == fence), "a repeat has another fence");
            let is_other = |one: &&One| one.fence.is_some() && one.reader.created != reader.created;
            for other in self.line.iter().filter(is_other) {
                assert!(mode == R && other.mode == R, "{mode} beside {}", other.mode);
                assert_eq!(other.fence, Some(fence), "beside each other");
                self.beside += 1;
            }
            if before.is_none() {
                let highest = if mode == R { self.of_writers } else { self.highest };
                assert!(fence > highest && fence >= self.highest, "{fence} after {highest}");
            }
            self.highest = self.highest.max(fence);
            if mode == W {
                self.of_writers = fence;
            }
            self.line[at].fence = Some(fence);
        }

        fn joins_beside(&mut self) {
            let readers = self.readers();
            if readers.len() == self.line.len() {
                let lowest = readers.iter().map(|reader| reader.fence()).min();
                self.joins(R, lowest);
            }
        }
    }

    #[test]
    fn readers_beside_each_other_share_what_is_above_all_writers_before() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut random = |below: usize| rng.usize(..below);
        let mut game = Game::default();
        for _ in 0..2_000_000 {
            let (kind, of) = (random(100), game.line.len());
            match kind {
                0..8 if of < 7 => game.joins(if random(3) == 0 { W } else { R }, None),
                8..11 if of < 7 => game.joins_beside(),
                11..30 if of > 0 => drop(game.line.remove(random(of))),
                30..65 if of > 0 => game.looks(random(of)),
                65.. if of > 0 => game.acts(random(of)),
                _ => {}
            }
        }
        let counts = [game.beside, game.taken, game.missed];
        assert!(counts.iter().all(|count| *count > 1_000), "it showed nothing: {counts:?}");
    }
}
