//! The conformance suite on ensembles of three servers.
#![forbid(unsafe_code)]

#[path = "../../../tests/clusters/fragile.rs"]
mod fragile;

use std::process::ExitCode;
use std::time::Duration;

use lockwright_conformance::{Factory, Harm, Protected, harness, problem, protect};
use lockwright_core::fencing::Fenced;
use lockwright_core::{LockName, Result, async_trait};
use lockwright_testbed::ZooKeeper as Cluster;
use lockwright_zookeeper::ZooKeeper;
use lockwright_zookeeper::fencing::commit;
use zookeeper_client as zk;

struct Shelf {
    client: zk::Client,
    value: String,
    fence: String,
}

impl Shelf {
    async fn open(url: String, name: LockName) -> Result<Self> {
        let servers = url.trim_start_matches("zookeeper:");
        let patient = zk::Client::connector().with_session_timeout(Duration::from_secs(20));
        let client = patient.connect(servers).await.map_err(problem)?;
        let name = name.as_str().replace('/', "-");
        let (value, fence) = (format!("/value-{name}"), format!("/fence-{name}"));
        let options = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
        match client.create(&value, b"", &options).await {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(Self { client, value, fence }),
            Err(error) => Err(problem(error)),
        }
    }
}

#[async_trait]
impl Protected for Shelf {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        let text = value.to_string();
        let write =
            |all: &mut zk::MultiWriter<'_>| all.add_set_data(&self.value, text.as_bytes(), None);
        commit(&self.client, &self.fence, fenced, write).await.map(drop)
    }

    async fn read(&self) -> Result<Option<u64>> {
        // This client's server may lag behind the last writer's server, so sync it.
        self.client.sync(&self.value).await.map_err(problem)?;
        let (data, _) = self.client.get_data(&self.value).await.map_err(problem)?;
        Ok(std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok()))
    }
}

async fn connect(url: String) -> Result<ZooKeeper> {
    ZooKeeper::connect(&url).await
}

/// Runs all cases in parallel. Each harmful case has its own ensemble, and the other cases share
/// one.
fn main() -> ExitCode {
    harness::serve(connect, || {
        let ensemble = Cluster::start()?;
        let url = ensemble.url();
        let server = Factory::at(url.clone(), connect)
            .at_a_time(6)
            // The TTL is long, because all cases share one machine.
            .ttl(Duration::from_secs(3))
            .protected(protect(move |name| Shelf::open(url.clone(), name)))
            .fragile(&[Harm::Freeze, Harm::Restart, Harm::Cut], || {
                fragile::fragile(Cluster::start())
            });
        Ok((ensemble, server))
    })
}
