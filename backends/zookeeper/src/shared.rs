use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockwright_core::backend_util::{ClaimRegistry, EndedClaims, Subscribers};
use lockwright_core::{BootInstant, Claim, Clock, Fence};
use zookeeper_client as zk;

use crate::config::Config;
use crate::hold_watch::HoldWatch;
use crate::limits::Limits;
use crate::paths::Paths;
use crate::session::Session;
use crate::session_checks::SuspectSessions;
use crate::sessions::Sessions;
use crate::wakeup::{SLOW_POLL, Watches};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) paths: Paths,
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) suspects: SuspectSessions,
    pub(crate) registry: Arc<ClaimRegistry<Place>>,
    pub(crate) ended_claims: EndedClaims,
    pub(crate) subscribers: Subscribers,
    pub(crate) watches: Watches,
    /// The highest transaction id that this client saw. A lower one shows that older data were
    /// restored.
    ///
    /// Ids begin with the leader's epoch. A restored ensemble continues with the epoch after the
    /// backup's, so its ids are lower only if another leader was elected after the backup. Only a
    /// client that saw that leader's ids detects the restore.
    pub(crate) highest_zxid: AtomicU64,
}

#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) session: Arc<Session>,
    /// `None` until the node's creation is answered.
    pub(crate) node: Option<Node>,
    pub(crate) is_held: bool,
    pub(crate) is_overdue: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) path: Arc<str>,
    pub(crate) fence: Fence,
    pub(crate) watch: Arc<HoldWatch>,
}

impl Place {
    pub(crate) fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::clone(session), node: None, is_held: false, is_overdue: false }
    }
}

impl Node {
    pub(crate) fn new(path: impl Into<Arc<str>>, fence: Fence) -> Self {
        Self { path: path.into(), fence, watch: Arc::default() }
    }
}

impl Shared {
    pub(crate) fn acls(&self) -> zk::Acls<'static> {
        let may_have_login = self.config.may_have_login();
        let default = if may_have_login { zk::Acls::creator_all } else { zk::Acls::anyone_all };
        self.config.acls.unwrap_or_else(default)
    }

    pub(crate) fn full_length(&self, path: &str) -> usize {
        self.config.contents.chroot.len() + path.len()
    }

    pub(crate) fn saw_zxid(&self, zxid: u64) -> u64 {
        self.highest_zxid.fetch_max(zxid, Ordering::Relaxed)
    }

    pub(crate) fn end_of_hold(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl
    }

    /// Extends the claim's registration. Returns false if the claim isn't registered or is overdue.
    pub(crate) fn keep(&self, claim: &Claim, end: BootInstant) -> bool {
        self.registry.extend_if(claim, end, |place| !place.is_overdue)
    }

    pub(crate) fn end_of_wait(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl.max(SLOW_POLL * 2)
    }
}
