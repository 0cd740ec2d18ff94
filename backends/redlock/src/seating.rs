//! Looking at all nodes: when connecting, and for who sets up a fleet.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Result};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use crate::Redlock;
use crate::errors::{NodeErrors, error};
use crate::fleet::Fleet;

/// How long connecting waits for a quorum.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long connecting waits for the others once it has a quorum.
const MOMENT: Duration = Duration::from_millis(200);

/// Whether a node votes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Standing {
    /// It does.
    Votes,
    /// It is new here: it votes in this time, if nobody [admits](Redlock::admit) it before.
    New(Duration),
    /// It never will, and why.
    Refused(String),
    /// It doesn't answer.
    Down(Error),
}

impl Redlock {
    /// Connects to the nodes of a URL, and looks at them. The URL is as [`Config`](crate::Config)
    /// has it. Nodes that don't answer are no error as long as a quorum does.
    ///
    /// # Errors
    /// - [`InvalidConfig`](ErrorKind::InvalidConfig): the URL is malformed; there are too few nodes
    ///   or an even number of them; two are one server; one is a replica, or of a fleet with another
    ///   largest TTL; or there is no tokio runtime.
    /// - [`Denied`](ErrorKind::Denied): the nodes want a password, or refuse this one.
    /// - [`Unavailable`](ErrorKind::Unavailable): less than a quorum answers.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind but certificates.
    pub async fn connect(url: &str) -> Result<Self> {
        crate::Config::new(url)?.connect().await
    }

    /// Looks at each node: its address, and whether it votes.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn standings(&self) -> Vec<(String, Standing)> {
        let looked = look(&self.fleet, usize::MAX).await;
        self.standings_after(looked)
    }

    /// Lets those nodes vote that are new here, and answers how all of them stand then. For a fleet
    /// that was just set up, on which nobody can hold a lock: after a loss of data it lets a second
    /// holder in.
    ///
    /// # Cancel safety
    /// May be dropped: some of the nodes may vote then, and others not.
    pub async fn admit(&self) -> Vec<(String, Standing)> {
        let mut looked = look(&self.fleet, usize::MAX).await;
        for (at, looked) in looked.iter_mut().enumerate() {
            let seat = &self.fleet.seats[at];
            if let (Ok(()), Some(seen), false) = (&looked, seat.certificate(), seat.votes()) {
                *looked = self.fleet.admit(at, &seen).await;
            }
        }
        self.standings_after(looked)
    }

    /// Waits until every node that can be reached votes, and answers how all of them stand then. For
    /// who starts a fleet: only a client that stays for one largest TTL sees a new node's time out.
    ///
    /// # Cancel safety
    /// May be dropped; what was waited is kept by this value.
    pub async fn wait_for_nodes(&self) -> Vec<(String, Standing)> {
        let fleet = &self.fleet;
        loop {
            for (at, seat) in fleet.seats.iter().enumerate() {
                if seat.waits(fleet.now()) == Some(Duration::ZERO) {
                    // Lets it vote; if that fails, it is still new.
                    let _ = fleet.certificate(at, Instant::now() + PATIENCE).await;
                }
            }
            let standings = self.standings().await;
            if !standings.iter().any(|(_, standing)| matches!(standing, Standing::New(_))) {
                return standings;
            }
            sleep(MOMENT).await;
        }
    }

    fn standings_after(&self, looked: Vec<Result<()>>) -> Vec<(String, Standing)> {
        let fleet = &self.fleet;
        let standing = |(at, looked): (usize, Result<()>)| {
            let seat = &fleet.seats[at];
            let standing = match (looked, seat.refused(), seat.waits(fleet.now())) {
                (_, Some(why), _) => Standing::Refused(why),
                (Err(error), ..) => Standing::Down(error),
                (.., Some(left)) => Standing::New(left),
                _ => Standing::Votes,
            };
            (fleet.address(at).to_owned(), standing)
        };
        looked.into_iter().enumerate().map(standing).collect()
    }

    /// Looks at the nodes for the first time.
    pub(crate) async fn look_at_all(&self) -> Result<()> {
        let fleet = &self.fleet;
        let looked = look(fleet, fleet.quorum).await;
        let mut errors = NodeErrors::default();
        let mut good = 0;
        for (at, looked) in looked.into_iter().enumerate() {
            let address = fleet.address(at);
            let wrong = match &looked {
                Ok(()) => fleet.seats[at].refused(),
                // A replica, or a node of a Cluster.
                Err(cause) => {
                    matches!(cause.kind(), ErrorKind::Unsupported | ErrorKind::InvalidConfig)
                        .then(|| cause.to_string())
                }
            };
            if let Some(why) = wrong {
                return Err(error(ErrorKind::InvalidConfig, format!("{address}: {why}")));
            }
            match looked {
                Ok(()) => good += 1,
                Err(cause) => errors.push(address, cause),
            }
        }
        if good >= fleet.quorum {
            return Ok(());
        }
        let kind = errors.hopeless(fleet.spare() + 1).unwrap_or(ErrorKind::Unavailable);
        let what = format!(
            "{good} of {} nodes can be reached, and {} have to",
            fleet.nodes.len(),
            fleet.quorum
        );
        Err(errors.into_error(kind, &what))
    }
}

/// Looks at all nodes at once. When so many as are `enough` could be looked at, the others have a
/// moment yet.
async fn look(fleet: &Arc<Fleet>, enough: usize) -> Vec<Result<()>> {
    let (tells, mut told) = mpsc::unbounded_channel();
    for at in 0..fleet.nodes.len() {
        let (fleet, tells) = (Arc::clone(fleet), tells.clone());
        fleet.runtime.clone().spawn(async move {
            let looked = {
                let _looking = fleet.seats[at].looking.lock().await;
                fleet.look(at).await
            };
            let _ = tells.send((at, looked));
        });
    }
    drop(tells);
    let mut until = Instant::now() + PATIENCE;
    let mut answers: Vec<Option<Result<()>>> = fleet.nodes.iter().map(|_| None).collect();
    while let Ok(Some((at, looked))) = timeout_at(until, told.recv()).await {
        answers[at] = Some(looked);
        let good = answers.iter().flatten().filter(|looked| looked.is_ok()).count();
        if good >= enough {
            until = until.min(Instant::now() + MOMENT);
        }
    }
    let silent = || Error::unavailable("it did not answer in time whether it votes");
    answers.into_iter().map(|looked| looked.unwrap_or_else(|| Err(silent()))).collect()
}
