//! Who believed what when, and whether that was right.
//!
//! A participant records each hold: when it was asked for, when it was granted and with which
//! fence, and when the belief in it ended. [`History::check`] says whether believed exclusive
//! holds ever overlapped, and whether fences grew with the grants. (The idea of checking recorded
//! histories is Jepsen's; the rules for locks are simpler than linearizability in general.)

pub mod journal;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lockwright_core::{BootInstant, Fence, Token};

/// One hold, as its holder saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Belief {
    /// Who: a task, a client, a process.
    pub who: String,
    /// The lock.
    pub name: String,
    /// The hold.
    pub token: Token,
    /// Its fence.
    pub fence: Fence,
    /// Just before it was asked for.
    pub invoked: BootInstant,
    /// Just after it was granted: from here on it was believed.
    pub granted: BootInstant,
    /// Until then at the latest it was believed: the first of the release's beginning, the loss,
    /// and the last deadline that was recorded.
    pub ended: BootInstant,
}

/// What a history breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two believed at once.
    Overlap(Box<Belief>, Box<Belief>),
    /// Two holds had one fence.
    SameFence(Box<Belief>, Box<Belief>),
    /// The second was asked for when the first had been granted, and has the smaller fence.
    FenceFell(Box<Belief>, Box<Belief>),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, a, b) = match self {
            Self::Overlap(a, b) => ("two believed at once", a, b),
            Self::SameFence(a, b) => ("two holds had one fence", a, b),
            Self::FenceFell(a, b) => ("a later hold had a smaller fence", a, b),
        };
        write!(f, "{what}: ")?;
        for (belief, then) in [(a, " and "), (b, "")] {
            let since = |instant: BootInstant| {
                instant.saturating_since(a.granted).as_secs_f64()
                    - a.granted.saturating_since(instant).as_secs_f64()
            };
            write!(
                f,
                "{} (fence {}, asked {:+.6}, from {:+.6} to {:+.6} s){then}",
                belief.who,
                belief.fence,
                since(belief.invoked),
                since(belief.granted),
                since(belief.ended)
            )?;
        }
        Ok(())
    }
}

/// A history of exclusive holds. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<Vec<Belief>>>);

impl History {
    /// Adds a hold that is over.
    pub fn add(&self, belief: Belief) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(belief);
    }

    /// All of it, in the order of the grants.
    pub fn beliefs(&self) -> Vec<Belief> {
        let mut beliefs = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        beliefs.sort_by_key(|belief| (belief.granted, belief.ended));
        beliefs
    }

    /// How many holds were asked for while another one was held: without any, a history shows
    /// nothing.
    pub fn contended(&self) -> usize {
        let mut contended = 0;
        for beliefs in self.by_name().values() {
            let mut last_end = BootInstant::from_nanos(0);
            for belief in beliefs {
                contended += usize::from(belief.invoked < last_end);
                last_end = last_end.max(belief.ended);
            }
        }
        contended
    }

    /// What it breaks. `fences` says whether the profile has any.
    pub fn check(&self, fences: bool) -> Vec<Violation> {
        let mut violations = Vec::new();
        for beliefs in self.by_name().values() {
            overlaps(beliefs, &mut violations);
            if fences {
                check_fences(beliefs, &mut violations);
            }
        }
        violations
    }

    fn by_name(&self) -> HashMap<String, Vec<Belief>> {
        let mut names: HashMap<String, Vec<Belief>> = HashMap::new();
        for belief in self.beliefs() {
            names.entry(belief.name.clone()).or_default().push(belief);
        }
        names
    }
}

/// Of beliefs in the order of their grants: each must begin when all before it have ended.
fn overlaps(beliefs: &[Belief], violations: &mut Vec<Violation>) {
    let mut longest: Option<&Belief> = None;
    for belief in beliefs.iter().filter(|belief| belief.ended > belief.granted) {
        if let Some(before) = longest
            && belief.granted < before.ended
            && belief.token != before.token
        {
            violations.push(Violation::Overlap(before.clone().into(), belief.clone().into()));
        }
        if longest.is_none_or(|longest| longest.ended < belief.ended) {
            longest = Some(belief);
        }
    }
}

