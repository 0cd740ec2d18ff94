use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::{Jitter, lock};
use lockwright_core::{BootInstant, Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::errors::error;
use crate::membership::{Membership, Next};
use crate::names::Names;
use crate::node::{Incarnation, Node};
use crate::options::Options;
use crate::pending_releases::PendingReleases;
use crate::requests::Requests;
use crate::token_states::TokenStates;

/// The time limit of `look` and `admit`: longer than a round, because later rounds can use the
/// reply.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    pub(crate) memberships: Vec<Membership>,
    pub(crate) quorum: usize,
    pub(crate) joining: Mutex<()>,
    pub(crate) options: Options,
    pub(crate) token_states: TokenStates,
    pub(crate) names: Names,
    pub(crate) pending_releases: PendingReleases,
    pub(crate) random: Jitter,
    pub(crate) runtime: Handle,
}

impl Fleet {
    pub(crate) fn spare(&self) -> usize {
        self.nodes.len() - self.quorum
    }

    pub(crate) fn address(&self, at: usize) -> &str {
        self.nodes[at].address()
    }

    pub(crate) fn now(&self) -> BootInstant {
        self.options.clock.now()
    }

    /// Returns the node's incarnation for a request, after any check or admission that is due.
    pub(crate) async fn incarnation(&self, at: usize, until: Instant) -> Result<Arc<Incarnation>> {
        let membership = &self.memberships[at];
        if let Next::Decided(incarnation) = membership.next(self.now()) {
            return incarnation;
        }
        let looking = timeout_at(until, membership.looking.lock()).await;
        let _looking = looking.map_err(|_| status_unknown())?;
        match membership.next(self.now()) {
            Next::Decided(incarnation) => return incarnation,
            Next::Look => self.look(at).await?,
            Next::Admit(seen) => self.admit(at, &seen).await?,
        }
        match membership.next(self.now()) {
            Next::Decided(incarnation) => incarnation,
            Next::Look | Next::Admit(_) => Err(status_unknown()),
        }
    }

    pub(crate) async fn look(&self, at: usize) -> Result<()> {
        let looked = within(LOOK_PATIENCE, self.nodes[at].look()).await;
        self.on_incarnation(at, looked)
    }

    pub(crate) async fn admit(&self, at: usize, seen: &Incarnation) -> Result<()> {
        let admitted = within(LOOK_PATIENCE, self.nodes[at].admit(seen)).await;
        self.on_incarnation(at, admitted)
    }

    fn on_incarnation(&self, at: usize, shown: Result<Incarnation>) -> Result<()> {
        let (now, membership) = (self.now(), &self.memberships[at]);
        match shown.and_then(|incarnation| self.of_this_fleet(incarnation)) {
            Ok(incarnation) => {
                membership.set_responsive(true);
                // Nodes join one at a time, so a server with two addresses gets one vote.
                let _joining = lock(&self.joining);
                match self.why_refused(at, &incarnation) {
                    Some(why) => membership.refuse(why),
                    None => membership.seen(incarnation, now, self.wait()),
                }
                Ok(())
            }
            Err(error) => {
                membership.failed(&error, now);
                Err(error)
            }
        }
    }

    /// Returns how long a new incarnation doesn't vote: until lost holds have expired, even by
    /// slightly slow clocks.
    fn wait(&self) -> Duration {
        let ttl = self.options.largest_ttl;
        ttl + ttl / 100 + Duration::from_millis(2)
    }

    /// Returns an error, which isn't final, if the node has another largest TTL.
    fn of_this_fleet(&self, incarnation: Incarnation) -> Result<Incarnation> {
        let (theirs, ours) = (incarnation.largest_ttl, self.options.largest_ttl);
        if theirs == ours {
            return Ok(incarnation);
        }
        let problem = format!(
            "its fleet's largest TTL is {theirs:?}, and this client's is {ours:?}; set the same \
             largest_ttl in every client"
        );
        Err(error(ErrorKind::InvalidConfig, problem))
    }

    fn why_refused(&self, at: usize, incarnation: &Incarnation) -> Option<String> {
        let others = || {
            let others = (0..self.nodes.len()).filter(|other| *other != at);
            others.filter_map(|other| Some((other, self.memberships[other].incarnation()?)))
        };
        if let Some((origin, _)) =
            others().find(|(_, seen)| seen.run != incarnation.run && seen.data == incarnation.data)
        {
            // Refuse both nodes, because either may have lost data.
            let why = |other: usize| {
                format!(
                    "its data and those of {} are copies of each other, so one of the two has \
                     lost its votes; empty both, and connect again",
                    self.address(other)
                )
            };
            self.memberships[origin].refuse(why(at));
            return Some(why(origin));
        }
        let (twin, _) = others().find(|(_, seen)| seen.run == incarnation.run)?;
        Some(format!(
            "it is the same server as {} under another address; a server has only one vote",
            self.address(twin)
        ))
    }

    pub(crate) fn check_membership(&self, at: usize) -> Result<()> {
        match self.memberships[at].refused() {
            Some(why) => Err(error(ErrorKind::InvalidConfig, why)),
            None => Ok(()),
        }
    }

    pub(crate) fn longest_wait(ttl: Duration) -> Duration {
        ttl.max(Duration::from_secs(1))
    }
}

pub(crate) fn status_unknown() -> Error {
    Error::unavailable("it did not answer in time, so its voting status is unknown")
}

pub(crate) fn silent(limit: Duration) -> Error {
    Error::indeterminate(format!("it did not answer within {limit:?}"))
}

pub(crate) fn had_no_effect(error: &Error) -> bool {
    error.kind() != ErrorKind::Indeterminate
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    error(ErrorKind::InvalidInput, message)
}

pub(crate) async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    timeout(limit, request).await.unwrap_or_else(|_| Err(silent(limit)))
}

pub(crate) async fn ask_all<T, F>(
    fleet: &Fleet,
    limit: Duration,
    ask: impl Fn(Arc<dyn Node>) -> F,
    is_enough: impl Fn(&[Option<Result<T>>]) -> bool,
) -> Vec<Result<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut requests = Requests::new(fleet, |at| ask(Arc::clone(&fleet.nodes[at])));
    let mut answers: Vec<Option<Result<T>>> = fleet.nodes.iter().map(|_| None).collect();
    let all = async {
        while !is_enough(&answers)
            && let Some((at, answer)) = requests.next().await
        {
            answers[at] = Some(answer);
        }
    };
    let _ = timeout(limit, all).await;
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(silent(limit)))).collect()
}
