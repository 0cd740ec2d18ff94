//! Who of a line holds: for servers on which all who want a name stand in one line, readers, writers and
//! holders of permits, in the order in which they came (the keys of etcd, the nodes of ZooKeeper).
//!
//! # Why it is safe to decide alone
//!
//! Nobody ever gets in ahead of somebody who stands there, as the server numbers them. So what stands before
//! one who has looked can only become less: who was let in once stays so, whatever happens behind. And
//! who isn't let in by what it saw, too much of which may have gone meanwhile, errs on the safe side. One look
//! that has the one who looks in it, and all before it, is enough; nobody needs to agree on anything.
//!
//! That holds also for a claim of another kind, which stands there for the moment that it takes it to see
//! that and go: those behind it aren't let in before it has gone.
//!
//! # What readers beside each other share
//!
//! A writer's fence is its number. Readers beside each other share one, so they must agree on it. Each has
//! one to begin with, its own number, and takes the lowest that anybody has who reads beside it
//! ([`witness`]), also of those behind it, who may be in already. If that isn't its own, it is written where it
//! stands, in one step with a look whether the one from whom it has it is still there and unchanged; before
//! that it isn't in.
//!
//! - *It is above that of each writer before.* One's own number is: who held before came before. And
//!   as long as the one from whom it is taken was there, no writer held.
//! - *It is below that of each writer after.* That one stands behind, and so has a larger number than any that
//!   was there to be taken.
//! - *Those who are in have the same.* Who is in has the lowest of all who read beside it, and this stays the
//!   lowest until it goes: who comes later has a larger number, or takes one that is there.
//!
//! The last test below plays it through.

use crate::mode::Mode;
use crate::token::Token;

/// What the key or node of a claim is marked with, so that all who stand in line see how it wants to hold;
/// and its token, as one client may have several. Exclusive ones have no mark: they are those of every
/// library.
///
/// ```
/// use lockwright_core::{Mode, Token, kit::line};
///
/// let mode = Mode::Permits { count: 2, of: 3 };
/// assert_eq!(line::mark(mode).as_deref(), Some("p2of3"));
/// assert_eq!(line::marked("p2of3"), Some(mode));
/// assert_eq!(line::mark(Mode::Exclusive), None);
/// ```
pub fn mark(mode: Mode) -> Option<String> {
    match mode {
        Mode::Exclusive => None,
        Mode::Shared => Some("r".to_owned()),
        Mode::Permits { count, of } => Some(format!("p{count}of{of}")),
    }
}

/// How a claim with this mark wants to hold. `None` for what isn't a [`mark`].
pub fn marked(text: &str) -> Option<Mode> {
    let mode = if text == "r" {
        Mode::Shared
    } else {
        let (count, of) = text.strip_prefix('p')?.split_once("of")?;
        let (count, of) = (count.parse().ok()?, of.parse().ok()?);
        (count > 0 && count <= of).then_some(Mode::Permits { count, of })?
    };
    // In one spelling only.
    (mark(mode).as_deref() == Some(text)).then_some(mode)
}

/// How a claim with this mark and this token, with a dot between them, wants to hold.
pub fn signed(text: &str) -> Option<(Mode, Token)> {
    let (text, token) = text.split_once('.')?;
    Some((marked(text)?, token.parse().ok()?))
}

/// Whether a claim is let in that stands behind these.
pub fn lets_in(before: &[Mode], own: Mode) -> bool {
    match own {
        Mode::Exclusive => before.is_empty(),
        Mode::Shared => before.iter().all(|mode| *mode == Mode::Shared),
        Mode::Permits { count, of } => {
            let is_alike = |mode: &Mode| mode.is_of_the_kind_of(own);
            let taken: u64 = before.iter().copied().map(permits).sum();
            before.iter().all(is_alike) && taken + u64::from(count) <= u64::from(of)
        }
    }
}

/// How many of a line hold: so many of the first.
pub fn holders(line: &[Mode]) -> usize {
    let mut taken = 0;
    let holds = |mode: &&Mode| {
        taken += permits(**mode);
        match (line[0], **mode) {
            (Mode::Permits { of, .. }, mode) => {
                mode.is_of_the_kind_of(line[0]) && taken <= u64::from(of)
            }
            (Mode::Shared, mode) => mode == Mode::Shared,
            _ => false,
        }
    };
    match line.first() {
        Some(Mode::Exclusive) => 1,
        _ => line.iter().take_while(holds).count(),
    }
}

