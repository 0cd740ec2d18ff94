use std::time::Duration;

pub(crate) use lockwright_conformance::test_helpers::{
    LIMIT, busy, claim, claim_for, eventually, fails, fails_with, grant,
};
use lockwright_core::{Claim, DistributedLock, Renew};
use lockwright_redlock::{Config, NodeStatus, Options, Redlock};
use lockwright_testbed::{self as testbed, Fleet};

pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) const NODES: usize = 5;

pub(crate) struct Five {
    pub(crate) fleet: Fleet,
    pub(crate) options: Options,
}

pub(crate) fn options() -> Options {
    Options::new().node_timeout(NODE_TIMEOUT)
}

impl Five {
    pub(crate) async fn start() -> Self {
        Self::start_as(testbed::Redis::options(), options()).await
    }

    pub(crate) async fn start_as(servers: testbed::redis::Options, options: Options) -> Self {
        let five = Self { fleet: servers.start_fleet(NODES).unwrap(), options };
        for (address, status) in five.connect().await.admit().await {
            assert!(matches!(status, NodeStatus::Votes), "{address}: {status:?}");
        }
        five
    }

    pub(crate) fn config(&self) -> Config {
        let node = |url: String| lockwright_redis::Config::new(&url).unwrap();
        Config::of(self.fleet.urls().into_iter().map(node).collect(), self.options.clone())
    }

    pub(crate) async fn connect(&self) -> Redlock {
        self.config().connect().await.unwrap()
    }

    pub(crate) fn server(&mut self, at: usize) -> &mut testbed::Redis {
        &mut self.fleet.servers[at]
    }

    pub(crate) fn each(
        &mut self,
        nodes: impl IntoIterator<Item = usize>,
        act: impl Fn(&mut testbed::Redis),
    ) {
        nodes.into_iter().for_each(|at| act(self.server(at)));
    }

    pub(crate) fn holder(&self, at: usize, name: &str) -> Option<String> {
        let value: Option<String> = self.fleet.servers[at].command(&["GET", name]).unwrap();
        value.map(|value| value.split(':').nth(1).unwrap_or_default().to_owned())
    }

    pub(crate) fn holders(&self, claim: &Claim, nodes: impl IntoIterator<Item = usize>) -> usize {
        let token = claim.token.to_string();
        let holds = |at: &usize| self.holder(*at, claim.name.as_str()).as_ref() == Some(&token);
        nodes.into_iter().filter(holds).count()
    }

    /// Waits until all nodes have the claim's hold. Renewals repair nodes that lack it.
    pub(crate) async fn all_hold(&self, redlock: &Redlock, claim: &Claim) {
        let hold = Renew::of(claim);
        eventually(async || {
            if self.holders(claim, 0..NODES) == NODES {
                return Some(());
            }
            tokio::time::sleep(NODE_TIMEOUT / 5).await;
            let _ = redlock.renew(&[hold]).await;
            None
        })
        .await;
    }

    pub(crate) fn held_keys(&self, at: usize) -> Vec<String> {
        let keys: Vec<String> = self.fleet.servers[at].command(&["KEYS", "*"]).unwrap();
        let stays = [":fence", ":ended:", ":certificate"];
        keys.into_iter()
            .filter(|key| {
                !(key.starts_with("lockwright:{") && stays.iter().any(|part| key.contains(part)))
            })
            .collect()
    }

    pub(crate) async fn nothing_is_left(&self, nodes: impl IntoIterator<Item = usize> + Clone) {
        eventually(async || {
            let mut left = nodes.clone().into_iter().flat_map(|at| self.held_keys(at));
            left.next().is_none().then_some(())
        })
        .await;
    }
}
