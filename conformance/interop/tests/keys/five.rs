use std::sync::Arc;
use std::time::Duration;

use lockwright_interop::LIMIT;
use lockwright_redlock::{NodeStatus, Redlock};
use lockwright_testbed as testbed;

use crate::scene::{Scene, Start};

const NODES: usize = 5;

/// The servers of a Redlock. A killed server keeps its data, so it votes right after a restart.
pub(crate) struct Five {
    pub(crate) scene: Scene,
    redlock: Arc<Redlock>,
}

impl Five {
    pub(crate) async fn start(start: Start) -> Self {
        let options = testbed::Redis::options().append_only("always");
        let testbed::Fleet { servers, .. } = options.start_fleet(NODES).unwrap();
        let nodes: Vec<String> = servers.iter().map(testbed::Redis::url).collect();
        // A busy machine needs a long timeout. With 1 s, Redlock's shortest TTL is 2 s.
        let url = format!("redlock:{}?node_timeout=1s", nodes.join(","));
        let redlock = Arc::new(Redlock::connect(&url).await.unwrap());
        // New servers vote only after their admission, which is safe, because no lock is held.
        let statuses = redlock.admit().await;
        assert!(all_vote(&statuses), "{statuses:?}");
        let ours = Arc::<Redlock>::clone(&redlock);
        Self { scene: Scene { servers, url, start, ours }, redlock }
    }

    pub(crate) fn kill(&mut self, nodes: [usize; 2]) {
        nodes.into_iter().for_each(|node| self.scene.servers[node].kill());
    }

    pub(crate) async fn bring_back(&mut self, nodes: [usize; 2]) {
        nodes.into_iter().for_each(|node| self.scene.servers[node].restart(true).unwrap());
        self.wait_for(all_vote).await;
    }

    pub(crate) async fn empty(&mut self, node: usize) {
        self.scene.servers[node].restart(false).unwrap();
        self.wait_for(|statuses| matches!(statuses[node].1, NodeStatus::New(_))).await;
    }

    async fn wait_for(&self, so: impl Fn(&[(String, NodeStatus)]) -> bool) {
        let vote = async {
            while !so(&self.redlock.node_statuses().await) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let vote = tokio::time::timeout(LIMIT, vote).await;
        assert!(vote.is_ok(), "{:?}", self.redlock.node_statuses().await);
    }

    pub(crate) fn having(&self, name: &str) -> Vec<usize> {
        let has = |node: &usize| {
            self.scene.servers[*node].command::<usize>(&["EXISTS", name]).is_ok_and(|n| n > 0)
        };
        (0..NODES).filter(has).collect()
    }

    pub(crate) async fn is_had_by(&self, name: &str, nodes: &[usize]) {
        let had = async {
            while self.having(name) != nodes {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let had = tokio::time::timeout(LIMIT, had).await;
        assert!(had.is_ok(), "{name} is on the nodes {:?}, not on {nodes:?}", self.having(name));
    }
}

fn all_vote(statuses: &[(String, NodeStatus)]) -> bool {
    statuses.iter().all(|(_, status)| matches!(status, NodeStatus::Votes))
}