/// Whose going may let a claim in that stands behind these and isn't let in.
pub fn in_the_way(before: &[Mode], own: Mode) -> std::ops::Range<usize> {
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

fn permits(mode: Mode) -> u64 {
    match mode {
        Mode::Permits { count, .. } => u64::from(count),
        _ => 0,
    }
}

/// Somebody who reads, or would be let in as soon as it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// The server's number of it.
    pub created: u64,
    /// The fence that it took from another one, if it did.
    pub taken: Option<u64>,
}

impl Reader {
    /// The fence that it has, if it is in.
    pub fn fence(self) -> u64 {
        self.taken.unwrap_or(self.created)
    }
}

/// Which of those who read beside each other it is whose fence the one at `own` takes: `None` if it has that
/// already. They are all readers from the first of the line on, those behind it too, up to the first that is
/// none.
pub fn witness(readers: &[Reader], own: usize) -> Option<usize> {
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
    fn who_holds_is_let_in_by_those_before_it() {
        let lines: [(&[Mode], usize); 10] = [
            (&[], 0),
            (&[W, W, R], 1),
            (&[R, R, W, R], 2),
            (&[p(1), p(2), p(1)], 2),
            // Nobody overtakes.
            (&[p(2), p(3), p(1)], 1),
            (&[p(3)], 1),
            (&[p(1), W, p(1)], 1),
            (&[p(1), Mode::Permits { count: 1, of: 4 }], 1),
            (&[R, p(1), R], 1),
            (&[W, p(1)], 1),
        ];
        for (line, holding) in lines {
            assert_eq!(holders(line), holding, "{line:?}");
            for at in 0..line.len() {
                let is_in = lets_in(&line[..at], line[at]);
                assert_eq!(is_in, at < holding, "{at} of {line:?}");
            }
        }
    }

    /// Whoever goes that isn't in the way, the others let it in no more than before.
    #[test]
    fn only_who_is_in_the_way_is_waited_for() {
        let modes = [W, R, p(1), p(2)];
        for line in 0..4usize.pow(5) {
            let line: Vec<Mode> = (0..5).map(|at| modes[line / 4usize.pow(at) % 4]).collect();
            let (own, before) = line.split_last().unwrap();
            if lets_in(before, *own) {
                continue;
            }
            let way = in_the_way(before, *own);
            assert!(!way.is_empty(), "{line:?}");
            // All that isn't in the way goes.
            assert!(!lets_in(&before[way], *own), "{line:?}");
        }
    }

    /// One who stands in line, in the game below.
    #[derive(Debug, Clone, Copy)]
    struct One {
        mode: Mode,
        reader: Reader,
        /// Which step changed it last.
        modified: u64,
        /// It believes that it holds, with this fence.
        fence: Option<u64>,
        /// What it saw when it looked last.
        seen: Option<(u64, Option<Reader>)>,
    }

    #[derive(Default)]
    struct Game {
        line: Vec<One>,
        revision: u64,
        /// The highest fences that a writer and anybody ever had.
        of_writers: u64,
        highest: u64,
        /// How often readers were in beside each other, took a fence, and were too late to.
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
            if !lets_in(&before, self.line[at].mode) {
                return;
            }
            let readers = self.readers();
            let from = (self.line[at].mode == R).then(|| witness(&readers, at)).flatten();
            self.line[at].seen = Some((self.revision, from.map(|from| readers[from])));
        }

        /// What it saw may have gone long ago.
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
            let fence = if mode == R { reader.fence() } else { reader.created };
            assert!(before.is_none_or(|before| before == fence), "a repeat has another fence");
            let others: Vec<One> =
                self.line.iter().copied().filter(|o| o.fence.is_some()).collect();
            let others = others.iter().filter(|other| other.reader.created != reader.created);
            for other in others {
                assert!(mode == R && other.mode == R, "{mode} beside {}", other.mode);
                assert_eq!(other.fence, Some(fence), "beside each other");
                self.beside += 1;
            }
            if before.is_none() {
                let highest = if mode == R { self.of_writers } else { self.highest };
                assert!(fence > highest, "{fence} after {highest}");
                assert!(fence >= self.highest, "{fence} after {}", self.highest);
            }
            self.highest = self.highest.max(fence);
            if mode == W {
                self.of_writers = fence;
            }
            self.line[at].fence = Some(fence);
        }

        /// A reader joins beside the others, in one step with a look whether all is as it was.
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
        // A generator that gives the same numbers everywhere (Marsaglia's xorshift).
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize % below
        };
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
        for (what, count) in
            [("beside", game.beside), ("taken", game.taken), ("missed", game.missed)]
        {
            assert!(count > 1_000, "{count} were {what}: it showed nothing");
        }
    }
}
