use lockwright::operator::Node;

use super::print_result;
use super::table::table;
use crate::escape::escape;
use crate::exit::Failure;

const NOT_ALL_VOTE: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Look,
    Wait,
    /// Admits new nodes, unless others vote already.
    Admit,
    AdmitAny,
}

impl How {
    pub(super) fn of(yes: bool, force: bool, wait: bool) -> Self {
        match (yes, force, wait) {
            (true, true, _) => Self::AdmitAny,
            (true, false, _) => Self::Admit,
            (false, _, true) => Self::Wait,
            (false, _, false) => Self::Look,
        }
    }
}

pub(super) async fn admit(url: &str, how: How, json: bool) -> Result<u8, Failure> {
    let nodes = match how {
        How::Look => lockwright::operator::nodes(url).await?,
        How::Wait => lockwright::operator::wait_for_nodes(url).await?,
        How::AdmitAny => lockwright::operator::admit(url).await?,
        How::Admit => {
            let nodes = lockwright::operator::nodes(url).await?;
            let is_in_use = nodes.iter().any(|node| node.votes);
            if is_in_use && nodes.iter().any(|node| node.is_new) {
                return Err(Failure::config(
                    "some nodes vote already, so the new nodes have probably lost their data, and \
                     a lock that they have lost may still be held; wait (lockwright admit --wait), or \
                     add --force if no lock is held on any node",
                ));
            }
            lockwright::operator::admit(url).await?
        }
    };
    let row = |node: &Node| {
        [node.address.clone(), node.problem.as_deref().map_or_else(|| "votes".to_owned(), escape)]
    };
    let mut text = table(["NODE", "VOTE"], &nodes.iter().map(row).collect::<Vec<_>>());
    if how == How::Look && nodes.iter().any(|node| node.is_new) {
        text.push_str(
            "nothing was done. If no lock can be held on these nodes, because they are new or all \
             clients\nwere stopped for the largest TTL: lockwright admit --yes. If a node lost its \
             data: lockwright admit --wait.\n",
        );
    }
    print_result(json, &nodes, &text)?;
    Ok(if nodes.iter().all(|node| node.votes) { 0 } else { NOT_ALL_VOTE })
}
