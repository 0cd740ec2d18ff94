use std::time::Duration;

pub(crate) use lockwright_conformance::test_helpers::{
    busy, claim, claim_for, eventually, fails, fails_with, grant,
};
use lockwright_redlock::{Config, NodeStatus, Options, Redlock};
use lockwright_testbed::{self as testbed, Fleet};

pub(crate) const NODES: usize = 5;

pub(crate) struct Five {
    pub(crate) fleet: Fleet,
    pub(crate) options: Options,
}

pub(crate) fn options() -> Options {
    Options::new().node_timeout(Duration::from_millis(500))
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
}
