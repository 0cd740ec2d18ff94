//! `admit`: lets new nodes of a quorum vote.

use super::table::table;
use super::{print, print_json};
use crate::exit::Failure;
use crate::harmless::harmless;

/// The exit code when a node doesn't vote.
const NOT_ALL_VOTE: u8 = 1;

/// Shows how the nodes stand; with `yes` lets the new ones vote before.
pub(super) async fn admit(url: &str, yes: bool, json: bool) -> Result<u8, Failure> {
    let nodes = if yes { lockwright::admit(url).await? } else { lockwright::nodes(url).await? };
    if json {
        print_json(&nodes)?;
    } else {
        let rows: Vec<[String; 2]> = nodes
            .iter()
            .map(|node| {
                let problem = node.problem.as_deref().map(|problem| harmless(problem).to_string());
                [node.address.clone(), problem.unwrap_or_else(|| "votes".to_owned())]
            })
            .collect();
        print(&table(["NODE", "VOTE"], &rows))?;
        if !yes && nodes.iter().any(|node| node.is_new) {
            print(
                "nothing was done. If no lock can be held on these nodes, because they are newly \
                 set up or every client\nhas been stopped for the largest TTL: lockwright admit \
                 --yes. If a node lost its data, let it wait.\n",
            )?;
        }
    }
    Ok(if nodes.iter().all(|node| node.votes) { 0 } else { NOT_ALL_VOTE })
}
