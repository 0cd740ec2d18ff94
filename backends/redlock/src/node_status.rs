use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout_at};

use crate::Redlock;
use crate::errors::error;
use crate::fleet::{Fleet, status_unknown};
use crate::operator::enough;
use crate::requests::Requests;

const PATIENCE: Duration = Duration::from_secs(5);

const SHORT_WAIT: Duration = Duration::from_millis(200);

/// A node's voting status.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeStatus {
    /// The node votes.
    Votes,
    /// The node votes after this time, or once [admitted](Redlock::admit).
    New(Duration),
    /// The node doesn't vote until an operator fixes this problem.
    Refused(String),
    /// The node doesn't answer.
    Down(Error),
}

impl Redlock {
    /// Connects to the nodes of a URL (see [`Config`](crate::Config)), and checks them. A quorum
    /// suffices.
    ///
    /// # Errors
    /// - [`InvalidConfig`](ErrorKind::InvalidConfig): a malformed URL; too few nodes or an even
    ///   number; two nodes on one server; a replica, or a node with another largest TTL; or no
    ///   tokio runtime.
    /// - [`Denied`](ErrorKind::Denied): a missing or wrong password.
    /// - [`Unavailable`](ErrorKind::Unavailable): less than a quorum answers.
    ///
    /// # Cancel safety
    /// A dropped future leaves only [incarnations](crate::node::Incarnation) on the nodes.
    pub async fn connect(url: &str) -> Result<Self> {
        crate::Config::new(url)?.connect().await
    }

    /// Checks all nodes. Returns each node's address and status.
    ///
    /// # Cancel safety
    /// The future may be dropped.
    pub async fn node_statuses(&self) -> Vec<(String, NodeStatus)> {
        let looked = look(&self.fleet, self.fleet.nodes.len()).await;
        self.statuses_after(looked)
    }

    /// Lets new nodes vote at once. Use this only for new servers: if nodes lost their data, a
    /// second holder may be granted.
    ///
    /// # Cancel safety
    /// A dropped future may have admitted some nodes.
    pub async fn admit(&self) -> Vec<(String, NodeStatus)> {
        let mut looked = look(&self.fleet, self.fleet.nodes.len()).await;
        for (at, looked) in looked.iter_mut().enumerate() {
            let membership = &self.fleet.memberships[at];
            if let (Ok(()), Some(seen), false) =
                (&looked, membership.incarnation(), membership.votes())
            {
                *looked = self.fleet.admit(at, &seen).await;
            }
        }
        self.statuses_after(looked)
    }

    /// Waits until every reachable node votes. A new node votes one largest TTL after this client
    /// first saw it, so the client must run that long.
    ///
    /// # Cancel safety
    /// A further call continues the wait of a dropped future.
    pub async fn wait_for_nodes(&self) -> Vec<(String, NodeStatus)> {
        let fleet = &self.fleet;
        loop {
            for (at, membership) in fleet.memberships.iter().enumerate() {
                if membership.waits(fleet.now()) == Some(Duration::ZERO) {
                    let _ = fleet.incarnation(at, Instant::now() + PATIENCE).await;
                }
            }
            let statuses = self.node_statuses().await;
            if !statuses.iter().any(|(_, status)| matches!(status, NodeStatus::New(_))) {
                return statuses;
            }
            sleep(SHORT_WAIT).await;
        }
    }

    fn statuses_after(&self, looked: Vec<Result<()>>) -> Vec<(String, NodeStatus)> {
        let fleet = &self.fleet;
        let status = |(at, looked): (usize, Result<()>)| {
            let membership = &fleet.memberships[at];
            let status = match (looked, membership.refused(), membership.waits(fleet.now())) {
                (_, Some(why), _) => NodeStatus::Refused(why),
                (Err(error), ..) => NodeStatus::Down(error),
                (.., Some(left)) => NodeStatus::New(left),
                _ => NodeStatus::Votes,
            };
            (fleet.address(at).to_owned(), status)
        };
        looked.into_iter().enumerate().map(status).collect()
    }

    pub(crate) async fn look_at_all(&self) -> Result<()> {
        let fleet = &self.fleet;
        let looked = look(fleet, fleet.quorum).await;
        for (at, looked) in looked.iter().enumerate() {
            let wrong = match looked {
                Ok(()) => fleet.memberships[at].refused(),
                // The node is a replica, in a Redis Cluster, or has another largest TTL.
                Err(cause) => {
                    matches!(cause.kind(), ErrorKind::Unsupported | ErrorKind::InvalidConfig)
                        .then(|| cause.to_string())
                }
            };
            if let Some(why) = wrong {
                let what = format!("{}: {why}", fleet.address(at));
                return Err(error(ErrorKind::InvalidConfig, what));
            }
        }
        enough(fleet, looked, "can be reached").map(drop)
    }
}

async fn look(fleet: &Arc<Fleet>, enough: usize) -> Vec<Result<()>> {
    let mut requests = Requests::new(fleet, |at| {
        let fleet = Arc::clone(fleet);
        async move {
            let _looking = fleet.memberships[at].looking.lock().await;
            fleet.look(at).await
        }
    });
    let mut until = Instant::now() + PATIENCE;
    let mut answers: Vec<Option<Result<()>>> = fleet.nodes.iter().map(|_| None).collect();
    while let Ok(Some((at, looked))) = timeout_at(until, requests.next()).await {
        answers[at] = Some(looked);
        let good = answers.iter().flatten().filter(|looked| looked.is_ok()).count();
        if good >= enough {
            until = until.min(Instant::now() + SHORT_WAIT);
        }
    }
    answers.into_iter().map(|looked| looked.unwrap_or_else(|| Err(status_unknown()))).collect()
}
