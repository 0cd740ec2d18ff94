//! The settings of a request in the local queue.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, RenewalMode};
use crate::identity::Identity;
use crate::mode::Mode;

use super::owner::Owner;

#[derive(Clone)]
pub(crate) struct Want {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) renewal_mode: RenewalMode,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) owner: Option<Owner>,
    pub(crate) identity: Option<Arc<Identity>>,
}

impl Want {
    pub(super) fn takes_over(&self, claim: &Claim) -> bool {
        let is_who_asks = match &self.identity {
            Some(identity) => *identity == claim.identity,
            None => claim.identity.value.is_none(),
        };
        is_who_asks
            && self.mode == claim.mode
            && self.ttl == claim.ttl
            && self.renewal_mode == claim.renewal_mode
    }
}