fn check_fences(beliefs: &[Belief], violations: &mut Vec<Violation>) {
    let mut by_fence: HashMap<Fence, &Belief> = HashMap::new();
    for belief in beliefs {
        if let Some(other) = by_fence.insert(belief.fence, belief)
            && other.token != belief.token
        {
            violations.push(Violation::SameFence(other.clone().into(), belief.clone().into()));
        }
    }
    // Of those granted before this one was asked for, the one with the largest fence tells.
    let mut by_invocation: Vec<&Belief> = beliefs.iter().collect();
    by_invocation.sort_by_key(|belief| belief.invoked);
    let mut granted = beliefs.iter().peekable();
    let mut highest: Option<&Belief> = None;
    for belief in by_invocation {
        while let Some(before) = granted.next_if(|before| before.granted < belief.invoked) {
            if highest.is_none_or(|highest| highest.fence < before.fence) {
                highest = Some(before);
            }
        }
        if let Some(highest) = highest
            && belief.fence < highest.fence
        {
            violations.push(Violation::FenceFell(highest.clone().into(), belief.clone().into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn belief(who: &str, fence: u64, invoked: u64, granted: u64, ended: u64) -> Belief {
        let mut token = [0; 16];
        token[..who.len()].copy_from_slice(who.as_bytes());
        Belief {
            who: who.to_owned(),
            name: "x".to_owned(),
            token: Token::from_bytes(token),
            fence: Fence::new(fence),
            invoked: BootInstant::from_nanos(invoked),
            granted: BootInstant::from_nanos(granted),
            ended: BootInstant::from_nanos(ended),
        }
    }

    fn history(beliefs: &[Belief]) -> History {
        let history = History::default();
        beliefs.iter().rev().for_each(|belief| history.add(belief.clone()));
        history
    }

    #[test]
    fn a_right_history_is_right() {
        let history = history(&[
            belief("a", 1, 0, 10, 20),
            belief("b", 2, 5, 20, 30),
            belief("c", 9, 31, 40, 50),
        ]);
        assert_eq!(history.check(true), []);
        assert_eq!(history.contended(), 1);
    }

    #[test]
    fn an_overlap_of_a_nanosecond_is_one() {
        let history = history(&[belief("a", 1, 0, 10, 21), belief("b", 2, 5, 20, 30)]);
        assert!(matches!(history.check(true)[..], [Violation::Overlap(..)]));
    }

    #[test]
    fn an_overlap_with_one_long_before_is_seen() {
        let history = history(&[
            belief("a", 1, 0, 10, 100),
            belief("b", 2, 11, 20, 30),
            belief("c", 3, 31, 40, 50),
        ]);
        assert_eq!(history.check(true).len(), 2);
    }

    #[test]
    fn other_names_are_other_histories() {
        let mut other = belief("b", 1, 5, 15, 30);
        other.name = "y".to_owned();
        assert_eq!(history(&[belief("a", 1, 0, 10, 21), other]).check(true), []);
    }

    #[test]
    fn a_fence_that_falls_or_comes_twice_is_seen() {
        let fell = history(&[belief("a", 7, 0, 10, 20), belief("b", 6, 21, 22, 30)]);
        assert!(matches!(fell.check(true)[..], [Violation::FenceFell(..)]));
        assert_eq!(fell.check(false), []);
        let same = history(&[belief("a", 7, 0, 10, 20), belief("b", 7, 5, 22, 30)]);
        assert!(matches!(same.check(true)[..], [Violation::SameFence(..)]));
    }

    #[test]
    fn one_that_was_asked_for_before_may_have_the_smaller_fence() {
        let history = history(&[belief("a", 7, 0, 10, 20), belief("b", 6, 9, 22, 30)]);
        assert_eq!(history.check(true), []);
    }
}
