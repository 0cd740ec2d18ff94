use std::sync::Arc;
use std::time::Duration;

use lockwright_testbed as testbed;

use crate::scene::{Server, Shared, TTL};

pub(crate) fn server() -> Arc<dyn Server> {
    static SHARED: Shared<ZooKeeper> = Shared::new();
    SHARED.get(|| ZooKeeper(testbed::ZooKeeper::options().members(1).start().unwrap()))
}

#[derive(Debug)]
struct ZooKeeper(testbed::ZooKeeper);

impl Server for ZooKeeper {
    fn url(&self) -> String {
        self.0.url()
    }

    fn servers(&self) -> String {
        self.0.members[0].address().to_string()
    }

    fn in_their_words(&self, name: &str) -> String {
        format!("/lockwright/{name}")
    }

    fn below(&self, name: &str, child: &str) -> (String, String) {
        (format!("{}?prefix={}", self.url(), self.in_their_words(name)), child.to_owned())
    }

    fn queue(&self, name: &str) -> Vec<String> {
        // `dump` lists all ephemeral nodes with their sessions.
        let dump = self.0.four_letter(0, "dump").unwrap();
        let below =
            |path: &str| path.trim().strip_prefix(name)?.strip_prefix('/').map(str::to_owned);
        let mut nodes: Vec<String> = dump.lines().filter_map(below).collect();
        nodes.retain(|node| !node.contains('/'));
        nodes.sort_by_key(|node| node[node.len() - 10..].parse::<u64>().expect(node));
        nodes
    }

    fn runs_out_in(&self, _: &str) -> Duration {
        // ZooKeeper doesn't report when a session ends. A client pings after a third of the
        // timeout, or two thirds on a busy machine, so at least a third is left.
        TTL / 3
    }
}
