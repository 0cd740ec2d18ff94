//! The nodes of a quorum, for who sets one up.

use lockwright_core::{Error, Result, redact};
use serde::Serialize;

use crate::connect::scheme_of;

/// One of the servers of a quorum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Node {
    /// Its URL, without secrets.
    pub address: String,
    /// Whether it votes.
    pub votes: bool,
    /// Whether it is new, so that it could be admitted.
    pub is_new: bool,
    /// Why it doesn't vote.
    pub problem: Option<String>,
}

/// How the nodes of the quorum that `url` names stand. One that was never used, or that lost its
/// data, is new: it votes one largest TTL after it was first seen.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a URL that can't be right, or of a backend
/// that has no nodes or isn't compiled in. A node that doesn't answer is none: it is in the answer.
///
/// # Cancel safety
/// May be dropped.
pub async fn nodes(url: &str) -> Result<Vec<Node>> {
    standings(url, What::Look).await
}

/// Waits until every node that can be reached votes, and answers how all stand then. The time that a
/// new node has to wait is reckoned by one client, which must stay for it: a process that only tries
/// now and then begins anew each time.
///
/// # Errors
/// As [`nodes`].
///
/// # Cancel safety
/// May be dropped; what was waited is lost.
pub async fn wait_for_nodes(url: &str) -> Result<Vec<Node>> {
    standings(url, What::Wait).await
}

/// Lets those nodes of the quorum vote at once that are new, and answers how all stand then. For a
/// fleet that was just set up, on which nobody can hold a lock: **after a loss of data it lets a
/// second holder in**.
///
/// # Errors
/// As [`nodes`].
///
/// # Cancel safety
/// May be dropped: some of the nodes may vote then, and others not.
pub async fn admit(url: &str) -> Result<Vec<Node>> {
    standings(url, What::Admit).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Look,
    Wait,
    Admit,
}

async fn standings(url: &str, what: What) -> Result<Vec<Node>> {
    let (scheme, known) = scheme_of(url);
    match scheme.as_str() {
        #[cfg(feature = "redlock")]
        "redlock" => {
            use lockwright_redlock::{Config, Standing};

            let redlock = Config::new(&known)?.for_diagnosis().connect().await?;
            let all = match what {
                What::Look => redlock.standings().await,
                What::Admit => redlock.admit().await,
                What::Wait => redlock.wait_for_nodes().await,
            };
            let node = |(address, standing)| {
                let is_new = matches!(standing, Standing::New(_));
                let problem = match standing {
                    Standing::Votes => None,
                    Standing::New(left) => Some(format!(
                        "new here: it votes in {} s",
                        left.as_millis().div_ceil(1_000)
                    )),
                    Standing::Refused(why) => Some(why),
                    Standing::Down(error) => Some(error.to_string()),
                    other => Some(format!("{other:?}")),
                };
                Node { address, votes: problem.is_none(), is_new, problem }
            };
            Ok(all.into_iter().map(node).collect())
        }
        _ => {
            let _ = what;
            Err(Error::invalid_config(format!(
                "{:?} names no quorum of this build; only the nodes of one are admitted (redlock:)",
                redact::url(&known)
            )))
        }
    }
}
