use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{BootInstant, Error, ErrorKind, Reason, Result, Token};

/// The shortest lifetime of a tombstone, unless [`LIMIT`] is reached: clients repeat requests for
/// much less.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// At this size, the young generation becomes the old one before [`KEPT_FOR`] has passed.
const LIMIT: usize = 1 << 16;

/// Tokens that must not be granted again, in two generations. The older is dropped as a whole, so
/// tombstones need no timestamps.
#[derive(Default)]
pub(crate) struct Tombstones {
    young: HashSet<Token>,
    old: HashSet<Token>,
    next_generation: BootInstant,
}

impl Tombstones {
    pub(crate) fn insert(&mut self, token: Token, now: BootInstant) {
        self.expire(now);
        self.young.insert(token);
        if self.young.len() >= LIMIT {
            self.age();
        }
    }

    pub(crate) fn refuse(&mut self, token: Token, now: BootInstant) -> Result<()> {
        if self.young.is_empty() && self.old.is_empty() {
            return Ok(());
        }
        self.expire(now);
        if !self.young.contains(&token) && !self.old.contains(&token) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Lost(Reason::Gone),
            "the request was canceled before it reached the store; retry",
        ))
    }

    fn expire(&mut self, now: BootInstant) {
        if now < self.next_generation {
            return;
        }
        self.age();
        if now >= self.next_generation + KEPT_FOR {
            self.old = HashSet::new();
        }
        self.next_generation = now + KEPT_FOR;
    }

    fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant::from_nanos(1);

    fn len(tombstones: &Tombstones) -> usize {
        tombstones.young.len() + tombstones.old.len()
    }

    #[test]
    fn tombstones_are_kept_and_expire() {
        let (mut tombstones, token) = (Tombstones::default(), Token::random());
        tombstones.insert(Token::random(), START);
        let late = START + KEPT_FOR - Duration::from_secs(1);
        tombstones.insert(token, late);
        tombstones.refuse(token, late + KEPT_FOR).unwrap_err();
        tombstones.refuse(Token::random(), START + KEPT_FOR * 2).unwrap();
        tombstones.refuse(token, START + KEPT_FOR * 4).unwrap();
        assert_eq!(len(&tombstones), 0);
    }

    #[test]
    fn tombstones_are_bounded() {
        let mut tombstones = Tombstones::default();
        for _ in 0..LIMIT * 3 {
            tombstones.insert(Token::random(), START);
            assert!(len(&tombstones) <= LIMIT * 2);
        }
        let last = Token::random();
        tombstones.insert(last, START);
        tombstones.refuse(last, START).unwrap_err();
    }
}
