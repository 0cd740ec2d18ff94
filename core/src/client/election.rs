//! Who leads.
//!
//! A candidate campaigns by waiting for the mutex of the election's name; whoever holds it leads, and
//! what it has to say to the others stands beside its identity. As in Chubby (Burrows 2006) the lock is
//! the election; that a leader's late writes do no harm is the fence's part, as everywhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::clock::BootInstant;
use crate::error::{Error, Result};
use crate::identity::{Identity, check_text};
use crate::mode::Mode;
use crate::token::{Fence, Token};

use super::guard::Leadership;
use super::locks::Locks;
use super::request::Request;

/// An election: made by [`Locks::election`](crate::Locks::election).
///
/// ```no_run
/// # async fn example(locks: lockwright_core::Locks) -> lockwright_core::Result<()> {
/// let election = locks.election("scheduler");
/// let leadership = election.campaign("10.0.0.7:8080").acquire().await?;
/// leadership.run(async { /* lead, until it is lost */ }).await?;
/// leadership.resign().await
/// # }
/// ```
#[derive(Clone)]
pub struct Election {
    locks: Locks,
    name: String,
}

impl Election {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self { locks: locks.clone(), name: name.to_owned() }
    }

    /// A request to lead. `value` is what the others see of the leader: an address, say. It has at most
    /// [`Identity::LONGEST_VALUE`] bytes and no control characters; a bad one is told when the request is
    /// sent.
    pub fn campaign(&self, value: impl AsRef<str>) -> Request<Leadership> {
        let value = value.as_ref();
        let request = Request::new(&self.locks, &self.name, Mode::Exclusive);
        match check_text("leader's value", value, Identity::LONGEST_VALUE) {
            Ok(()) => {
                let mut identity = self.locks.identity().clone();
                identity.value = Some(Arc::from(value));
                request.identity(identity)
            }
            Err(error) => request.refused(error),
        }
    }

    /// Who leads now, if anybody does. On Redis that may be a candidate to whom the lead was only offered,
    /// and who doesn't know yet or is gone: it shows for 2 s at most (one TTL, if that is shorter) unless it
    /// takes the lead.
    ///
    /// # Errors
    /// Those of reaching the server, and of a bad name.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let inspection = self.locks.inspect(&self.name).await?;
        Ok(inspection.holders.into_iter().next().map(|holder| Leader {
            value: holder.identity.as_ref().and_then(|identity| identity.value.clone()),
            identity: holder.identity,
            fence: holder.fence,
            token: holder.token,
        }))
    }

    /// Follows who leads. It asks the server as often as a waiter does that nothing wakes, and at
    /// least once in a second.
    pub fn observe(&self) -> Observer {
        let each = self.locks.profile().slow_poll.min(Duration::from_secs(1));
        let (next_look, looking) = (BootInstant::from_nanos(0), JoinSet::new());
        Observer { election: self.clone(), each, told: None, next_look, looking }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Who leads, as the server shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// What it said of itself when it [campaigned](Election::campaign); `None` for one that holds the
    /// name without having campaigned.
    pub value: Option<Arc<str>>,
    /// Who it is, where the server has that.
    pub identity: Option<Identity>,
    /// Its fence, where the server shows it: a later leader's is larger.
    pub fence: Option<Fence>,
    /// Its hold's token; `None` for one that isn't ours.
    pub token: Option<Token>,
}

/// Follows who leads: made by [`Election::observe`].
#[derive(Debug)]
pub struct Observer {
    election: Election,
    each: Duration,
    /// Whom it told of last.
    told: Option<Option<Leader>>,
    next_look: BootInstant,
    /// The look that is under way: it goes on when a call is dropped, or one that is dropped again and again
    /// would never see an answer. And it isn't left lying with what it has of the server's.
    looking: JoinSet<Result<Option<Leader>>>,
}

impl Observer {
    /// How often the server is asked.
    pub fn each(mut self, time: Duration) -> Self {
        self.each = time;
        self
    }

    /// Waits until another one leads than was told last, or nobody does any more, and says who. The
    /// first call answers at once. Leaders that come and go between two looks are missed.
    ///
    /// # Errors
    /// Those of reaching the server; the next call goes on.
    ///
    /// # Cancel safety
    /// May be dropped and called again, as in a loop of `select!`: no change is missed by that, and none is
    /// told later.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        let shared = Arc::clone(self.election.locks.shared());
        shared.inside(self.look()).await
    }

    async fn look(&mut self) -> Result<Option<Leader>> {
        let clock = self.election.locks.shared().clock.clone();
        loop {
            if self.looking.is_empty() {
                clock.sleep_until(self.next_look).await;
                let election = self.election.clone();
                self.looking.spawn(async move { election.leader().await });
            }
            let Some(answer) = self.looking.join_next().await else { continue };
            self.next_look = clock.now() + self.each;
            let ended = |error| Error::unavailable("the look was ended").with_source(error);
            let leader = answer.map_err(ended)??;
            let token = |leader: &Option<Leader>| leader.as_ref().map(|leader| leader.token);
            if self.told.as_ref().map(token) != Some(token(&leader)) {
                self.told = Some(leader.clone());
                return Ok(leader);
            }
        }
    }
}

impl Request<Leadership> {
    fn identity(mut self, identity: Identity) -> Self {
        self.options.identity = Some(Arc::new(identity));
        self
    }

    fn refused(mut self, error: Error) -> Self {
        self.name = self.name.and(Err(error));
        self
    }
}
