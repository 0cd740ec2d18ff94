use lockwright::operator::Node;

use super::print_result;
use super::table::table;
use crate::args::Admit;
use crate::{Failure, escape};

const NOT_ALL_VOTE: u8 = 1;

pub(super) async fn admit(url: &str, what: &Admit, json: bool) -> Result<u8, Failure> {
    let nodes = match what {
        Admit { yes: false, wait: false, .. } => lockwright::operator::nodes(url).await?,
        Admit { yes: false, wait: true, .. } => lockwright::operator::wait_for_nodes(url).await?,
        Admit { yes: true, force: true, .. } => lockwright::operator::admit(url).await?,
        Admit { yes: true, force: false, .. } => {
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
    if !what.yes && !what.wait && nodes.iter().any(|node| node.is_new) {
        text.push_str(
            "nothing was done. If no lock can be held on these nodes, because they are new or all \
             clients\nwere stopped for the largest TTL: lockwright admit --yes. If a node lost its \
             data: lockwright admit --wait.\n",
        );
    }
    print_result(json, &nodes, &text)?;
    Ok(if nodes.iter().all(|node| node.votes) { 0 } else { NOT_ALL_VOTE })
}
