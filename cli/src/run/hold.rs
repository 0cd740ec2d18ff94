use std::fmt;

use lockwright::fencing::Fenced;
use lockwright::{Guard, Held, Mode, MultiGuard, Permit, Token};

pub(crate) trait RunHold: Held {
    fn parts(&self) -> Vec<NamedHold<'_>>;
}

pub(crate) struct NamedHold<'a> {
    pub name: &'a str,
    pub token: Token,
    pub mode: Mode,
    /// `None` for permits.
    pub fenced: Option<Fenced>,
    pub is_lost: bool,
}

impl<'a> NamedHold<'a> {
    fn of_lock(guard: &'a Guard) -> Self {
        Self {
            name: guard.name(),
            token: guard.token(),
            mode: guard.mode(),
            fenced: Some(guard.fenced()),
            is_lost: guard.check().is_err(),
        }
    }
}

impl fmt::Display for NamedHold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fenced {
            Some(fenced) => write!(f, "the lock {:?} (fence {})", self.name, fenced.fence),
            None => write!(f, "{} of {:?}", self.mode, self.name),
        }
    }
}

impl RunHold for Guard {
    fn parts(&self) -> Vec<NamedHold<'_>> {
        vec![NamedHold::of_lock(self)]
    }
}

impl RunHold for MultiGuard {
    fn parts(&self) -> Vec<NamedHold<'_>> {
        self.guards().iter().map(NamedHold::of_lock).collect()
    }
}

impl RunHold for Permit {
    fn parts(&self) -> Vec<NamedHold<'_>> {
        vec![NamedHold {
            name: self.name(),
            token: self.token(),
            mode: self.mode(),
            fenced: None,
            is_lost: self.check().is_err(),
        }]
    }
}
