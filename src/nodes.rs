use lockwright_core::{Error, Result, redact};
use serde::Serialize;

use crate::connect::scheme_of;

/// A node of a quorum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Node {
    /// The node's URL, without secrets.
    pub address: String,
    /// True if the node votes.
    pub votes: bool,
    /// True if the node has no earlier data, and doesn't vote yet.
    pub is_new: bool,
    /// The reason why the node doesn't vote.
    pub problem: Option<String>,
}

/// Returns the nodes' states. A new node votes after one client has observed it for the URL's
/// `largest_ttl`.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for an invalid URL, or a backend without
/// nodes. An unreachable node isn't an error.
///
/// # Cancel safety
/// May be dropped.
pub async fn nodes(url: &str) -> Result<Vec<Node>> {
    node_statuses(url, What::Look).await
}

/// Waits until every reachable node votes. New nodes vote `largest_ttl` after the call begins.
///
/// # Errors
/// As [`nodes`].
///
/// # Cancel safety
/// May be dropped. The time waited so far is lost.
pub async fn wait_for_nodes(url: &str) -> Result<Vec<Node>> {
    node_statuses(url, What::Wait).await
}

/// Lets new nodes vote at once. Call it only for new servers, on which no client can hold a lock
/// yet. **If a server has lost its data, this may admit a second holder.**
///
/// # Errors
/// As [`nodes`].
///
/// # Cancel safety
/// May be dropped. Some nodes may already be admitted.
pub async fn admit(url: &str) -> Result<Vec<Node>> {
    node_statuses(url, What::Admit).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Look,
    Wait,
    Admit,
}

async fn node_statuses(url: &str, what: What) -> Result<Vec<Node>> {
    let (scheme, known) = scheme_of(url);
    match scheme.as_str() {
        #[cfg(feature = "redlock")]
        "redlock" => {
            use lockwright_redlock::{Config, NodeStatus};

            let redlock = Config::new(&known)?.for_diagnosis().connect().await?;
            let all = match what {
                What::Look => redlock.node_statuses().await,
                What::Admit => redlock.admit().await,
                What::Wait => redlock.wait_for_nodes().await,
            };
            let node = |(address, status)| {
                let is_new = matches!(status, NodeStatus::New(_));
                let problem = match status {
                    NodeStatus::Votes => None,
                    NodeStatus::New(left) => {
                        Some(format!("new: it votes in {} s", left.as_millis().div_ceil(1_000)))
                    }
                    NodeStatus::Refused(why) => Some(why),
                    NodeStatus::Down(error) => Some(error.to_string()),
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
