use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use lockwright_bench_protocol::{Library, Result, TTL};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, EventType};

use super::{held, servers};

const LOCKS: &str = "/bench-baseline";
const QUEUES: &str = "/bench-baseline-queues";

const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
const SEQUENTIAL: CreateOptions<'static> =
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

pub(super) struct ZooKeeper {
    client: Client,
    ready: RefCell<HashSet<String>>,
}

impl ZooKeeper {
    async fn make(&self, path: &str) -> Result<()> {
        match self.client.create(path, b"", &PERSISTENT).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn gone(&self, path: &str) -> Result<()> {
        if let (Some(_), watch) = self.client.check_and_watch_stat(path).await?
            && watch.changed().await.event_type != EventType::NodeDeleted
        {
            return Err(format!("{path} can't be watched any more").into());
        }
        Ok(())
    }
}

impl Library for ZooKeeper {
    type Hold = Box<str>;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let connector = Client::connector().with_session_timeout(TTL);
        let client = connector.connect(servers(urls)).await?;
        let baseline = Self { client, ready: RefCell::default() };
        baseline.make(LOCKS).await?;
        baseline.make(QUEUES).await?;
        Ok(baseline)
    }

    async fn lock_alone(&self, name: &str, _ttl: Duration) -> Result<Box<str>> {
        let path = path(LOCKS, name);
        match self.client.create(&path, b"", &EPHEMERAL).await {
            Ok(_) => Ok(path.into()),
            Err(Error::NodeExists) => Err(held(name)),
            Err(error) => Err(error.into()),
        }
    }

    async fn lock(&self, name: &str, _ttl: Duration) -> Result<Box<str>> {
        let queue = path(QUEUES, name);
        if !self.ready.borrow().contains(name) {
            self.make(&queue).await?;
            self.gone(&path(LOCKS, name)).await?;
            self.ready.borrow_mut().insert(name.to_owned());
        }
        let prefix = format!("{queue}/");
        // The server executes the two requests in order, so the list has the new node.
        let (created, nodes) = tokio::join!(
            self.client.create(&prefix, b"", &SEQUENTIAL),
            self.client.list_children(&queue)
        );
        let (_, number) = created?;
        let own = number.to_string();
        // No waiter leaves the queue early, so the predecessor's deletion grants the lock.
        let nodes = nodes?;
        if let Some(before) = nodes.iter().filter(|node| **node < own).max() {
            self.gone(&format!("{prefix}{before}")).await?;
        }
        Ok(format!("{prefix}{own}").into())
    }

    async fn unlock(&self, path: Box<str>) -> Result<()> {
        Ok(self.client.delete(&path, None).await?)
    }
}

fn path(folder: &str, name: &str) -> String {
    format!("{folder}/{}", name.replace('/', "%2F"))
}
