//! The conformance suite on ensembles of three.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockwright_conformance::{
    Connect, Factory, Fragile, Harm, Protect, Protected, Step, child, connector, harness, protect,
};
use lockwright_core::fencing::Fenced;
use lockwright_core::{Clock, Error, LockName, Result, async_trait};
use lockwright_testbed::{self as testbed, Proxy};
use lockwright_zookeeper::ZooKeeper;
use lockwright_zookeeper::fencing::commit;
use zookeeper_client as zk;

/// Runs all cases in parallel on one ensemble. Each case that harms it gets its own ensemble.
struct Ensemble(testbed::ZooKeeper);

fn to(url: String) -> Connect {
    connector(move || {
        let url = url.clone();
        async move { ZooKeeper::connect(&url).await }
    })
}

fn problem(error: testbed::Error) -> Error {
    Error::unavailable(error.to_string())
}

struct Shelf {
    client: zk::Client,
    value: String,
    fence: String,
}

fn said(error: zk::Error) -> Error {
    Error::unavailable(error.to_string())
}

impl Shelf {
    async fn open(url: String, name: LockName) -> Result<Self> {
        let servers = url.trim_start_matches("zookeeper:");
        // Longer than a busy machine takes.
        let patient = zk::Client::connector().with_session_timeout(Duration::from_secs(20));
        let client = patient.connect(servers).await.map_err(said)?;
        let name = name.as_str().replace('/', "-");
        let (value, fence) = (format!("/value-{name}"), format!("/fence-{name}"));
        let options = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
        match client.create(&value, b"", &options).await {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(Self { client, value, fence }),
            Err(error) => Err(said(error)),
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
        // Its server may lag behind another writer's.
        self.client.sync(&self.value).await.map_err(said)?;
        let (data, _) = self.client.get_data(&self.value).await.map_err(said)?;
        Ok(std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok()))
    }
}

#[async_trait]
impl Factory for Ensemble {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(to(self.0.url()))
    }

    fn at_a_time(&self) -> usize {
        6
    }

    fn ttl(&self) -> Duration {
        // Each grant is a transaction of three servers on a machine that all cases share.
        Duration::from_secs(3)
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.0.url())
    }

    fn protected(&self) -> Option<Protect> {
        let url = self.0.url();
        Some(protect(move |name| Shelf::open(url.clone(), name)))
    }

    fn harms(&self) -> &[Harm] {
        &[Harm::Freeze, Harm::Restart, Harm::Cut]
    }

    async fn fragile(&self) -> Result<Fragile> {
        let ensemble = testbed::ZooKeeper::start().map_err(problem)?;
        let proxies: Vec<Proxy> = ensemble
            .members
            .iter()
            .map(|member| Proxy::start(member.address()))
            .collect::<testbed::Result<_>>()
            .map_err(problem)?;
        let cut_off = to(ensemble.url_through(proxies.iter().map(Proxy::port)));
        let connect = to(ensemble.url());
        let ensemble = Mutex::new(ensemble);
        let harm = move |step| {
            let mut ensemble = ensemble.lock().unwrap_or_else(PoisonError::into_inner);
            match step {
                Step::Begin(Harm::Freeze) => ensemble.members.iter().for_each(|m| m.freeze()),
                Step::End(Harm::Freeze) => ensemble.members.iter().for_each(|m| m.thaw()),
                Step::Begin(Harm::Restart) => ensemble.restart(true).map_err(problem)?,
                Step::Begin(Harm::Cut) => proxies.iter().for_each(Proxy::cut),
                Step::End(Harm::Cut) => proxies.iter().for_each(Proxy::mend),
                Step::Begin(_) | Step::End(_) => {}
            }
            Ok(())
        };
        Ok(Fragile { connect, cut_off, harm: Arc::new(harm) })
    }
}

fn main() -> ExitCode {
    if let Some(code) = child::main(|url| async move { ZooKeeper::connect(&url).await }) {
        return code;
    }
    match testbed::ZooKeeper::start() {
        Ok(ensemble) => harness::main(Ensemble(ensemble)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
