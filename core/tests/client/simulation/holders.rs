//! The holders with a valid guard, and the checks of exclusion and fences.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lockwright_core::{Fence, Guard, Mode, Permit, Signal, Token};

use super::chance::Chance;
use super::server::Server;

#[derive(Debug)]
pub(super) struct Grant {
    pub(super) name: &'static str,
    pub(super) mode: Mode,
    pub(super) token: Token,
    pub(super) fence: Option<Fence>,
    pub(super) signal: Signal,
}

impl Grant {
    pub(super) fn of_guard(name: &'static str, guard: &Guard) -> Self {
        let (mode, token, fence) = (guard.mode(), guard.token(), Some(guard.fence()));
        Self { name, mode, token, fence, signal: guard.signal() }
    }

    pub(super) fn of_permit(name: &'static str, permit: &Permit) -> Self {
        let (mode, token) = (permit.mode(), permit.token());
        Self { name, mode, token, fence: None, signal: permit.signal() }
    }

    fn is_valid(&self) -> bool {
        self.signal.state().is_live()
    }
}

pub(super) struct Holders {
    server: Arc<Server>,
    names: Mutex<HashMap<&'static str, Name>>,
}

#[derive(Default)]
struct Name {
    highest_fence: u64,
    valid: Vec<Grant>,
}

impl Holders {
    pub(super) fn new(server: &Arc<Server>) -> Self {
        Self { server: Arc::clone(server), names: Mutex::default() }
    }

    /// Adds a hold, and checks it against the valid ones. Ended holds are removed, because they
    /// never become valid again.
    pub(super) fn join(&self, grant: Grant) {
        let mut names = self.names.lock().unwrap();
        let name = names.entry(grant.name).or_default();
        name.valid.retain(|other| other.is_valid() && !self.server.is_excused(other.token));
        if !grant.is_valid() || self.server.is_excused(grant.token) {
            return;
        }
        let is_shared_by_its_owner = name.valid.iter().any(|other| other.token == grant.token);
        if !is_shared_by_its_owner {
            check_exclusion(&name.valid, &grant);
            name.check_fence(&grant);
        }
        name.valid.push(grant);
    }

    pub(super) fn pick(&self, chance: &Chance) -> Option<(&'static str, Token)> {
        let names = self.names.lock().unwrap();
        let mut valid: Vec<_> = names
            .values()
            .flat_map(|name| &name.valid)
            .filter(|grant| grant.is_valid())
            .map(|grant| (grant.name, grant.token))
            .collect();
        valid.sort_unstable_by_key(|(_, token)| *token);
        (!valid.is_empty()).then(|| chance.of(&valid))
    }

    pub(super) fn clear(&self) {
        self.names.lock().unwrap().clear();
    }
}

impl Name {
    fn check_fence(&mut self, grant: &Grant) {
        let Some(fence) = grant.fence else { return };
        let least = self.highest_fence + u64::from(grant.mode == Mode::Exclusive);
        assert!(fence.get() >= least, "the fence {fence} is below {least}");
        self.highest_fence = fence.get();
    }
}

fn check_exclusion(valid: &[Grant], grant: &Grant) {
    match grant.mode {
        Mode::Shared => {
            let writes = valid.iter().any(|other| other.mode != Mode::Shared);
            assert!(!writes, "a reader next to a writer");
        }
        Mode::Permits { count, of } => {
            let mut tokens: Vec<(Token, u32)> = vec![(grant.token, count)];
            for other in valid {
                let Mode::Permits { count, .. } = other.mode else { panic!("two kinds of lock") };
                if tokens.iter().all(|(token, _)| *token != other.token) {
                    tokens.push((other.token, count));
                }
            }
            let taken: u32 = tokens.iter().map(|(_, count)| count).sum();
            assert!(taken <= of, "{taken} of {of} permits are held");
        }
        _ => assert!(valid.is_empty(), "two holders: {grant:?} next to {valid:?}"),
    }
}
